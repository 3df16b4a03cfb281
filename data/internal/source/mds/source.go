// Package mds reads examples out of MosaicML's MDS shards, which streaming's MDSWriter writes.
//
// index.json lists the shards. A shard has a table of the offsets of its samples, which Open reads,
// so that example i can be read directly: it is the i-th sample in the order of index.json. A
// compressed shard is read and decompressed whole; a few of them are kept in memory.
//
//	shard   u32 n, u32 offset[n+1] from the shard's begin, the configuration as JSON, samples
//	sample  u32 size of each column of variable size, then the values of all columns
package mds

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"sort"

	"golang.org/x/sync/errgroup"

	"github.com/paragon-train/paragon/data/internal/decompress"
	"github.com/paragon-train/paragon/data/internal/source"
	"github.com/paragon-train/paragon/data/internal/source/shards"
	"github.com/paragon-train/paragon/data/internal/source/sidecar"
	"github.com/paragon-train/paragon/internal/files/objects"
)

// IndexName is the name of the list of shards.
const IndexName = "index.json"

// A Config says what is read.
type Config struct {
	// Folder is the folder of index.json in the store; empty: the store's top.
	Folder string
	// Image and Label are the names of the columns. Empty: those that are named and encoded as
	// images and labels mostly are.
	Image, Label string
	// Classes are the names of the classes by label, if they are known: the format has none.
	Classes []string
	// MemoryBytes bounds the memory for shards that were compressed; 0 is 512 MiB. One shard is
	// kept in any case.
	MemoryBytes int64
	// Parallel is how many shards are opened at once; 0 is 16.
	Parallel int
}

// A Source has the samples of shards.
type Source struct {
	store       objects.Store
	shards      []shard
	classes     []string
	blocks      []int
	whole       *wholeShards
	fingerprint string
}

// A shard is one of index.json.
type shard struct {
	info shardInfo

	// object is the file that is read: raw, or compressed.
	object objects.Info

	zipped bool

	// first is the number of its first example.
	first int

	// offsets are those of the samples, and the end of the last; nil: the file is zipped.
	offsets []uint32

	columns []column
	image   int

	// label is −1 if there is none.
	label int
}

// Open reads index.json and the tables of the shards.
func Open(ctx context.Context, store objects.Store, cfg Config) (*Source, error) {
	s, err := open(ctx, store, cfg)
	if err != nil {
		return nil, fmt.Errorf("data: MDS: %s: %w", store.URL(), err)
	}
	return s, nil
}

// open is Open without the place in its errors. Shards are opened in parallel but described in
// order: each begins where the one before it ends.
func open(ctx context.Context, store objects.Store, cfg Config) (*Source, error) {
	name := path.Join(cfg.Folder, IndexName)
	infos, err := readIndex(ctx, store, name)
	if err != nil {
		return nil, err
	}
	s := &Source{store: store, shards: make([]shard, len(infos)), classes: cfg.Classes, whole: newWholeShards(cmp.Or(cfg.MemoryBytes, 512<<20))}
	for k := range infos {
		if err := s.describe(k, infos[k], cfg); err != nil {
			return nil, fmt.Errorf("%s: shard %d: %w", name, k, err)
		}
	}
	if err := s.openShards(ctx, cfg); err != nil {
		return nil, err
	}
	s.fingerprint = s.sum()
	s.findBlocks()
	return s, nil
}

