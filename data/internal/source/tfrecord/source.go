// Package tfrecord reads examples out of TensorFlow's TFRecord files of tf.train.Example.
//
// Example i is the i-th record in the order of the files. The format has no index: it is made in
// one pass over the heads of the records, which skips their data, and kept beside the file or in
// CacheDir until the file changes. An index of "offset size" lines, as tfrecord2idx writes it, is
// read where it lies beside the file. Both checksums of a record are checked.
package tfrecord

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"path"
	"regexp"
	"slices"
	"sort"
	"strconv"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/paragon-train/paragon/data/internal/source"
	"github.com/paragon-train/paragon/data/internal/source/indexfile"
	"github.com/paragon-train/paragon/data/internal/source/shards"
	"github.com/paragon-train/paragon/data/internal/source/sidecar"
	"github.com/paragon-train/paragon/internal/files/objects"
	"github.com/paragon-train/paragon/internal/observe/plural"
)

// format names indices of this package.
const format = "tfrecord 1"

// A Config says which files are read, and which features of an example are what.
type Config struct {
	// Files are the names of the files in the store, in the order of their examples. Empty:
	// Shards says it.
	Files []string
	// Shards are the names of the files as a pattern, such as "train-{00000..01023}-of-01024",
	// "train-*", or several of these with "::" between them. Empty: all files at the top of the
	// store for which IsFile is true, by name.
	Shards string
	// Image are the keys of the image's bytes, the best first, with ";" between them. Empty is
	// "image/encoded;image;image_raw;jpeg;png".
	Image string
	// Label are the keys of the label, the best first. Empty is
	// "image/class/label;label;class;cls", and then an example may have none.
	Label string
	// Classes are the names of the classes by label, if they are known: the format has none.
	Classes []string
	// CacheDir is a folder for indices that cannot lie beside the files. Empty: there is none.
	CacheDir string
	// Parallel is how many files are indexed at once; 0 is 16.
	Parallel int
}

// ofPattern is how TensorFlow names one of several files.
var ofPattern = regexp.MustCompile(`^(.*)-(\d{5,6})-of-(\d{5,6})$`)

// IsFile reports whether a name is that of a TFRecord file: x.tfrecord, x.tfrecords, or one of
// several such as x-00000-of-01024.
func IsFile(name string) bool {
	base := path.Base(name)
	lower := strings.ToLower(base)
	return strings.HasSuffix(lower, ".tfrecord") || strings.HasSuffix(lower, ".tfrecords") || ofPattern.MatchString(base)
}

// A Source has the examples of files.
type Source struct {
	store       objects.Store
	files       []file
	images      []string
	labels      []string
	mayLack     bool // an example may have no label
	classes     []string
	blocks      []int
	notes       []string
	fingerprint string
}

// A file is one TFRecord file.
type file struct {
	info  objects.Info
	first int // number of its first example

	// offsets are those of the records, and the end of the last.
	offsets []int64
}

func (f *file) len() int { return len(f.offsets) - 1 }

// Open finds the files and makes their indices, or reads them.
func Open(ctx context.Context, store objects.Store, cfg Config) (*Source, error) {
	s, err := open(ctx, store, cfg)
	if err != nil {
		return nil, fmt.Errorf("data: TFRecord: %w", err)
	}
	return s, nil
}

