// Package state lists and copies the folder in which a command keeps its state while the command
// runs on.
package state

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// List names the files below dir, with their sizes and times.
func List(dir string) (string, error) {
	var b []byte
	err := walkFiles(dir, func(path string, info fs.FileInfo) error {
		b = append(b, line(path, info)...)
		return nil
	})
	return string(b), err
}

// line is a file in the text of List. Size and time tell whether it was written since.
func line(path string, info fs.FileInfo) string {
	return fmt.Sprintf("%q %d %d\n", path, info.Size(), info.ModTime().UnixNano())
}

// Copy copies the regular files below from. One that goes away meanwhile is left out: a program
// that writes a file under another name and renames it may do so at any time.
func Copy(to, from string) error { return CopySince(to, from, "") }

// CopySince is Copy without the files that were the same when List returned this.
func CopySince(to, from, list string) error { return copyFiles(to, from, list, false) }

// CopySame is Copy of those files alone.
func CopySame(to, from, list string) error { return copyFiles(to, from, list, true) }

// copyFiles copies the files that the list has, if same is set, and else the others.
func copyFiles(to, from, list string, same bool) error {
	listed := make(map[string]bool)
	for line := range strings.Lines(list) {
		listed[line] = true
	}
	return walkFiles(from, func(path string, info fs.FileInfo) error {
		if listed[line(path, info)] != same {
			return nil
		}
		r, err := os.Open(filepath.Join(from, path))
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		defer r.Close()
		if err := os.MkdirAll(filepath.Dir(filepath.Join(to, path)), 0o777); err != nil {
			return err
		}
		w, err := os.OpenFile(filepath.Join(to, path), os.O_CREATE|os.O_EXCL|os.O_WRONLY, info.Mode().Perm()|0o200)
		if err != nil {
			return err
		}
		_, err = io.Copy(w, r)
		return errors.Join(err, w.Close())
	})
}

// walkFiles calls f for the regular files below dir, with their paths in it.
func walkFiles(dir string, f func(path string, info fs.FileInfo) error) error {
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		var info fs.FileInfo
		if err == nil && d.Type().IsRegular() {
			info, err = d.Info()
		}
		if errors.Is(err, fs.ErrNotExist) && path != dir {
			return nil
		}
		if err != nil || info == nil {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		return f(rel, info)
	})
}
