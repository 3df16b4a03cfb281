package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/paragon-train/paragon/kvstore"
)

// vocabulary is the number of tokens: one for each byte.
const vocabulary = 256

// textSettings say which text a run trains on and is judged by.
type textSettings struct {
	// files are read one after the other; none: Go's own source.
	files []string

	// validation is the share of the text, at its end, that the model is judged by.
	validation float64
}

func textFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringSliceFlag{Name: "text", Usage: "files of text, or patterns such as 'books/*.txt' (default: the source of Go's standard library, where Go is installed)"},
		&cli.Float64Flag{Name: "validation", Value: 0.1, Usage: "share of the text, at its end, that the model is judged by"},
	}
}

func textFrom(c *cli.Context) textSettings {
	return textSettings{files: c.StringSlice("text"), validation: c.Float64("validation")}
}

func (s *textSettings) validate() error {
	if !(s.validation > 0 && s.validation < 1) {
		return fmt.Errorf("--validation is %v, want above 0 and below 1, such as 0.1", s.validation)
	}
	return nil
}

// name is what the text is called in a title.
func (s *textSettings) name() string {
	if len(s.files) == 0 {
		return "Go's standard library"
	}
	return strings.Join(s.files, ", ")
}

// load reads the text, and cuts it into windows of length bytes.
func (s *textSettings) load(length int) (train, test *windows, err error) {
	text, err := s.read()
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			err = kvstore.Final(err)
		}
		return nil, nil, err
	}
	cut := len(text) - int(s.validation*float64(len(text)))
	train, test = &windows{text[:cut], length}, &windows{text[cut:], length}
	for of, w := range map[string]*windows{"to train on": train, "to judge the model by": test} {
		if w.Len() == 0 {
			return nil, nil, kvstore.Final(fmt.Errorf("--text has %d bytes %s, want more than the %d of --context", len(w.text), of, length))
		}
	}
	return train, test, nil
}

func (s *textSettings) read() ([]byte, error) {
	patterns := s.files
	if len(patterns) == 0 {
		root, err := goRoot()
		if err != nil {
			return nil, err
		}
		for _, p := range sources {
			patterns = append(patterns, filepath.Join(root, "src", p, "*.go"))
		}
	}
	var text []byte
	for _, pattern := range patterns {
		names, err := filepath.Glob(pattern)
		if err != nil {
			return nil, kvstore.Final(fmt.Errorf("--text %s: %w", pattern, err))
		}
		if len(s.files) == 0 {
			names = slices.DeleteFunc(names, func(name string) bool { return strings.HasSuffix(name, "_test.go") })
		}
		if len(names) == 0 {
			return nil, fmt.Errorf("--text %s: %w", pattern, fs.ErrNotExist)
		}
		for _, name := range names {
			one, err := os.ReadFile(name)
			if err != nil {
				return nil, fmt.Errorf("--text: %w", err)
			}
			text = append(text, one...)
		}
	}
	return text, nil
}

// sources are the packages whose source is the text by default: about 3 MB.
var sources = []string{"bufio", "bytes", "context", "encoding/json", "errors", "fmt", "go/ast", "go/parser", "go/printer", "io", "math/big", "net/http", "os", "reflect", "sort", "strconv", "strings", "sync", "text/template", "time"}

// goRoot is where Go is installed.
func goRoot() (string, error) {
	if root := os.Getenv("GOROOT"); root != "" {
		return root, nil
	}
	out, err := exec.Command("go", "env", "GOROOT").Output()
	if root := strings.TrimSpace(string(out)); err == nil && root != "" {
		return root, nil
	}
	return "", kvstore.Final(errors.New("--text is empty, and Go is not installed, whose source would be the text; give --text FILE, any text of some hundred kilobytes"))
}

// windows are pieces of a text, each of length bytes and the one behind them, which is the first of
// the next window: every byte is to be foretold once.
type windows struct {
	text   []byte
	length int
}

// Len implements worker.Windows.
func (w *windows) Len() int { return max(0, len(w.text)-1) / w.length }

// Length implements worker.Windows.
func (w *windows) Length() int { return w.length }

// ReadPair implements worker.Windows.
func (w *windows) ReadPair(_ context.Context, i int, inputs, targets []int32) error {
	if i < 0 || i >= w.Len() {
		return fmt.Errorf("got window %d, want 0 to %d", i, w.Len()-1)
	}
	at := i * w.length
	for k := range w.length {
		inputs[k], targets[k] = int32(w.text[at+k]), int32(w.text[at+k+1])
	}
	return nil
}

// Fingerprint tells one text from another.
func (w *windows) Fingerprint() string {
	return fmt.Sprintf("bytes:%d:%x", w.length, sha256.Sum256(w.text))
}
