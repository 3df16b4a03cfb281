// Package indexfile keeps what one pass over a shard has found, so that the next run need not read
// it again.
//
// An index is a file of its own, beside the shard or in a folder of caches. It names the shard that
// it is of: its name, size and version. One of another shard, of an earlier state of it, or
// damaged, counts as none. It is replaced at once or not at all, so that a process that ends while
// it writes leaves the old one, and processes may write the same one at the same time.
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
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path"
	"path/filepath"
	"sync"

	"github.com/paragon-train/paragon/data/internal/source/sidecar"
	"github.com/paragon-train/paragon/internal/files/objects"
	"github.com/paragon-train/paragon/internal/observe/plural"
)

const (
	magic    = "paragon\x01"
	headSize = 16
	// maxSize bounds what is read of a file that may be anything.
	maxSize = 4 << 30
)

// ErrNoVersion is the error of Save for a shard in a store that cannot tell versions apart: its
// index could not be trusted.
var ErrNoVersion = errors.New("the server does not tell versions of files apart (it gives no ETag)")

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Name is the name of the index of a shard.
func Name(shard string) string { return shard + ".index" }

// describe is what an index says of its shard. A copy of the shard elsewhere has another version,
// and is read anew.
func describe(shard objects.Info, format string) string {
	return fmt.Sprintf("%s\n%s\n%d\n%s\n", format, path.Base(shard.Name), shard.Size, shard.Version)
}

// Load returns the index of the shard that a place is of; ok is false if there is none of its
// state.
func Load(place sidecar.Place, format string) (index []byte, ok bool) {
	if place.Object.Version == "" {
		return nil, false
	}
	name := Name(place.Object.Name)
	if sidecar.Local(place.Store) && filepath.IsLocal(filepath.FromSlash(name)) {
		if f, err := os.Open(filepath.Join(place.Store.URL(), filepath.FromSlash(name))); err == nil {
			if index, ok := load(f, describe(place.Object, format)); ok {
				return index, true
			}
		}
	}
	f, err := place.OpenCached(name)
	if err != nil {
		return nil, false
	}
	return load(f, describe(place.Object, format))
}

// load reads the file of an index, and closes it.
func load(file *os.File, want string) (index []byte, ok bool) {
	defer file.Close()
	info, err := file.Stat()
	if err != nil || !info.Mode().IsRegular() || info.Size() < int64(headSize+len(want)) || info.Size() > maxSize {
		return nil, false
	}
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

// Save keeps the index of the shard that a place is of, and says where.
func Save(place sidecar.Place, format string, index []byte) (path string, err error) {
	if place.Object.Version == "" {
		return "", ErrNoVersion
	}
	description := describe(place.Object, format)
	head := make([]byte, headSize, headSize+len(description))
	copy(head, magic)
	binary.LittleEndian.PutUint32(head[12:], uint32(len(description)))
	head = append(head, description...)
	binary.LittleEndian.PutUint32(head[8:], crc32.Update(crc32.Checksum(head[12:], castagnoli), castagnoli, index))
	return place.Write(Name(place.Object.Name), func(w io.Writer) error {
		if _, err := w.Write(head); err != nil {
			return err
		}
		_, err := w.Write(index)
		return err
	})
}

// A Tally counts the indices that were made as a data set was opened. It may be used by several
// goroutines at once.
type Tally struct {
	mu   sync.Mutex // guards the rest
	made int

	// first is the path of one that was kept, the same whoever was first.
	first string

	// failed is why an index could not be kept.
	failed error
}

// Add counts an index, with what Save returned.
func (t *Tally) Add(path string, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.made++
	if err != nil {
		t.failed = err
	} else if t.first == "" || path < t.first {
		t.first = path
	}
}

// Notes say how many indices were made, and whether they are kept; file is what one is of.
func (t *Tally) Notes(file string) (notes []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.failed != nil {
		return []string{fmt.Sprintf("found the examples of %s in one pass, which the next run does again, since indices could not be kept: %v",
			plural.Of(t.made, file), t.failed)}
	}
	if t.made > 0 {
		more := ""
		if t.made > 1 {
			more = fmt.Sprintf(" and %d more", t.made-1)
		}
		return []string{fmt.Sprintf("found the examples of %s in one pass, and wrote %s%s", plural.Of(t.made, file), t.first, more)}
	}
	return nil
}
