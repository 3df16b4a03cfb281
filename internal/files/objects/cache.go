package objects

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/paragon-train/paragon/internal/files/lockfile"
	"github.com/paragon-train/paragon/internal/files/vfs"
)

// A Cache is a Store over another one that keeps what was read in blocks on the local disk.
//
// A block's file has its name by the store's URL and the object's name, version and range: an
// object that changes has other blocks. Its checksums are verified by each read; a block that is
// damaged is fetched anew. Blocks get their names when they are complete, so that a killed process
// leaves none that is not. One process of a host fetches a block while others wait for it. When the
// folder is full, the blocks go that were not used for longest. An object without a version is not
// kept.
//
// A disk that is full or fails costs a warning, and reads go on without it.
type Cache struct {
	store Store
	cfg   CacheConfig
	space *cacheSpace

	// mu guards the fields below.
	mu sync.Mutex

	fetches map[string]*blockFetch

	// failed is when a block could not be kept; zero: not yet.
	failed time.Time
}

// A blockFetch is a fetch of a block that is under way in this process.
type blockFetch struct {
	// done is closed when data or err is there.
	done chan struct{}

	// data is nil if the block was not fetched whole.
	data []byte

	err error
}

// NewCache makes a Cache over a store. Its Close closes the store, too.
func NewCache(store Store, cfg CacheConfig) (*Cache, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	if err := os.MkdirAll(cfg.Dir, 0o777); err != nil {
		return nil, fmt.Errorf("objects: cache: %w", err)
	}
	c := &Cache{store: store, cfg: cfg, space: &cacheSpace{cfg}, fetches: map[string]*blockFetch{}}
	// A folder that cannot be written is an error at once. One over the bound shrinks.
	switch err := c.space.reserve("", 0); {
	case err != nil && vfs.Full(err):
		c.rest(err)
	case err != nil:
		return nil, fmt.Errorf("objects: cache %s: %w", cfg.Dir, cause(err))
	}
	return c, nil
}

// URL implements Store.
func (c *Cache) URL() string { return c.store.URL() }

// List implements Store.
func (c *Cache) List(ctx context.Context, prefix string) iter.Seq2[Info, error] {
	return c.store.List(ctx, prefix)
}

// Stat implements Store.
func (c *Cache) Stat(ctx context.Context, name string) (Info, error) { return c.store.Stat(ctx, name) }

// Folders passes on what the store knows of folders.
func (c *Cache) Folders(ctx context.Context) ([]string, error) { return foldersOf(ctx, c.store) }

// Close implements Store. The blocks stay.
func (c *Cache) Close() error { return c.store.Close() }

// ReadRange implements Store.
func (c *Cache) ReadRange(ctx context.Context, object Info, p []byte, off int64) error {
	if object.Version == "" || CheckRange(object, p, off) != nil {
		return c.store.ReadRange(ctx, object, p, off)
	}
	for len(p) > 0 {
		begin := off / c.cfg.Block * c.cfg.Block
		b := cacheBlock{object: object, off: begin, length: min(c.cfg.Block, object.Size-begin)}
		b.name = b.nameIn(c.store.URL())
		n := min(int64(len(p)), begin+b.length-off)
		if err := c.readBlock(ctx, b, p[:n], off-begin); err != nil {
			return err
		}
		p, off = p[n:], off+n
	}
	return nil
}

// A cacheBlock is one block of an object.
type cacheBlock struct {
	object      Info
	off, length int64

	// name is the name of the block's file.
	name string
}

func (b cacheBlock) nameIn(url string) string {
	h := sha256.New()
	fmt.Fprintf(h, "%q %q %q %d %d %d", url, b.object.Name, b.object.Version, b.object.Size, b.off, b.length)
	return hex.EncodeToString(h.Sum(nil)[:20])
}

// path is where a block's file is.
func (c *Cache) path(b cacheBlock) string {
	return filepath.Join(c.cfg.Dir, blockDir(b.name), b.name)
}

// blockDir spreads blocks over 256 folders.
func blockDir(name string) string { return name[:2] }

