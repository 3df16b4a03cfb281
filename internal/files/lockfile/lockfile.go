// Package lockfile locks files for the life of a process, so that other processes see whether it
// still runs.
//
// Unix locks by flock, Windows by LockFileEx.
package lockfile

import (
	"errors"
	"fmt"
	"os"
)

// ErrTaken is in the chain of errors of files that another process has.
var ErrTaken = errors.New("another process has it")

// Take takes an open file for this process, until the file is closed or the process ends, however
// it ends.
func Take(f *os.File) error { return lock(f, exclusive) }

// Free reports whether no process has the open file. Then none can take it until f is closed.
func Free(f *os.File) bool { return lock(f, shared) == nil }

// attempts bounds how often Create begins anew.
const attempts = 100

// Create creates a file at path, which only this process uses and only this user may read, and
// locks it. A process that removes unlocked files may remove it before it is locked: then Create
// creates it again.
func Create(path string) (*os.File, error) {
	for range attempts {
		f, err := create(path)
		if err != nil {
			return nil, fmt.Errorf("lockfile: %w", err)
		}

		// It waits for a removal at most.
		if err = lock(f, exclusive|wait); err == nil && At(f, path) {
			return f, nil
		}
		if f.Close(); err != nil {
			return nil, err
		}
	}
	return nil, fmt.Errorf("lockfile: %s was removed %d times before it was taken", path, attempts)
}

// At reports whether the open file is the one at path: it was not removed or replaced.
func At(f *os.File, path string) bool {
	ours, err1 := f.Stat()
	there, err2 := os.Lstat(path)
	return err1 == nil && err2 == nil && os.SameFile(ours, there)
}
