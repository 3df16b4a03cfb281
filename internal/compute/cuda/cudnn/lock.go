package cudnn

import (
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/paragon-train/paragon/internal/files/lockfile"
)

// Of the wait for another process's measuring: the longest, which is more than a question takes,
// and how often one looks, since a lock on a file has no deadline of its own.
const (
	lockPatience = 20 * time.Second
	lockLook     = 10 * time.Millisecond
)

// lock keeps others from measuring meanwhile: two that do so on one device disturb each other, and
// what one finds out the other then finds in the file. Without a file, or if the other takes too
// long, there is no lock.
func (c *Cache) lock() (unlock func()) {
	none := func() {}
	if c == nil {
		return none
	}
	if err := os.MkdirAll(filepath.Dir(c.path), 0o755); err != nil {
		return none // the choice's own writing says it
	}
	f, err := os.OpenFile(c.path+".lock", os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		c.logf("cudnn: measure while others may: %v", err)
		return none
	}
	look := time.NewTicker(lockLook)
	defer look.Stop()
	late := time.NewTimer(c.patience)
	defer late.Stop()
	for {
		if err = lockfile.Take(f); !errors.Is(err, lockfile.ErrTaken) {
			break
		}
		select {
		case <-look.C:
			continue
		case <-late.C:
		}
		break
	}
	if err != nil {
		c.logf("cudnn: measure while others may: %s: %v", f.Name(), err)
	}

	// Close lets go of the lock.
	return func() { f.Close() }
}
