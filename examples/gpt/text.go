package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/paragon-train/paragon/data/text"
	"github.com/paragon-train/paragon/kvstore"
	"github.com/paragon-train/paragon/worker"
)

// textSettings say which text a run trains on and is judged by.
type textSettings struct {
	// files are read one after the other; none: Go's own source.
	files []string

	// tokenizer is a folder or file with a model's tokenizer; none: the tokens are bytes.
	tokenizer string

	// validation is the share of the text, at its end, that the model is judged by.
	validation float64
}

func textFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringSliceFlag{Name: "text", Usage: "files of text, or patterns such as 'books/*.txt' (default: the source of Go's standard library, where Go is installed)"},
		&cli.StringFlag{Name: "tokenizer", Usage: "folder of a model with its tokenizer, such as GPT-2's (tokenizer.json, or vocab.json and merges.txt), or a tokenizer.json (default: each byte is a token)"},
		&cli.Float64Flag{Name: "validation", Value: 0.1, Usage: "share of the text, at its end, that the model is judged by"},
	}
}

func textFrom(c *cli.Context) textSettings {
	return textSettings{files: c.StringSlice("text"), tokenizer: c.String("tokenizer"), validation: c.Float64("validation")}
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

// unit is what tokens are called.
func (s *textSettings) unit() string {
	if s.tokenizer == "" {
		return "bytes"
	}
	return "tokens"
}

// open reads the tokenizer.
func (s *textSettings) open() (text.Tokenizer, error) {
	if s.tokenizer == "" {
		return text.Bytes{}, nil
	}
	t, err := text.Open(s.tokenizer)
	if err != nil {
		return nil, kvstore.Final(fmt.Errorf("--tokenizer: %w", err))
	}
	return t, nil
}

// windows are those of a part of the text.
type windows interface {
	worker.Windows

	NumTokens() int64
	Fingerprint() string
}

// load reads the text, and cuts it into windows of length tokens, which overlap by one: each token
// is to be foretold once.
func (s *textSettings) load(t text.Tokenizer, length int) (train, test windows, err error) {
	all, err := s.read()
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			err = kvstore.Final(err)
		}
		return nil, nil, err
	}
	cut := len(all) - int(s.validation*float64(len(all)))
	if train, err = s.cut(t, all[:cut], length, "to train on"); err != nil {
		return nil, nil, err
	}
	test, err = s.cut(t, all[cut:], length, "to judge the model by")
	return train, test, err
}

// cut cuts a part of the text into windows.
func (s *textSettings) cut(t text.Tokenizer, part []byte, length int, what string) (w windows, err error) {
	n := len(part)
	if s.tokenizer == "" {
		w, err = text.NewWindows(part, length)
	} else {
		tokens := t.Append(nil, string(part))
		n = len(tokens)
		w, err = text.NewWindows(tokens, length)
	}
	if err != nil {
		return nil, kvstore.Final(fmt.Errorf("--text has %d %s %s, want more than the %d of --context", n, s.unit(), what, length))
	}
	return w, nil
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
	var all []byte
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
			all = append(all, one...)
		}
	}
	return all, nil
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
