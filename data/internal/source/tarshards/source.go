// Package tarshards reads examples out of tar archives as WebDataset names their members.
//
// Members that follow each other and whose names are alike up to the first dot are one sample:
// cat/1.jpg and cat/1.cls are sample cat/1. A sample has an image (.jpg, .png, ...) and mostly a
// label (.cls with a number, or .json). Example i is the i-th sample in the order of the shards and
// of their members.
//
// To read example i directly, an index of each shard is made in one pass over the heads of its
// members; data are skipped. It is kept beside the shard or in CacheDir, and made anew when the
// shard has changed. DALI's index (wds2idx) is taken where it is there.
package tarshards

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/maphash"
	"slices"
	"sort"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/paragon-train/paragon/data/internal/source"
	"github.com/paragon-train/paragon/data/internal/source/indexfile"
	"github.com/paragon-train/paragon/data/internal/source/sidecar"
	"github.com/paragon-train/paragon/internal/files/objects"
)

// A Config says which shards are read, and what is what in a sample.
type Config struct {
	// Files are the names of the shards in the store, in the order of their examples. Empty:
	// Shards says it.
	Files []string
	// Shards are the names of the shards as a pattern: "n-{000000..001281}.tar",
	// "{train,extra}.tar", "part-*.tar", and several of these with "::" between them. Empty:
	// all .tar files at the top of the store by name; below may lie those of another split.
	Shards string
	// Image are the extensions of images, the best first, with ";" between them. Empty is
	// "jpg;jpeg;png;webp;bmp;ppm;pgm;tif;tiff;img;image".
	Image string
	// Label are the extensions of labels, the best first. Empty is "cls;index;json", and then
	// JSON without a label is none.
	Label string
	// Field is the field of JSON that is the label: a number or a list of numbers. Empty:
	// label, cls or class.
	Field string
	// SameKeys allows two samples of different shards to have the same key: each shard numbers
	// its own. Otherwise it is an error, since a shard may be there twice.
	SameKeys bool
	// Classes are the names of the classes by label, if they are known: the format has none.
	Classes []string
	// CacheDir is a folder for indices that cannot lie beside the shards. Empty: there is none.
	CacheDir string
	// Parallel is how many shards are indexed at once; 0 is 16.
	Parallel int
}

const (
	// maxImage is the largest image.
	maxImage = source.MaxExample
	// maxGap is how far the image and the label of a sample may be apart to be read at once.
	maxGap = 64 << 10
)

// A Source has the samples of shards.
type Source struct {
	store       objects.Store
	shards      []shard
	images      []string
	field       string
	classes     []string
	blocks      []int
	notes       []string
	fingerprint string
}

// A shard is one archive.
type shard struct {
	info    objects.Info
	first   int // number of its first example
	entries []entry
	keys    string
}

func (s *shard) key(k int) string {
	begin := uint32(0)
	if k > 0 {
		begin = s.entries[k-1].keyEnd
	}
	return s.keys[begin:s.entries[k].keyEnd]
}

