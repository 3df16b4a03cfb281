// Package scratch makes temporary folders that do not outlive their process.
//
// A folder is removed by its owner or, if that was killed, by the next process that makes one or
// calls Sweep. The owner holds a lock on a file in its folder, which the kernel releases when the
// process ends in whatever way: a folder whose lock is free has no owner any more. Only folders
// that this package made for this user on this host are removed.
package scratch

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"regexp"

	"github.com/paragon-train/paragon/internal/files/lockfile"
)

// A Folder is a temporary folder of this process.
type Folder struct {
	Path string
	lock *os.File
}

// name is what folders are called: paragon-KIND-NUMBER.
var name = regexp.MustCompile(`^paragon-[a-z]+-[0-9]+$`)

// attempts bounds how often New begins anew because a sweep came between.
const attempts = 100

// New makes a folder in os.TempDir for this user alone, and removes those that killed processes
// left. kind is a word of small letters.
func New(kind string) (*Folder, error) {
	Sweep()
	for range attempts {
		path, err := os.MkdirTemp("", "paragon-"+kind+"-")
		if err != nil {
			return nil, fmt.Errorf("scratch: %w", err)
		}
		lock, err := lockfile.Create(filepath.Join(path, lockName()))
		if err == nil {
			return &Folder{path, lock}, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return nil, errors.Join(fmt.Errorf("scratch: %w", err), os.RemoveAll(path))
		}
	}
	return nil, fmt.Errorf("scratch: %d new folders in %s were removed by others at once", attempts, os.TempDir())
}

// Remove removes the folder with all that is in it.
func (f *Folder) Remove() error { return errors.Join(remove(f.Path), f.lock.Close()) }

// remove removes a folder, its lock last: where something stays, a later sweep still knows the
// folder.
func remove(path string) error {
	entries, err := os.ReadDir(path)
	for _, e := range entries {
		if e.Name() != lockName() {
			err = errors.Join(err, os.RemoveAll(filepath.Join(path, e.Name())))
		}
	}
	if err != nil {
		return err
	}
	return os.RemoveAll(path)
}

// lockName has the host's name: on a network file system locks of other hosts may not be seen.
func lockName() string {
	host, _ := os.Hostname()
	return "paragon.lock." + url.PathEscape(host)
}

// Sweep removes the folders of processes that no longer run. What cannot be removed stays.
func Sweep() {
	dir := os.TempDir()
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		if e.IsDir() && name.MatchString(e.Name()) {
			sweep(filepath.Join(dir, e.Name()))
		}
	}
}

func sweep(path string) {
	info, err := os.Lstat(path)
	if err != nil || !info.IsDir() || !ours(path, info) {
		return
	}
	file := filepath.Join(path, lockName())
	lock, err := lockfile.Open(file)
	if errors.Is(err, fs.ErrNotExist) {
		// It has just been made, or its maker was killed before it took it. Only an empty
		// folder goes, and who was about to take it makes another one.
		removeEmpty(path)
		return
	}
	if err != nil {
		return
	}
	defer lock.Close()
	if lockfile.Free(lock) && lockfile.At(lock, file) {
		remove(path)
	}
}
