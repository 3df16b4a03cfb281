//go:build unix

package fake

import (
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// lock waits until no other process has the folder. A process that ends gives it back.
func lock(folder string) (unlock func(), err error) {
	f, err := os.OpenFile(filepath.Join(folder, lockFile), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		f.Close()
		return nil, err
	}
	return func() { f.Close() }, nil
}