// Open finds the shards and makes their indices, or reads them.
func Open(ctx context.Context, store objects.Store, cfg Config) (*Source, error) {
	infos, err := listShards(ctx, store, cfg)
	if err != nil {
		return nil, fmt.Errorf("data: tar shards: %w", err)
	}
	s := &Source{store: store, shards: make([]shard, len(infos)), field: cfg.Field, classes: cfg.Classes}
	s.images = extensions(cmp.Or(cfg.Image, "jpg;jpeg;png;webp;bmp;ppm;pgm;tif;tiff;img;image"))
	labels := extensions(cmp.Or(cfg.Label, "cls;index;json"))
	if len(s.images) > maxImages {
		return nil, fmt.Errorf("data: tar shards: got %d extensions of images, want at most %d", len(s.images), maxImages)
	}
	var made indexfile.Tally
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(cmp.Or(max(0, cfg.Parallel), 16))
	for k, info := range infos {
		g.Go(func() error {
			b := &builder{images: s.images, labels: labels, maybe: cfg.Label == ""}
			if err := build(gctx, store, info, cfg.CacheDir, b, &made); err != nil {
				return err
			}
			s.shards[k] = shard{info: info, entries: slices.Clip(b.entries), keys: string(b.keys)}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return nil, fmt.Errorf("data: tar shards: %w", err)
	}
	for k := range s.shards[1:] {
		s.shards[k+1].first = s.shards[k].first + len(s.shards[k].entries)
	}
	if s.Len() == 0 {
		return nil, fmt.Errorf("data: tar shards: %s: %s and %d more hold no samples: members with names such as cat/1.jpg",
			store.URL(), infos[0].Name, len(infos)-1)
	}
	if err := s.checkKeys(cfg.SameKeys); err != nil {
		return nil, fmt.Errorf("data: tar shards: %s: %w", store.URL(), err)
	}
	if err := s.checkImages(); err != nil {
		return nil, fmt.Errorf("data: tar shards: %s: %w", store.URL(), err)
	}
	s.fingerprint = s.sum()
	s.notes = made.Notes("tar shard")
	if !sidecar.Local(store) {
		s.blocks = s.firsts()
	}
	return s, nil
}

// extensions are the parts of a list.
func extensions(list string) []string {
	all := strings.Split(strings.ToLower(list), ";")
	for k, e := range all {
		all[k] = strings.TrimPrefix(strings.TrimSpace(e), ".")
	}
	return all
}

// build gives the members of a shard to b: by its index, by DALI's, or by a pass over the shard, of
// which the index is then kept.
func build(ctx context.Context, store objects.Store, info objects.Info, cacheDir string, b *builder, made *indexfile.Tally) error {
	at := func(err error) error { return fmt.Errorf("%s: %s: %w", store.URL(), info.Name, err) }
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	place := sidecar.Place{Store: store, Object: info, CacheDir: cacheDir}
	if index, ok := indexfile.Load(place, format); ok {
		if err := eachMember(index, info.Size, b.add); err != nil {
			return at(err)
		}
		if err := b.end(); err != nil {
			return at(err)
		}
		return nil
	}
	if members, ok := readDALI(ctx, store, info); ok {
		for _, m := range members {
			if err := b.add(m); err != nil {
				return at(err)
			}
		}
		if err := b.end(); err != nil {
			return at(err)
		}
		return nil
	}
	var index []byte
	var before member
	err := scan(ctx, store, info, func(m member) error {
		if _, _, ok := splitName(m.name); !ok {
			return nil
		}
		index, before = appendMember(index, before, m), m
		return b.add(m)
	})
	if err != nil {
		return err
	}
	if err := b.end(); err != nil {
		return at(err)
	}
	made.Add(indexfile.Save(place, format, index))
	return nil
}

// readDALI reads the index that DALI's wds2idx has left beside a shard, if it did.
func readDALI(ctx context.Context, store objects.Store, shard objects.Info) ([]member, bool) {
	info, err := store.Stat(ctx, daliName(shard.Name))
	if err != nil || info.Size > maxDALI || info.Name == shard.Name {
		return nil, false
	}
	text := make([]byte, info.Size)
	if len(text) == 0 || store.ReadRange(ctx, info, text, 0) != nil {
		return nil, false
	}
	members, end, ok := parseDALI(text, shard.Size)
	if !ok {
		return nil, false
	}
	// A shard that has grown or shrunk since, or been replaced, has something else there.
	var block [blockSize]byte
	if store.ReadRange(ctx, shard, block[:], end) != nil || block != [blockSize]byte{} {
		return nil, false
	}
	return members, true
}

// checkKeys looks for samples with the same key. In one shard their members are apart from each
// other.
func (s *Source) checkKeys(sameKeys bool) error {
	type hashed struct {
		hash    uint64
		example int
	}
	seed := maphash.MakeSeed()
	find := func(all []hashed) error {
		slices.SortFunc(all, func(a, b hashed) int {
			return cmp.Or(cmp.Compare(a.hash, b.hash), cmp.Compare(a.example, b.example))
		})
		for k := 1; k < len(all); k++ {
			for j := k - 1; j >= 0 && all[j].hash == all[k].hash; j-- {
				if err := s.same(all[j].example, all[k].example); err != nil {
					return err
				}
			}
		}
		return nil
	}
	var all []hashed
	for k := range s.shards {
		sh := &s.shards[k]
		for i := range sh.entries {
			all = append(all, hashed{maphash.String(seed, sh.key(i)), sh.first + i})
		}
		if sameKeys {
			if err := find(all); err != nil {
				return err
			}
			all = all[:0]
		}
	}
	return find(all)
}

// same is an error if two examples have one key.
func (s *Source) same(i, j int) error {
	a, x := s.find(i)
	b, y := s.find(j)
	if a.key(x) != b.key(y) {
		return nil
	}
	atA, atB := int64(a.entries[x].image)*blockSize, int64(b.entries[y].image)*blockSize
	if a == b {
		return fmt.Errorf("%s: key %q is there twice: at byte %d, and after other samples at byte %d. Members of a sample must follow "+
			"each other: pack the shard anew with tar --sort=name", a.info.Name, a.key(x), atA, atB)
	}
	return fmt.Errorf("key %q is there twice: in %s at byte %d, and in %s at byte %d. A shard may be there twice; "+
		"if each shard numbers its samples anew, allow it by SameKeys (launch data: --same-keys)", a.key(x), a.info.Name, atA, b.info.Name, atB)
}

// checkImages is an error if no sample at all has an image: the extensions are not those of these
// shards.
func (s *Source) checkImages() error {
	var fault *entry
	for k := range s.shards {
		for i := range s.shards[k].entries {
			e := &s.shards[k].entries[i]
			if e.kind() != faultNoImage && e.kind() != faultPickle {
				return nil
			}
			if fault == nil {
				fault = e
			}
		}
	}
	if fault.kind() == faultPickle {
		return errPickle
	}
	return fmt.Errorf("none of %d samples has an image: no member ends in .%s", s.Len(), strings.Join(s.images, ", ."))
}

var errPickle = errors.New("a member that is needed is a pickle (.pyd, .pickle, .pkl, .pth), which could run any code when it is read, " +
	"and is never read: write images as .jpg or .png, and labels as .cls or .json")

// Len implements source.Source.
func (s *Source) Len() int {
	last := &s.shards[len(s.shards)-1]
	return last.first + len(last.entries)
}

// find returns the shard of example i, and its number there.
func (s *Source) find(i int) (*shard, int) {
	k := sort.Search(len(s.shards), func(k int) bool { return s.shards[k].first > i }) - 1
	return &s.shards[k], i - s.shards[k].first
}

// span is the range of an entry in its shard: from the head of the image, so that it can be
// checked, to the label, or the other way round. labelAt is −1 if there is no label in it.
func (e *entry) span() (off, length, imageAt, labelAt int64) {
	image := int64(e.image) * blockSize
	begin, end, labelAt := image-blockSize, image+int64(e.imageSize), int64(-1)
	if kind := e.kind(); kind == labelText || kind == labelJSON || kind == labelMaybe {
		label := image + int64(e.label)*blockSize
		labelEnd := label + int64(e.labelSize&maxLabel)
		if max(end, labelEnd)-min(begin, label)-(end-begin)-(labelEnd-label) <= maxGap {
			begin, end, labelAt = min(begin, label), max(end, labelEnd), label
		}
	}
	if labelAt >= 0 {
		labelAt -= begin
	}
	return begin, end - begin, image - begin, labelAt
}

// Range implements source.Source.
func (s *Source) Range(i int) (objects.Range, bool) {
	if i < 0 || i >= s.Len() {
		return objects.Range{}, false
	}
	sh, k := s.find(i)
	e := &sh.entries[k]
	off, length, _, labelAt := e.span()
	switch e.kind() {
	case labelNone:
	case labelText, labelJSON, labelMaybe:
		if labelAt < 0 {
			return objects.Range{}, false
		}
	default:
		return objects.Range{}, false
	}
	return objects.Range{Object: sh.info, Off: off, Length: length}, true
}

// Read implements source.Source.
func (s *Source) Read(ctx context.Context, i int, buf []byte) (source.Example, error) {
	if i < 0 || i >= s.Len() {
		return source.Example{}, fmt.Errorf("data: tar shards: got example %d, want 0 to %d", i, s.Len()-1)
	}
	sh, k := s.find(i)
	e := &sh.entries[k]
	name := fmt.Sprintf("%s: %s.%s at byte %d", sh.info.Name, sh.key(k), s.images[e.extension()], int64(e.image)*blockSize)
	bad := func(err error) (source.Example, error) {
		return source.Example{}, &source.BadError{Example: i, Name: name, Err: err}
	}
	failed := func(err error) (source.Example, error) {
		return source.Example{}, fmt.Errorf("data: example %d (%s): %w", i, name, err)
	}
	if e.kind() == faultNoImage {
		name = fmt.Sprintf("%s: %s at byte %d", sh.info.Name, sh.key(k), int64(e.image)*blockSize)
	}
	if err := s.fault(e); err != nil {
		return bad(err)
	}
	off, length, imageAt, labelAt := e.span()
	if int64(cap(buf)) < length {
		buf = make([]byte, length)
	}
	buf = buf[:length]
	if err := s.store.ReadRange(ctx, sh.info, buf, off); err != nil {
		return failed(err)
	}
	if err := checkHead(buf[imageAt-blockSize:imageAt], e.imageSize); err != nil {
		return bad(err)
	}
	example := source.Example{Image: buf[imageAt : imageAt+int64(e.imageSize)], Name: name}
	kind := e.kind()
	if kind == labelNone {
		return example, nil
	}
	var label []byte
	if labelAt >= 0 {
		label = buf[labelAt : labelAt+int64(e.labelSize&maxLabel)]
	} else {
		label = make([]byte, e.labelSize&maxLabel)
		if err := s.store.ReadRange(ctx, sh.info, label, (int64(e.image)+int64(e.label))*blockSize); err != nil {
			return failed(err)
		}
	}
	var err error
	if kind == labelText {
		example.Labels, err = parseText(label)
	} else {
		example.Labels, err = parseJSON(label, s.field, kind == labelMaybe)
	}
	if err != nil {
		return bad(fmt.Errorf("label at byte %d: %w", (int64(e.image)+int64(e.label))*blockSize, err))
	}
	return example, nil
}

// fault is what the index says to be wrong with an example.
func (s *Source) fault(e *entry) error {
	switch e.kind() {
	case faultNoImage:
		return fmt.Errorf("the sample has no image: no member ends in .%s", strings.Join(s.images, ", ."))
	case faultPickle:
		return errPickle
	case faultImageSize:
		return fmt.Errorf("the image has more than %d bytes", maxImage)
	case faultLabelSize:
		return fmt.Errorf("the label has more than %d bytes", maxLabel)
	}
	if e.imageSize == 0 {
		return errors.New("the image has no bytes")
	}
	return nil
}

// checkHead refuses the block before an image if it is not the image's head.
func checkHead(block []byte, imageSize uint32) error {
	h, zero, err := parseHead((*[blockSize]byte)(block))
	switch {
	case err != nil:
		return fmt.Errorf("the head of the image: %w", err)
	case zero || h.kind != kindFile:
		return errors.New("no head of a file is before the image: the index is of an earlier state of the shard; remove the index")
	case h.size != int64(imageSize) && h.size != 0:
		return fmt.Errorf("the head says that the image has %d bytes, and the index %d: the index is of an earlier state of the shard; remove the index",
			h.size, imageSize)
	}
	return nil
}

// firsts are the first examples of the shards.
func (s *Source) firsts() (firsts []int) {
	for k := range s.shards {
		if len(s.shards[k].entries) > 0 {
			firsts = append(firsts, s.shards[k].first)
		}
	}
	return firsts
}

// Blocks implements source.Source: each shard is a run, but on a local disk any order is as cheap.
func (s *Source) Blocks() []int { return s.blocks }

// Notes are what the user should know, such as that indices were made, a sentence each.
func (s *Source) Notes() []string { return s.notes }

// Classes implements source.Source.
func (s *Source) Classes() []string { return s.classes }

// Fingerprint implements source.Source.
func (s *Source) Fingerprint() string { return s.fingerprint }

func (s *Source) sum() string {
	h := sha256.New()
	fmt.Fprintf(h, "tar shards\n%q\n%q\n%d\n", s.images, s.field, len(s.shards))
	var b [20]byte
	for k := range s.shards {
		sh := &s.shards[k]
		fmt.Fprintf(h, "%q %d %d\n", sh.info.Name, sh.info.Size, len(sh.entries))
		for i := range sh.entries {
			e := &sh.entries[i]
			binary.LittleEndian.PutUint32(b[0:], e.image)
			binary.LittleEndian.PutUint32(b[4:], e.imageSize)
			binary.LittleEndian.PutUint32(b[8:], uint32(e.label))
			binary.LittleEndian.PutUint32(b[12:], e.labelSize)
			binary.LittleEndian.PutUint32(b[16:], e.keyEnd)
			h.Write(b[:])
		}
		h.Write([]byte(sh.keys))
	}
	return fmt.Sprintf("tar:%x", h.Sum(nil)[:16])
}

// Close implements source.Source.
func (s *Source) Close() error { return nil }

// Key is the key of example i.
func (s *Source) Key(i int) string {
	sh, k := s.find(i)
	return sh.key(k)
}
