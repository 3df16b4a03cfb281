package objects

import "github.com/paragon-train/paragon/internal/files/vfs"

// Held is what an Ahead has in memory, and how many ranges it knows.
func (a *Ahead) Held() (bytes int64, ranges int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.bytes, len(a.ranges)
}

// On makes a cache keep its blocks in another file system.
func (c CacheConfig) On(fs vfs.FS) CacheConfig {
	c.fs = fs
	return c
}

// VerifyBlock is the error of a block's file that is not sound.
func VerifyBlock(path string, length int64) error {
	return readBlockFile(path, length, make([]byte, length), 0)
}
