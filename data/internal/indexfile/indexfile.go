// Package indexfile keeps what one pass over a shard has found, so that the next run need not read it again.
//
// An index is a file of its own, beside the shards or in a folder of caches. It names the shard that it is of: its name, size and
// version. One of another shard, of an earlier state of it, or damaged, counts as none. It is replaced at once or not at all, so
// that a process that ends while it writes leaves the old one, and processes may write the same one at the same time.
//
// The file, little-endian:
//
//	offset  size  field
//	     0     8  "paragon\x01"
//	     8     4  CRC-32C of all bytes that follow
//	    12     4  n, the length of the shard's description
//	    16     n  the description: format, name, size and version, each on a line
//	  16+n     …  the index, as its format writes it
package indexfile

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"

	"github.com/paragon-train/paragon/internal/objects"
)

const (
	magic    = "paragon\x01"
	headSize = 16
	// maxSize bounds what is read of a file that may be anything.
	maxSize = 4 << 30
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// A Folder is where indices are kept. The zero value keeps none.
type Folder struct {
	// Path is a local folder, which is made if need be; empty: no index is kept.
	Path string
	// Shared says that indices of other data lie there, too, as in a folder of caches: their names then tell stores apart.
	// Otherwise the folder is the shards' own, and an index is named as its shard is, with ".index" behind it.
	Shared bool
}

// File is the path of the index of a shard.
func (f Folder) File(store objects.Store, shard objects.Info, format string) string {
	if f.Shared {
		sum := sha256.Sum256([]byte(store.URL() + "\x00" + shard.Name + "\x00" + format))
		return filepath.Join(f.Path, fmt.Sprintf("%s-%x.index", path.Base(shard.Name), sum[:8]))
	}
	return filepath.Join(f.Path, filepath.FromSlash(shard.Name)+".index")
}

// describe is what an index says of its shard. A copy of the shard elsewhere has another version, and is read anew.
func describe(shard objects.Info, format string) string {
	return fmt.Sprintf("%s\n%s\n%d\n%s\n", format, path.Base(shard.Name), shard.Size, shard.Version)
}

// Load returns the index of a shard in this state; ok is false if there is none. A store that cannot tell versions apart has none.
func (f Folder) Load(store objects.Store, shard objects.Info, format string) (index []byte, ok bool) {
	if f.Path == "" || shard.Version == "" {
		return nil, false
	}
	file, err := os.Open(f.File(store, shard, format))
	if err != nil {
		return nil, false
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil || !info.Mode().IsRegular() || info.Size() < headSize || info.Size() > maxSize {
		return nil, false
	}
	want := describe(shard, format)
	head := make([]byte, headSize+len(want))
	if _, err := io.ReadFull(file, head); err != nil {
		return nil, false
	}
	if string(head[:8]) != magic || int64(binary.LittleEndian.Uint32(head[12:])) != int64(len(want)) || string(head[headSize:]) != want {
		return nil, false
	}
	index = make([]byte, info.Size()-int64(len(head)))
	if _, err := io.ReadFull(file, index); err != nil {
		return nil, false
	}
	sum := crc32.Update(crc32.Checksum(head[12:], castagnoli), castagnoli, index)
	if sum != binary.LittleEndian.Uint32(head[8:]) {
		return nil, false
	}
	return index, true
}

// Save keeps the index of a shard. Without a folder, or for a store that cannot tell versions apart, it does nothing.
func (f Folder) Save(store objects.Store, shard objects.Info, format string, index []byte) error {
	if f.Path == "" || shard.Version == "" {
		return nil
	}
	if err := f.save(f.File(store, shard, format), describe(shard, format), index); err != nil {
		return fmt.Errorf("data: keep the index of %s: %w", shard.Name, err)
	}
	return nil
}

func (f Folder) save(name, description string, index []byte) (err error) {
	if err := os.MkdirAll(filepath.Dir(name), 0o777); err != nil {
		return err
	}
	file, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+"-*.part")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			if removed := os.Remove(file.Name()); removed != nil && !errors.Is(removed, fs.ErrNotExist) {
				err = errors.Join(err, removed)
			}
		}
	}()
	head := make([]byte, headSize, headSize+len(description))
	copy(head, magic)
	binary.LittleEndian.PutUint32(head[12:], uint32(len(description)))
	head = append(head, description...)
	binary.LittleEndian.PutUint32(head[8:], crc32.Update(crc32.Checksum(head[12:], castagnoli), castagnoli, index))
	for _, p := range [][]byte{head, index} {
		if _, err := file.Write(p); err != nil {
			return errors.Join(err, file.Close())
		}
	}
	if err := file.Chmod(0o644); err != nil {
		return errors.Join(err, file.Close())
	}
	if err := file.Close(); err != nil {
		return err
	}
	return os.Rename(file.Name(), name)
}
