package cudnn

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// ChoicesVersion is part of a choice's key. It goes up when plans of the same name become something
// else.
const ChoicesVersion = 2

// A Choice is which engine was the fastest for a question.
type Choice struct {
	Engine string `json:"engine"`

	// Nanoseconds is the time of one run.
	Nanoseconds int64 `json:"nanoseconds"`

	// Candidates is how many it was compared with, itself included.
	Candidates int `json:"candidates"`
}

// Key is what a choice is remembered under: the question with its shapes and types, the device, the
// library's version and this package's. Another device or library chooses anew.
func (h *Handle) Key(question string) string {
	return fmt.Sprintf("%s | %s | cudnn %v | choices %d", question, h.ctx.Info().Name, h.version, ChoicesVersion)
}

// A Cache remembers choices in a JSON file: an object from keys to choices. Its methods may be
// called together, on a nil *Cache too, which knows nothing. Processes may share the file: each
// adds its choices to what is there, and of two that write at once one may lose its own, which
// costs the next start a measurement.
type Cache struct {
	path string
	logf func(format string, args ...any)

	// patience is that with another process that measures.
	patience time.Duration

	mu      sync.Mutex // guards choices and the file's writing
	choices map[string]Choice
}

// maxCacheBytes is the largest file that is read.
const maxCacheBytes = 16 << 20

// DefaultCachePath is where choices are kept unless told otherwise: in the user's folder of caches,
// or among temporary files where the user has no home, as in some containers.
func DefaultCachePath() string {
	dir, err := os.UserCacheDir()
	if err != nil {
		dir = filepath.Join(os.TempDir(), fmt.Sprintf("cache-%d", os.Getuid()))
	}
	return filepath.Join(dir, "paragon", "cudnn-choices.json")
}

// OpenCache reads the file. If there is none, or it cannot be read, the cache is empty; the latter
// is logged to logf, which may be nil.
func OpenCache(path string, logf func(format string, args ...any)) *Cache {
	if logf == nil {
		logf = func(string, ...any) {}
	}
	c := &Cache{path: path, logf: logf, patience: lockPatience}
	c.choices = c.read()
	return c
}

// read gives the file's choices, or none.
func (c *Cache) read() map[string]Choice {
	choices, err := readChoices(c.path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		c.logf("cudnn: the choices of engines are made anew: %v", err)
	}
	if choices == nil {
		choices = make(map[string]Choice)
	}
	return choices
}

func readChoices(path string) (map[string]Choice, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxCacheBytes+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxCacheBytes {
		return nil, fmt.Errorf("%s: got more than %d bytes", path, maxCacheBytes)
	}
	return parseChoices(path, text)
}

func parseChoices(path string, text []byte) (map[string]Choice, error) {
	var choices map[string]Choice
	if err := json.Unmarshal(text, &choices); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	for key, choice := range choices {
		if choice.Engine == "" {
			return nil, fmt.Errorf("%s: %q has no engine", path, key)
		}
	}
	return choices, nil
}

// Get looks a choice up, also among those that others wrote since.
func (c *Cache) Get(key string) (Choice, bool) {
	if c == nil {
		return Choice{}, false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	choice, ok := c.choices[key]
	if !ok {
		// What is wrong with the file was said when it was opened.
		if others, err := readChoices(c.path); err == nil {
			choice, ok = others[key]
		}
	}
	return choice, ok
}

// Put remembers a choice, and writes the file in one step: a reader sees the old one or the new
// one.
func (c *Cache) Put(key string, choice Choice) error {
	if c == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	// What others added since.
	all := c.read()
	maps.Copy(all, c.choices)
	all[key] = choice
	c.choices = all
	if err := c.write(); err != nil {
		return fmt.Errorf("cudnn: write the choices of engines: %w", err)
	}
	return nil
}

// relatives are the engines that were chosen for the question of a key with other numbers of
// images.
func (c *Cache) relatives(key string) map[string]bool {
	if c == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	var found map[string]bool
	for k, choice := range c.choices {
		if k != key && anyImages(k) == anyImages(key) {
			if found == nil {
				found = make(map[string]bool)
			}
			found[choice.Engine] = true
		}
	}
	return found
}

// anyImages is a key without the number of images: "forward convolution of N512 C64" becomes
// "forward convolution of N C64".
func anyImages(key string) string {
	before, after, ok := strings.Cut(key, " of N")
	if !ok {
		return key
	}
	return before + " of N" + strings.TrimLeft(after, "0123456789")
}

// broken reports whether an engine broke the device when it was tried for a question, and breaks
// writes that down: the next start leaves it out.
func (c *Cache) broken(key, engine string) bool {
	if c == nil {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	_, ok := c.choices[key+" | broken by "+engine]
	return ok
}

func (c *Cache) breaks(key, engine string) {
	if err := c.Put(key+" | broken by "+engine, Choice{Engine: engine}); err != nil {
		c.logf("%v", err)
	}
}

func (c *Cache) write() error {
	// The choices are in the order of keys.
	text, err := json.MarshalIndent(c.choices, "", "\t")
	if err != nil {
		return err
	}
	dir := filepath.Dir(c.path)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}

	// The file has a name of its own, since others may write too.
	f, err := os.CreateTemp(dir, filepath.Base(c.path)+".*.tmp")
	if err != nil {
		return err
	}
	_, err = f.Write(append(text, '\n'))
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), c.path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}