// readBlock reads from a block: from the disk, or from where the object is.
func (c *Cache) readBlock(ctx context.Context, b cacheBlock, p []byte, off int64) error {
	for {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("objects: read %s in %s: %w", b.object.Name, c.URL(), context.Cause(ctx))
		}
		if c.fromDisk(b, p, off) {
			return nil
		}
		fetch, mine := c.join(b.name)
		if mine {
			fetch.data, fetch.err = c.fetch(ctx, b)
			c.mu.Lock()
			delete(c.fetches, b.name)
			c.mu.Unlock()
			close(fetch.done)
		} else {
			select {
			case <-fetch.done:
			case <-ctx.Done():
				continue
			}
		}
		switch {
		case fetch.data != nil:
			copy(p, fetch.data[off:])
			return nil
		case fetch.err == nil:
			// Another process may have fetched the bytes meanwhile.
			if c.fromDisk(b, p, off) {
				return nil
			}
		case !mine && ctx.Err() == nil && errors.Is(fetch.err, context.Canceled):
			// Whoever fetched the block has given up, which is no reason for this caller to do so.
			continue
		}
		// The error is then about the bytes that were asked for, not about the block.
		return c.store.ReadRange(ctx, b.object, p, b.off+off)
	}
}

// join returns the fetch of a block in this process, and whether the caller is the one to fetch.
func (c *Cache) join(name string) (fetch *blockFetch, mine bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if fetch = c.fetches[name]; fetch != nil {
		return fetch, false
	}
	fetch = &blockFetch{done: make(chan struct{})}
	c.fetches[name] = fetch
	return fetch, true
}

// fromDisk reads from a block on the disk, if it is there and sound.
func (c *Cache) fromDisk(b cacheBlock, p []byte, off int64) bool {
	err := readBlockFile(c.path(b), b.length, p, off)
	if errors.Is(err, errDamaged) {
		c.cfg.Logger.Warn("a block of the data's cache is damaged; fetching it anew", "object", b.object.Name, "file", c.path(b), "err", err)

		// A file that cannot be removed will be replaced.
		_ = os.Remove(c.path(b))
	}
	return err == nil
}

// fetch fetches a block and keeps it. Without data and error it is on the disk.
func (c *Cache) fetch(ctx context.Context, b cacheBlock) ([]byte, error) {
	if c.resting() {
		return nil, errNotKept
	}
	lock, err := c.lock(ctx, b)
	if lock == nil || err != nil {
		return nil, err
	}
	defer lock.unlock()
	if _, err := os.Stat(c.path(b)); err == nil {
		return nil, nil
	}
	data := make([]byte, b.length)
	if err := c.store.ReadRange(ctx, b.object, data, b.off); err != nil {
		return nil, err
	}
	if err := c.space.keep(c.path(b), data); err != nil {
		c.rest(err)
	}
	return data, nil
}

// errNotKept says that a block is not fetched whole since it would not be kept.
var errNotKept = errors.New("the block is not kept")

// lock waits for the right to fetch a block. It returns nil when another process has fetched it.
func (c *Cache) lock(ctx context.Context, b cacheBlock) (*fileLock, error) {
	deadline := time.Now().Add(c.cfg.Wait)
	for {
		lock, err := takeLock(c.path(b))
		if err == nil {
			return lock, nil
		}
		if !errors.Is(err, lockfile.ErrTaken) {
			c.rest(err)
			return nil, errNotKept
		}
		if time.Now().After(deadline) {
			return nil, errNotKept
		}
		timer := time.NewTimer(poll)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil, context.Cause(ctx)
		}
		if _, err := os.Stat(c.path(b)); err == nil {
			return nil, nil
		}
	}
}

// restTime is how long nothing is kept after the disk has failed.
const restTime = 10 * time.Minute

// rest keeps nothing for a while, since the disk is full or fails.
func (c *Cache) rest(err error) {
	c.mu.Lock()
	first := c.failed.IsZero()
	c.failed = time.Now()
	c.mu.Unlock()
	if first {
		c.cfg.Logger.Warn("the data's cache cannot keep what is read; reading goes on without it", "folder", c.cfg.Dir, "err", err)
	}
}

func (c *Cache) resting() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.failed.IsZero() && time.Since(c.failed) < restTime
}
