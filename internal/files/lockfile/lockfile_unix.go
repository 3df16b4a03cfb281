//go:build unix

package lockfile

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// How lock locks: flags of flock, which waits unless it is told not to.
const (
	shared    = unix.LOCK_SH
	exclusive = unix.LOCK_EX
	wait      = 1 << 16
)

func lock(f *os.File, how int) error {
	if how&wait == 0 {
		how |= unix.LOCK_NB
	}
	for {
		err := unix.Flock(int(f.Fd()), how&^wait)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.EWOULDBLOCK):
			return ErrTaken
		default:
			return fmt.Errorf("lockfile: lock %s: %w", f.Name(), err)
		}
	}
}

// create creates or empties the file. A link in its place is an error.
func create(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_TRUNC|unix.O_NOFOLLOW, 0o600)
}

// Open opens the file at path for Free. A link in its place is an error.
func Open(path string) (*os.File, error) { return os.OpenFile(path, os.O_RDWR|unix.O_NOFOLLOW, 0) }