// readIndex reads index.json.
func readIndex(ctx context.Context, store objects.Store, name string) ([]shardInfo, error) {
	info, err := store.Stat(ctx, name)
	if err != nil {
		return nil, err
	}
	if info.Size > maxIndex {
		return nil, fmt.Errorf("%s: got %d bytes, want at most %d", name, info.Size, maxIndex)
	}
	text := make([]byte, info.Size)
	if len(text) > 0 {
		if err := store.ReadRange(ctx, info, text, 0); err != nil {
			return nil, err
		}
	}
	infos, err := parseIndex(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return infos, nil
}

// describe takes what the index says of shard k. Those before it have been described.
func (s *Source) describe(k int, info shardInfo, cfg Config) (err error) {
	sh := &s.shards[k]
	sh.info, sh.columns = info, info.columns()
	if sh.image, err = findImage(sh.columns, cfg.Image); err != nil {
		return err
	}
	if sh.label, err = findLabel(sh.columns, cfg.Label); err != nil {
		return err
	}
	if k > 0 {
		sh.first = s.shards[k-1].first + int(s.shards[k-1].info.Samples)
	}
	return nil
}

// openShards opens the files of the shards, some at a time.
func (s *Source) openShards(ctx context.Context, cfg Config) error {
	var names []string
	for k := range s.shards {
		f := s.shards[k].info.Raw
		if zip := s.shards[k].info.Zip; zip != nil {
			f = zip
		}
		names = append(names, path.Join(cfg.Folder, f.Basename))
	}
	known := shards.Known(ctx, s.store, names)
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(cmp.Or(max(0, cfg.Parallel), 16))
	for k := range s.shards {
		g.Go(func() error {
			if err := s.shards[k].open(gctx, s.store, cfg.Folder, known); err != nil {
				return fmt.Errorf("shard %d: %w", k, err)
			}
			return nil
		})
	}
	return g.Wait()
}

// findBlocks lists the shards whose samples are cheap together: compressed ones, and on a store
// that is not local all.
func (s *Source) findBlocks() {
	for k := range s.shards {
		if sh := &s.shards[k]; sh.info.Samples > 0 && (sh.zipped || !sidecar.Local(s.store)) {
			s.blocks = append(s.blocks, sh.first)
		}
	}
	if len(s.blocks) > 0 && s.blocks[0] != 0 {
		s.blocks = append([]int{0}, s.blocks...)
	}
}

// open finds the file of a shard, and reads its table if it is not compressed.
func (sh *shard) open(ctx context.Context, store objects.Store, folder string, known map[string]objects.Info) (err error) {
	files := []*fileInfo{sh.info.Raw}
	if sh.info.Zip != nil {
		// Where a shard was decompressed beside the compressed one, either will do.
		files = []*fileInfo{sh.info.Zip, sh.info.Raw}
	}
	for k, f := range files {
		name := path.Join(folder, f.Basename)
		var ok bool
		if sh.object, ok = known[name]; !ok {
			sh.object, err = store.Stat(ctx, name)
			if errors.Is(err, fs.ErrNotExist) && k < len(files)-1 {
				continue
			}
			if err != nil {
				return err
			}
		}
		if sh.object.Size != f.Bytes {
			return fmt.Errorf("%s has %d bytes, and index.json says %d: it is cut short, or of another data set", name, sh.object.Size, f.Bytes)
		}
		sh.zipped = f == sh.info.Zip
		break
	}
	if sh.zipped {
		return nil
	}
	table := make([]byte, 4*(sh.info.Samples+2))
	if int64(len(table)) > sh.object.Size {
		return fmt.Errorf("%s: got %d bytes, want a table of %d samples", sh.object.Name, sh.object.Size, sh.info.Samples)
	}
	if err := store.ReadRange(ctx, sh.object, table, 0); err != nil {
		return err
	}
	if sh.offsets, err = parseTable(table, sh.info.Samples, sh.object.Size); err != nil {
		return fmt.Errorf("%s: %w", sh.object.Name, err)
	}
	return nil
}

// parseTable reads the first bytes of a shard: how many samples there are, and where.
func parseTable(table []byte, samples, size int64) ([]uint32, error) {
	if n := binary.LittleEndian.Uint32(table); int64(n) != samples {
		return nil, fmt.Errorf("at byte 0: got %d samples, and index.json says %d", n, samples)
	}
	offsets := make([]uint32, samples+1)
	for k := range offsets {
		offsets[k] = binary.LittleEndian.Uint32(table[4*(k+1):])
		if k == 0 && int64(offsets[0]) < int64(len(table)) || k > 0 && offsets[k] < offsets[k-1] || int64(offsets[k]) > size {
			return nil, fmt.Errorf("at byte %d: sample %d begins at byte %d, which is no place for it in %d bytes", 4*(k+1), k, offsets[k], size)
		}
	}
	if end := int64(offsets[samples]); end != size {
		return nil, fmt.Errorf("at byte %d: the samples end at byte %d, and the shard at %d", 4*(samples+1), end, size)
	}
	return offsets, nil
}

// load reads a compressed shard whole. An error that blames the data is a source.Fault.
func (s *Source) load(ctx context.Context, sh *shard) (*wholeShard, error) {
	packed := make([]byte, sh.object.Size)
	if err := s.store.ReadRange(ctx, sh.object, packed, 0); err != nil {
		return nil, err
	}
	if err := sh.info.Zip.checkHashes(packed); err != nil {
		return nil, err
	}
	data, err := decompress.All(sh.info.compression(), bytes.NewReader(packed), sh.info.Raw.Bytes)
	if errors.Is(err, decompress.ErrUnknown) {
		return nil, err
	}
	if err != nil {
		return nil, source.Fault{Err: fmt.Errorf("decompress %s: %w", sh.object.Name, err)}
	}
	if int64(len(data)) != sh.info.Raw.Bytes {
		return nil, source.Fault{Err: fmt.Errorf("%s has %d bytes once decompressed, and index.json says %d", sh.object.Name, len(data), sh.info.Raw.Bytes)}
	}
	if err := sh.info.Raw.checkHashes(data); err != nil {
		return nil, err
	}
	n := 4 * (sh.info.Samples + 2)
	if n > int64(len(data)) {
		return nil, source.Fault{Err: fmt.Errorf("%s has %d bytes once decompressed, want a table of %d samples", sh.object.Name, len(data), sh.info.Samples)}
	}
	offsets, err := parseTable(data[:n], sh.info.Samples, int64(len(data)))
	if err != nil {
		return nil, source.Fault{Err: fmt.Errorf("%s, decompressed: %w", sh.object.Name, err)}
	}
	return &wholeShard{data, offsets}, nil
}

// Len implements source.Source.
func (s *Source) Len() int {
	last := &s.shards[len(s.shards)-1]
	return last.first + int(last.info.Samples)
}

// find returns the number of the shard of example i, and the example's number there.
func (s *Source) find(i int) (shard, sample int) {
	k := sort.Search(len(s.shards), func(k int) bool { return s.shards[k].first > i }) - 1
	return k, i - s.shards[k].first
}

// Range implements source.Source.
func (s *Source) Range(i int) (objects.Range, bool) {
	if i < 0 || i >= s.Len() {
		return objects.Range{}, false
	}
	k, n := s.find(i)
	sh := &s.shards[k]
	if sh.zipped {
		return objects.Range{}, false
	}
	return objects.Range{Object: sh.object, Off: int64(sh.offsets[n]), Length: int64(sh.offsets[n+1] - sh.offsets[n])}, true
}

// Read implements source.Source.
func (s *Source) Read(ctx context.Context, i int, buf []byte) (source.Example, error) {
	if err := source.CheckIndex(i, s.Len()); err != nil {
		return source.Example{}, fmt.Errorf("data: MDS: %w", err)
	}
	if err := ctx.Err(); err != nil {
		return source.Example{}, context.Cause(ctx)
	}
	k, n := s.find(i)
	sh := &s.shards[k]
	name := fmt.Sprintf("%s, sample %d", sh.object.Name, n)
	if !sh.zipped {
		name = fmt.Sprintf("%s at byte %d", name, sh.offsets[n])
	}
	e, err := s.read(ctx, k, n, buf)
	if err != nil {
		return source.Example{}, source.Blame(i, name, err)
	}
	e.Name = name
	return e, nil
}

// read reads sample n of shard k.
func (s *Source) read(ctx context.Context, k, n int, buf []byte) (e source.Example, err error) {
	sh := &s.shards[k]
	var sample []byte
	if sh.zipped {
		whole, err := s.whole.get(ctx, k, func() (*wholeShard, error) { return s.load(ctx, sh) })
		if err != nil {
			return e, err
		}
		sample = whole.data[whole.offsets[n]:whole.offsets[n+1]]
		// The shard is not the caller's to write to.
		if buf, err = source.Room(buf, int64(len(sample))); err != nil {
			return e, source.Fault{Err: err}
		}
		copy(buf, sample)
		sample = buf
	} else {
		if buf, err = source.Room(buf, int64(sh.offsets[n+1]-sh.offsets[n])); err != nil {
			return e, source.Fault{Err: err}
		}
		if err := s.store.ReadRange(ctx, sh.object, buf, int64(sh.offsets[n])); err != nil {
			return e, err
		}
		sample = buf
	}
	var image, label []byte
	if err := values(sample, sh.columns, func(k int, value []byte) {
		if k == sh.image {
			image = value
		}
		if k == sh.label {
			label = value
		}
	}); err != nil {
		return e, source.Fault{Err: err}
	}
	if e.Image, err = sh.columns[sh.image].image(image); err != nil {
		return e, source.Fault{Err: fmt.Errorf("column %s: %w", sh.columns[sh.image].name, err)}
	}
	if sh.label >= 0 {
		if e.Labels, err = sh.columns[sh.label].labels(label); err != nil {
			return e, source.Fault{Err: fmt.Errorf("column %s: %w", sh.columns[sh.label].name, err)}
		}
	}
	return e, nil
}

// CheckHashes reads the shards whole and compares them with the hashes of index.json. It returns
// how many shards have one that could be checked, and what differs; err is of the storage.
func (s *Source) CheckHashes(ctx context.Context) (checked int, wrong []error, err error) {
	for k := range s.shards {
		sh := &s.shards[k]
		file := sh.info.Raw
		if sh.zipped {
			file = sh.info.Zip
		}
		r := objects.NewReader(ctx, s.store, sh.object)
		has, err := file.checkHashesOf(r)
		err = errors.Join(err, r.Close())
		if has {
			checked++
		}
		var fault source.Fault
		switch {
		case errors.As(err, &fault):
			wrong = append(wrong, fault.Err)
		case err != nil:
			return checked, wrong, fmt.Errorf("data: MDS: %w", err)
		}
	}
	return checked, wrong, nil
}

// Blocks implements source.Source: each shard is a run, but on a local disk, where none is
// compressed, any order is as cheap.
func (s *Source) Blocks() []int { return s.blocks }

// Classes implements source.Source.
func (s *Source) Classes() []string { return s.classes }

// Fingerprint implements source.Source.
func (s *Source) Fingerprint() string { return s.fingerprint }

func (s *Source) sum() string {
	h := sha256.New()
	fmt.Fprintf(h, "mds\n%d\n", len(s.shards))
	for k := range s.shards {
		sh := &s.shards[k]
		text, err := json.Marshal(sh.info)
		if err != nil {
			panic(err) // numbers and text
		}
		fmt.Fprintf(h, "%s\n%d %d\n", text, sh.image, sh.label)
		if err := binary.Write(h, binary.LittleEndian, sh.offsets); err != nil {
			panic(err) // a hash takes everything
		}
	}
	return fmt.Sprintf("mds:%x", h.Sum(nil)[:16])
}

// Close implements source.Source.
func (s *Source) Close() error { return nil }
