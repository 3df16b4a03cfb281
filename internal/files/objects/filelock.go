package objects

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/paragon-train/paragon/internal/files/lockfile"
)

// A fileLock is the right of one process to make a file, such as a block's.
type fileLock struct {
	f    *os.File
	path string
}

const (
	lockSuffix = ".lock"
	partSuffix = ".part"
)

// takeLock takes the lock of a file that need not be there, or says by lockfile.ErrTaken that
// somebody has it.
func takeLock(file string) (*fileLock, error) {
	path := file + lockSuffix
	for {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o666)
		if errors.Is(err, fs.ErrNotExist) {
			if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
				return nil, err
			}
			continue
		}
		if err != nil {
			return nil, err
		}
		if err := lockfile.Take(f); err != nil {
			f.Close()
			return nil, err
		}
		if lockfile.At(f, path) {
			return &fileLock{f, path}, nil
		}
		f.Close() // Whoever had it removed it meanwhile.
	}
}

func (l *fileLock) unlock() {
	// A file that stays is taken by the next one who locks.
	_ = os.Remove(l.path)
	_ = l.f.Close()
}

// poll is how long a process waits until it looks again whether another one has fetched a block.
const poll = 10 * time.Millisecond
