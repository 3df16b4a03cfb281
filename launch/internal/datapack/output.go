package datapack

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// partSuffix ends the names of files that are not whole yet.
const partSuffix = ".part"

// An output has the files that are being written. They get their names when all are whole.
type output struct {
	overwrite bool
	// old are the files that give way.
	old []string
	// names are the names of the files that were begun, without partSuffix.
	names []string
	// files are what the summary says.
	files []File
}

// check wants the folder, and no files of an earlier run in it, unless they may be overwritten.
func (o *output) check(prefix string, tar bool) error {
	if info, err := os.Stat(filepath.Dir(prefix)); errors.Is(err, fs.ErrNotExist) || err == nil && !info.IsDir() {
		return fmt.Errorf("there is no folder %s for the files of %s; make it first", filepath.Dir(prefix), filepath.Base(prefix))
	}
	old, err := existing(prefix, tar)
	if err != nil {
		return err
	}
	if len(old) > 0 && !o.overwrite {
		return fmt.Errorf("%s exists; remove it, or replace it with --overwrite", old[0])
	}
	o.old = append(o.old, old...)
	return nil
}

// existing are the files of this prefix that are there.
func existing(prefix string, tar bool) (names []string, err error) {
	if !tar {
		for _, name := range []string{prefix + ".rec", prefix + ".idx"} {
			if _, err := os.Lstat(name); err == nil {
				names = append(names, name)
			} else if !errors.Is(err, fs.ErrNotExist) {
				return nil, err
			}
		}
		return names, nil
	}
	all, err := os.ReadDir(filepath.Dir(prefix))
	if err != nil {
		return nil, fmt.Errorf("the folder of %s.tar: %w", prefix, err)
	}
	for _, e := range all {
		number, ok := strings.CutPrefix(e.Name(), filepath.Base(prefix)+"-")
		number, tar := strings.CutSuffix(number, ".tar")
		if ok && tar && number != "" && strings.Trim(number, "0123456789") == "" {
			names = append(names, filepath.Join(filepath.Dir(prefix), e.Name()))
		}
	}
	return names, nil
}

// A fileWriter writes one file.
type fileWriter struct {
	f *os.File
	*bufio.Writer
	// ended is told how many bytes were written.
	ended func(bytes int64)
	bytes int64
}

// create begins a file.
func (o *output) create(name string, ended func(bytes int64)) (*fileWriter, error) {
	f, err := os.Create(name + partSuffix)
	if err != nil {
		return nil, err
	}
	o.names = append(o.names, name)
	w := &fileWriter{f: f, ended: ended}
	w.Writer = bufio.NewWriterSize(f, 1<<20)
	return w, nil
}

// Write implements io.Writer.
func (w *fileWriter) Write(p []byte) (int, error) {
	n, err := w.Writer.Write(p)
	w.bytes += int64(n)
	return n, err
}

// Close ends the file: all of it is on the disk then.
func (w *fileWriter) Close() error {
	err := w.Flush()
	if err == nil {
		err = w.f.Sync()
	}
	if err := errors.Join(err, w.f.Close()); err != nil {
		return err
	}
	w.ended(w.bytes)
	return nil
}

// commit gives the files their names. Old ones go first, so that a .rec file never has the index of
// another one.
func (o *output) commit() error {
	for _, name := range o.old {
		if err := os.Remove(name); err != nil {
			return errors.Join(err, o.discard())
		}
	}
	for _, name := range o.names {
		if err := os.Rename(name+partSuffix, name); err != nil {
			return err
		}
	}
	return nil
}

// discard removes what was begun.
func (o *output) discard() error {
	var errs []error
	for _, name := range o.names {
		if err := os.Remove(name + partSuffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
