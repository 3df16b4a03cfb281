package datapack

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/paragon-train/paragon/data"
)

// classesFile is the file of the classes' names.
func (c *Config) classesFile() string { return filepath.Join(filepath.Dir(c.Output), data.ClassesFile) }

// classesText is what the file has.
func (c *Config) classesText() []byte { return []byte(strings.Join(c.Classes, "\n") + "\n") }

// checkClasses is an error if the file of classes is there and names others: files beside each
// other would have other labels for the same classes.
func (c *Config) checkClasses() error {
	for _, name := range c.Classes {
		if name == "" || strings.ContainsAny(name, "\r\n") {
			return fmt.Errorf("got a class named %q, want a name that fits on a line of %s", name, data.ClassesFile)
		}
	}
	old, err := os.ReadFile(c.classesFile())
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case len(c.Classes) == 0:
		return nil
	case !bytes.Equal(bytes.ReplaceAll(old, []byte("\r\n"), []byte("\n")), c.classesText()):
		return fmt.Errorf("%s names other classes than these %d, so the files beside it have other labels; give --classes %[1]s for the same ones, "+
			"or another folder for the output", c.classesFile(), len(c.Classes))
	}
	return nil
}

// writeClasses writes the file of classes if there are some.
func (c *Config) writeClasses(out *output) error {
	if len(c.Classes) == 0 {
		return nil
	}
	w, err := out.create(c.classesFile(), func(int64) {})
	if err != nil {
		return err
	}
	_, err = w.Write(c.classesText())
	return errors.Join(err, w.Close())
}
