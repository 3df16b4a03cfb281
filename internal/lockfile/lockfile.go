//go:build unix

// Package lockfile takes files for one process, so that others see whether it still lives.
package lockfile

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// ErrTaken is in the chain of errors of files that another process has.
var ErrTaken = errors.New("another process has it")

// Take takes an open file for this process, until the file is closed or the process ends, however it ends.
func Take(f *os.File) error {
	err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return ErrTaken
	}
	if err != nil {
		return fmt.Errorf("lockfile: lock %s: %w", f.Name(), err)
	}
	return nil
}
