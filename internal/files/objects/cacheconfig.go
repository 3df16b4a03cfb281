package objects

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/paragon-train/paragon/internal/files/vfs"
)

// A CacheConfig says where a Cache keeps what it has read.
type CacheConfig struct {
	// Dir is the cache's folder, which is made. All processes of a host may share it, for any
	// data.
	Dir string
	// Bytes bounds the folder's size; 0 means 64 GiB. It is at least that of 16 blocks.
	Bytes int64
	// Block is the size of the blocks in which objects are read and kept; 0 means 4 MiB. It is
	// a multiple of 64 KiB, up to 64 MiB.
	Block int64
	// Wait is how long a read waits for another process that fetches its block; 0 means 30 s.
	Wait time.Duration
	// Logger is told when blocks cannot be kept; nil means slog.Default.
	Logger *slog.Logger

	// fs has the files of blocks; nil means the machine's. Tests have faulty ones.
	fs vfs.FS
}

// leastBlocks is how many blocks a cache has room for at least: what is fetched at once must not
// drive out what has just come.
const leastBlocks = 16

func (c CacheConfig) withDefaults() CacheConfig {
	c.Bytes = cmp.Or(c.Bytes, 64<<30)
	c.Block = cmp.Or(c.Block, 4<<20)
	c.Wait = cmp.Or(c.Wait, 30*time.Second)
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	if c.fs == nil {
		c.fs = vfs.OS{}
	}
	return c
}

// Validate names the field that is wrong, after defaults.
func (c CacheConfig) Validate() error {
	c = c.withDefaults()
	switch {
	case c.Dir == "":
		return errors.New("objects: cache: got no Dir")
	case c.Block%blockPage != 0 || c.Block < 0 || c.Block > 64<<20:
		return fmt.Errorf("objects: cache %s: got Block %d, want a multiple of %d up to %d", c.Dir, c.Block, blockPage, 64<<20)
	case c.Bytes < leastBlocks*blockFileSize(c.Block):
		return fmt.Errorf("objects: cache %s: got a bound of %d bytes, want at least the %d of %d blocks", c.Dir, c.Bytes, leastBlocks*blockFileSize(c.Block), leastBlocks)
	}
	return nil
}
