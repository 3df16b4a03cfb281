// Package sidecar keeps what was made of a data file, such as its index, so that it is made once:
// beside the data file if that lies in a local folder that can be written, else in a folder for
// such files.
package sidecar

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/paragon-train/paragon/internal/files/objects"
)

// ErrNoPlace is the error of Write where there is no folder to write to.
var ErrNoPlace = errors.New("the data is not in a local folder, and there is no folder for indices")

// A Place is where the files that belong to one data file may be.
type Place struct {
	Store  objects.Store
	Object objects.Info
	// CacheDir has files of data that cannot have them beside it; empty: there is no such
	// folder.
	CacheDir string
}

// Local reports whether a store's objects are files of this machine's file system.
func Local(store objects.Store) bool { return filepath.IsAbs(store.URL()) }

// beside is the path of an object of the same store that is named name; empty: the store is not
// local.
func (p Place) beside(name string) string {
	if !Local(p.Store) || !filepath.IsLocal(filepath.FromSlash(name)) {
		return ""
	}
	return filepath.Join(p.Store.URL(), filepath.FromSlash(name))
}

// cached is the path in CacheDir of a file that belongs to this very version of the data.
func (p Place) cached(name string) string {
	if p.CacheDir == "" {
		return ""
	}
	h := sha256.New()
	fmt.Fprintf(h, "%q %q %d %q %q", p.Store.URL(), p.Object.Name, p.Object.Size, p.Object.Version, name)
	return filepath.Join(p.CacheDir, hex.EncodeToString(h.Sum(nil)[:16])+filepath.Ext(name))
}

// OpenCached opens the file that Write left in CacheDir under that name; the error is
// fs.ErrNotExist if there is none.
func (p Place) OpenCached(name string) (*os.File, error) {
	path := p.cached(name)
	if path == "" {
		return nil, os.ErrNotExist
	}
	return os.Open(path)
}

// Write makes a file named name, as an object of the data's store would be named, and says where:
// beside the data, or in CacheDir. A reader sees all of it or nothing.
func (p Place) Write(name string, write func(w io.Writer) error) (path string, err error) {
	err = ErrNoPlace
	if path = p.beside(name); path != "" {
		if err = replace(path, write); err == nil {
			return path, nil
		}
	}
	if path = p.cached(name); path != "" {
		if err = os.MkdirAll(p.CacheDir, 0o777); err == nil {
			err = replace(path, write)
		}
	}
	if err != nil {
		return "", err
	}
	return path, nil
}

// replace writes a file under another name and gives it its own at the end.
func replace(path string, write func(w io.Writer) error) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*.part")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			f.Close()
			os.Remove(f.Name())
		}
	}()
	w := bufio.NewWriter(f)
	if err := write(w); err != nil {
		return err
	}
	if err := w.Flush(); err != nil {
		return err
	}
	// CreateTemp makes files for their owner alone; others may read the data, so they may read
	// this.
	if err := f.Chmod(0o644); err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}