func open(ctx context.Context, store objects.Store, cfg Config) (*Source, error) {
	infos, err := find(ctx, store, cfg)
	if err != nil {
		return nil, err
	}
	s := &Source{
		store: store, files: make([]file, len(infos)), classes: cfg.Classes, mayLack: cfg.Label == "",
		images: strings.Split(cmp.Or(cfg.Image, "image/encoded;image;image_raw;jpeg;png"), ";"),
		labels: strings.Split(cmp.Or(cfg.Label, "image/class/label;label;class;cls"), ";"),
	}
	var made indexfile.Tally
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(cmp.Or(max(0, cfg.Parallel), 16))
	for k, info := range infos {
		g.Go(func() error {
			offsets, err := index(gctx, store, info, cfg.CacheDir, &made)
			s.files[k] = file{info: info, offsets: offsets}
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	for k := range s.files[1:] {
		s.files[k+1].first = s.files[k].first + s.files[k].len()
	}
	if s.Len() == 0 {
		return nil, fmt.Errorf("%s: %s of %s hold no records", store.URL(), infos[0].Name, plural.Of(len(infos), "file"))
	}
	s.notes = append(made.Notes("TFRecord file"), missing(infos)...)
	s.fingerprint = s.sum()
	if !sidecar.Local(store) {
		for k := range s.files {
			if s.files[k].len() > 0 {
				s.blocks = append(s.blocks, s.files[k].first)
			}
		}
	}
	return s, nil
}

func find(ctx context.Context, store objects.Store, cfg Config) (found []objects.Info, err error) {
	switch {
	case len(cfg.Files) > 0:
		return shards.Stat(ctx, store, cfg.Files)
	case cfg.Shards != "":
		return shards.Find(ctx, store, cfg.Shards)
	}
	for info, err := range store.List(ctx, "") {
		if err != nil {
			return nil, err
		}
		if !shards.Hidden(info.Name) && !strings.Contains(info.Name, "/") && IsFile(info.Name) {
			found = append(found, info)
		}
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("%s: no TFRecord files are there, such as train.tfrecord or train-00000-of-01024", store.URL())
	}
	return found, nil
}

// missing notes which files of sets such as x-00000-of-01024 are not there.
func missing(infos []objects.Info) (notes []string) {
	sets := make(map[string]map[int]bool)
	var order []string
	for _, info := range infos {
		m := ofPattern.FindStringSubmatch(info.Name)
		if m == nil {
			continue
		}
		set := m[1] + "-?-of-" + m[3]
		if sets[set] == nil {
			sets[set] = make(map[int]bool)
			order = append(order, set)
		}
		if k, err := strconv.Atoi(m[2]); err == nil {
			sets[set][k] = true
		}
	}
	for _, set := range order {
		n, err := strconv.Atoi(set[strings.LastIndexByte(set, '-')+1:])
		if err == nil && len(sets[set]) < n {
			notes = append(notes, fmt.Sprintf("%d of the %d files %s are there: the others are left out", len(sets[set]), n, set))
		}
	}
	return notes
}

// maxIdx bounds the index of others that is read.
const maxIdx = 1 << 30

// index returns the offsets of the records of a file: by its index, by that of tfrecord2idx, or by
// a pass over it.
func index(ctx context.Context, store objects.Store, info objects.Info, cacheDir string, made *indexfile.Tally) ([]int64, error) {
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	place := sidecar.Place{Store: store, Object: info, CacheDir: cacheDir}
	if index, ok := indexfile.Load(place, format); ok {
		if offsets, ok := parseIndex(index, info.Size); ok {
			return slices.Clip(offsets), nil
		}
	}
	names := []string{info.Name + ".idx"}
	if end := path.Ext(info.Name); end != "" {
		names = append(names, strings.TrimSuffix(info.Name, end)+".idx")
	}
	for _, name := range names {
		idx, err := store.Stat(ctx, name)
		if err != nil || idx.Size > maxIdx || idx.Size == 0 {
			continue
		}
		text := make([]byte, idx.Size)
		if store.ReadRange(ctx, idx, text, 0) != nil {
			continue
		}
		if offsets, ok := parseIdx(text, info.Size); ok {
			return slices.Clip(offsets), nil
		}
	}
	offsets, kept := []int64{0}, []byte(nil)
	if err := scan(ctx, store, info, func(size int64) {
		offsets, kept = append(offsets, offsets[len(offsets)-1]+size), appendSize(kept, size)
	}); err != nil {
		return nil, err
	}
	made.Add(indexfile.Save(place, format, kept))
	return slices.Clip(offsets), nil
}

// Len implements source.Source.
func (s *Source) Len() int {
	last := &s.files[len(s.files)-1]
	return last.first + last.len()
}

// find returns the file of example i, and its number there.
func (s *Source) find(i int) (*file, int) {
	k := sort.Search(len(s.files), func(k int) bool { return s.files[k].first > i }) - 1
	return &s.files[k], i - s.files[k].first
}

// Range implements source.Source.
func (s *Source) Range(i int) (objects.Range, bool) {
	if i < 0 || i >= s.Len() {
		return objects.Range{}, false
	}
	f, k := s.find(i)
	return objects.Range{Object: f.info, Off: f.offsets[k], Length: f.offsets[k+1] - f.offsets[k]}, true
}

// Read implements source.Source.
func (s *Source) Read(ctx context.Context, i int, buf []byte) (source.Example, error) {
	if err := source.CheckIndex(i, s.Len()); err != nil {
		return source.Example{}, fmt.Errorf("data: TFRecord: %w", err)
	}
	f, k := s.find(i)
	name := fmt.Sprintf("%s, record %d at byte %d", f.info.Name, k, f.offsets[k])
	example, err := s.read(ctx, f, k, buf)
	if err != nil {
		return source.Example{}, source.Blame(i, name, err)
	}
	example.Name = name
	return example, nil
}

// read reads record k of a file. An error that blames the data is a source.Fault.
func (s *Source) read(ctx context.Context, f *file, k int, buf []byte) (e source.Example, err error) {
	buf, err = source.Room(buf, f.offsets[k+1]-f.offsets[k])
	if err != nil {
		return e, source.Fault{Err: err}
	}
	if err := s.store.ReadRange(ctx, f.info, buf, f.offsets[k]); err != nil {
		return e, err
	}
	n, err := parseHead(buf)
	if err != nil {
		return e, source.Fault{Err: err}
	}
	if n != uint64(len(buf)-frameSize) {
		return e, source.Fault{Err: fmt.Errorf("the record has %d bytes, and the index says %d: remove the index", n, len(buf)-frameSize)}
	}
	data := buf[headSize : len(buf)-4]
	if got, want := binary.LittleEndian.Uint32(buf[len(buf)-4:]), masked(data); got != want {
		return e, source.Fault{Err: fmt.Errorf("the checksum of the data is %08x, want %08x", got, want)}
	}
	if err := s.parse(data, &e); err != nil {
		return e, source.Fault{Err: err}
	}
	return e, nil
}

// parse finds the image and the label in a tf.train.Example.
func (s *Source) parse(data []byte, e *source.Example) error {
	image, label := newChoice(s.images), newChoice(s.labels)
	var keys []string
	if err := features(data, func(key string, f feature) {
		image.offer(key, f)
		label.offer(key, f)
		if len(keys) < 20 {
			keys = append(keys, key)
		}
	}); err != nil {
		return err
	}
	if image.key < 0 {
		return fmt.Errorf("the example has no image: no feature is named %s, only %.200q", strings.Join(s.images, " or "), keys)
	}
	bytes, err := image.feature.oneBytes()
	if err != nil {
		return fmt.Errorf("feature %s: %w", s.images[image.key], err)
	}
	if len(bytes) == 0 {
		return fmt.Errorf("feature %s: the image has no bytes", s.images[image.key])
	}
	e.Image = bytes
	if label.key < 0 {
		if s.mayLack {
			return nil
		}
		return fmt.Errorf("the example has no label: no feature is named %s, only %.200q", strings.Join(s.labels, " or "), keys)
	}
	if e.Labels, err = label.feature.numbers(); err != nil {
		return fmt.Errorf("feature %s: %w", s.labels[label.key], err)
	}
	return nil
}

// A choice finds the first of some keys that an example has; of a key that is there twice the last
// counts, as in protobuf.
type choice struct {
	keys []string

	// key is −1 if there is none yet.
	key int

	feature feature
}

func newChoice(keys []string) choice { return choice{keys: keys, key: -1} }

func (c *choice) offer(key string, f feature) {
	if k := slices.Index(c.keys, key); k >= 0 && (c.key < 0 || k <= c.key) {
		c.key, c.feature = k, f
	}
}

// Blocks implements source.Source: each file is a run, but on a local disk any order is as cheap.
func (s *Source) Blocks() []int { return s.blocks }

// Classes implements source.Source.
func (s *Source) Classes() []string { return s.classes }

// Notes are what the user should know, such as that indices were made, a sentence each.
func (s *Source) Notes() []string { return s.notes }

// Fingerprint implements source.Source.
func (s *Source) Fingerprint() string { return s.fingerprint }

func (s *Source) sum() string {
	h := sha256.New()
	fmt.Fprintf(h, "tfrecord\n%q\n%q\n%d\n", s.images, s.labels, len(s.files))
	for k := range s.files {
		f := &s.files[k]
		fmt.Fprintf(h, "%q %d %d\n", f.info.Name, f.info.Size, f.len())
		if err := binary.Write(h, binary.LittleEndian, f.offsets); err != nil {
			panic(err) // a hash takes everything
		}
	}
	return fmt.Sprintf("tfrecord:%x", h.Sum(nil)[:16])
}

// Close implements source.Source.
func (s *Source) Close() error { return nil }

var _ source.Source = (*Source)(nil)
