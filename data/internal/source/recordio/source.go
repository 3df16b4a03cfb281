package recordio

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"sort"

	"github.com/paragon-train/paragon/data/internal/source"
	"github.com/paragon-train/paragon/data/internal/source/sidecar"
	"github.com/paragon-train/paragon/internal/files/objects"
)

// blockBytes is how much of a file is read together where the storage is slow.
const blockBytes = 8 << 20

// A Config says which files are read.
type Config struct {
	// Files are the names of the .rec files in the store, in the order of their examples.
	Files []string
	// Classes are the names of the classes by label, if they are known: the format has none.
	Classes []string
	// CacheDir is a folder for indices that have to be made and cannot lie beside the data.
	// Empty: there is none.
	CacheDir string
	// BlockBytes is the size of blocks: examples that are cheap to read together. 0: 8 MiB, but
	// no blocks on a local disk.
	BlockBytes int64
	// Resync looks for the records itself, without .idx files, and goes on behind damage: what
	// is damaged is an example that cannot be read. Numbers of examples differ from those
	// without it if there is damage.
	Resync bool
}

// A Source has the images of one .rec file or several.
type Source struct {
	store   objects.Store
	classes []string
	files   []file
	n       int
	blocks  []int
	notes   []string
	print   string
}

// A file is one .rec file.
type file struct {
	object objects.Info
	index  index
	// first is the number of its first example.
	first int
}

var _ source.Source = (*Source)(nil)

// Open finds the records of the files.
func Open(ctx context.Context, store objects.Store, cfg Config) (*Source, error) {
	s, err := open(ctx, store, cfg)
	if err != nil {
		return nil, fmt.Errorf("data: RecordIO in %s: %w", store.URL(), err)
	}
	return s, nil
}

func open(ctx context.Context, store objects.Store, cfg Config) (*Source, error) {
	if len(cfg.Files) == 0 {
		return nil, errors.New("got no .rec file")
	}
	s := &Source{store: store, classes: cfg.Classes}
	for _, name := range cfg.Files {
		object, err := store.Stat(ctx, name)
		if err != nil {
			return nil, err
		}
		if object.Size == 0 {
			return nil, fmt.Errorf("%s is empty", name)
		}
		x, notes, err := findIndex(ctx, store, object, cfg)
		if err != nil {
			return nil, err
		}
		s.files = append(s.files, file{object, x, s.n})
		s.n += x.len()
		s.notes = append(s.notes, notes...)
	}
	if cfg.BlockBytes == 0 && !sidecar.Local(store) {
		cfg.BlockBytes = blockBytes
	}
	if cfg.BlockBytes > 0 {
		s.blocks = s.cut(cfg.BlockBytes)
	}
	s.print = s.fingerprint()
	return s, nil
}

// cut returns the first examples of blocks of that many bytes, each of one file; nil if a file's
// examples are in another order than its records, so that neighbours by number are none in the
// file.
func (s *Source) cut(size int64) []int {
	var blocks []int
	for i := range s.files {
		f := &s.files[i]
		if f.index.order != nil {
			return nil
		}
		full := true
		var from int64
		for k := range f.index.len() {
			off, end := f.index.extent(k)
			if full {
				blocks = append(blocks, f.first+k)
				from = off
			}
			full = end-from >= size
		}
	}
	return blocks
}

// Len is the number of examples.
func (s *Source) Len() int { return s.n }

// Classes are those of the Config.
func (s *Source) Classes() []string { return s.classes }

// Blocks are the first examples of runs of neighbours in a file.
func (s *Source) Blocks() []int { return s.blocks }

// Notes are what the user should know, such as that an index was made, a sentence each.
func (s *Source) Notes() []string { return s.notes }

// Fingerprint covers the names and sizes of the files, and the offsets of the records in the order
// of the examples.
func (s *Source) Fingerprint() string { return s.print }

// Close does nothing: the source holds memory alone.
func (s *Source) Close() error { return nil }

// find returns the file of example i and its number in it.
func (s *Source) find(i int) (*file, int) {
	f := &s.files[sort.Search(len(s.files), func(k int) bool { return s.files[k].first > i })-1]
	return f, i - f.first
}

// Range is the record's, up to the next one.
func (s *Source) Range(i int) (objects.Range, bool) {
	if source.CheckIndex(i, s.n) != nil {
		return objects.Range{}, false
	}
	f, k := s.find(i)
	off, end := f.index.extent(k)
	return objects.Range{Object: f.object, Off: off, Length: end - off}, true
}

// Read reads the record of example i.
func (s *Source) Read(ctx context.Context, i int, buf []byte) (source.Example, error) {
	if err := source.CheckIndex(i, s.n); err != nil {
		return source.Example{}, fmt.Errorf("data: RecordIO in %s: %w", s.store.URL(), err)
	}
	f, k := s.find(i)
	off, end := f.index.extent(k)
	name := fmt.Sprintf("%s, record %d at byte %d", f.object.Name, k, off)
	b, err := s.extent(ctx, f.object, off, end, buf)
	if err != nil {
		return source.Example{}, source.Blame(i, name, err)
	}
	e, err := decode(b)
	if err != nil {
		return source.Example{}, &source.BadError{Example: i, Name: name, Err: err}
	}
	e.Name = name
	return e, nil
}

// large is how long an extent is that is not read in one go: there may be much that belongs to no
// example in it.
const large = 64 << 20

// extent reads a record, and all up to the next one unless that is much.
func (s *Source) extent(ctx context.Context, object objects.Info, off, end int64, buf []byte) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	length := end - off
	if length > large {
		var err error
		if length, err = s.recordLength(ctx, object, off, end); err != nil {
			return nil, err
		}
	}
	b, err := source.Room(buf, length)
	if err != nil {
		return nil, source.Fault{Err: err}
	}
	return b, s.store.ReadRange(ctx, object, b, off)
}

// recordLength is how many bytes the record takes that begins at off and ends before end.
func (s *Source) recordLength(ctx context.Context, object objects.Info, off, end int64) (int64, error) {
	at := off
	for begins := true; ; begins = false {
		var b [headSize]byte
		if end-at < headSize {
			return 0, source.Fault{Err: fmt.Errorf("the data ends %d bytes into a head of %d bytes", end-at, headSize)}
		}
		if err := s.store.ReadRange(ctx, object, b[:], at); err != nil {
			return 0, err
		}
		h, err := parseHead(b[:], begins)
		if err != nil {
			return 0, source.Fault{Err: err}
		}
		at += headSize + padded(h.length)
		if at > end {
			return 0, source.Fault{Err: fmt.Errorf("a part of %d bytes does not fit before byte %d", h.length, end)}
		}
		if h.ends() {
			return at - off, nil
		}
	}
}

func (s *Source) fingerprint() string {
	h := sha256.New()
	io.WriteString(h, "recordio\n")
	var b []byte
	for i := range s.files {
		f := &s.files[i]
		b = binary.AppendUvarint(b, uint64(len(f.object.Name)))
		b = append(b, f.object.Name...)
		b = binary.AppendUvarint(b, uint64(f.object.Size))
		b = binary.AppendUvarint(b, uint64(f.index.len()))
		for k := range f.index.len() {
			off, _ := f.index.extent(k)
			b = binary.AppendUvarint(b, uint64(off))
			if len(b) > 1<<16 {
				h.Write(b)
				b = b[:0]
			}
		}
	}
	h.Write(b)
	return "recordio:" + hex.EncodeToString(h.Sum(nil)[:16])
}
