// Package folder reads an image folder: a directory for each class, with the images of the class in
// it and below it.
//
//	train/n01440764/n01440764_10026.JPEG
//	train/n01443537/n01443537_10007.JPEG
//
// Classes, labels and the order of examples are those of torchvision's ImageFolder: classes are
// sorted by code point, so "10" comes before "2", and a class's label is its place. The examples of
// a class are sorted by their directory, as a string, and then by name: "d/sub" comes before
// "d/sub-dir", and that before "d/sub/dir".
//
// Unlike ImageFolder it skips directories and files whose names begin with a dot, such as
// .ipynb_checkpoints, and says so.
package folder

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"path"
	"sort"
	"strings"

	"github.com/paragon-train/paragon/data/internal/source"
	"github.com/paragon-train/paragon/data/internal/source/manifest"
	"github.com/paragon-train/paragon/internal/files/objects"
)

// Extensions are the endings of images, in lower case, as torchvision has them.
var Extensions = []string{".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp"}

// A Config says how a folder is read.
type Config struct {
	// Classes are the names of the classes by label, such as those of the training set for a
	// test set. A directory of another name is an error. Empty: the directories there are,
	// sorted by code point.
	Classes []string
	// AllowEmpty takes classes without an image, which are an error otherwise.
	AllowEmpty bool
	// Extensions are the endings of images, with the dot; case is ignored. Empty: Extensions of
	// this package.
	Extensions []string
}

// A Folders is a store that knows directories with no object in them, as a disk does and a bucket
// does not.
type Folders interface {
	// Folders returns the names of the directories directly below the store's root, sorted.
	Folders(ctx context.Context) ([]string, error)
}

// A Source has the images of a folder.
type Source struct {
	store   objects.Store
	classes []string
	dirs    []directory
	n       int
	notes   []string
	print   string
}

// A directory has the images that lie in one directory; the names in its manifest are those below
// it.
type directory struct {
	// path has no slash at its end.
	path string
	// label is the class's.
	label int
	// first is the number of its first example.
	first int
	files manifest.Manifest
}

var _ source.Source = (*Source)(nil)

// Open lists the store and makes a source of the images there.
func Open(ctx context.Context, store objects.Store, cfg Config) (*Source, error) {
	s, err := open(ctx, store, cfg)
	if err != nil {
		return nil, fmt.Errorf("data: image folder %s: %w", store.URL(), err)
	}
	return s, nil
}

func open(ctx context.Context, store objects.Store, cfg Config) (*Source, error) {
	w := newWalk(cfg.Extensions)
	for o, err := range store.List(ctx, "") {
		if err != nil {
			return nil, err
		}
		w.add(o)
	}
	if f, ok := store.(Folders); ok {
		names, err := f.Folders(ctx)
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			w.class(name)
		}
	}
	if err := w.check(); err != nil {
		return nil, err
	}
	classes, err := w.classNames(cfg)
	if err != nil {
		return nil, err
	}
	s := &Source{store: store, classes: classes, dirs: w.sorted(classes), notes: w.notes()}
	for i := range s.dirs {
		s.dirs[i].first = s.n
		s.n += s.dirs[i].files.Len()
	}
	s.print = s.fingerprint()
	return s, nil
}

// Len is the number of images.
func (s *Source) Len() int { return s.n }

// Classes are the names of the classes by label.
func (s *Source) Classes() []string { return s.classes }

// Blocks is nil: each image is an object of its own.
func (s *Source) Blocks() []int { return nil }

// Notes are what the user should know about the folder, such as what was skipped, a sentence each.
func (s *Source) Notes() []string { return s.notes }

// Fingerprint covers the classes, and the names and sizes of the images in their order.
func (s *Source) Fingerprint() string { return s.print }

// Close does nothing: the source holds memory alone.
func (s *Source) Close() error { return nil }

// find returns the directory of example i and the example's number in it.
func (s *Source) find(i int) (*directory, int) {
	d := &s.dirs[sort.Search(len(s.dirs), func(k int) bool { return s.dirs[k].first > i })-1]
	return d, i - d.first
}

func (d *directory) object(k int) objects.Info {
	o := d.files.At(k)
	o.Name = d.path + "/" + o.Name
	return o
}

// Range is all of the image's file.
func (s *Source) Range(i int) (objects.Range, bool) {
	if source.CheckIndex(i, s.n) != nil {
		return objects.Range{}, false
	}
	d, k := s.find(i)
	o := d.object(k)
	return objects.Range{Object: o, Length: o.Size}, true
}

// Read reads the file of image i.
func (s *Source) Read(ctx context.Context, i int, buf []byte) (source.Example, error) {
	if err := source.CheckIndex(i, s.n); err != nil {
		return source.Example{}, fmt.Errorf("data: image folder %s: %w", s.store.URL(), err)
	}
	d, k := s.find(i)
	o := d.object(k)
	image, err := source.ReadObject(ctx, s.store, o, buf)
	if err != nil {
		return source.Example{}, source.Blame(i, o.Name, err)
	}
	return source.Example{Image: image, Labels: []float32{float32(d.label)}, Name: o.Name}, nil
}

func (s *Source) fingerprint() string {
	h := sha256.New()
	io.WriteString(h, "folder\n")
	var b []byte
	text := func(t string) { b = append(binary.AppendUvarint(b, uint64(len(t))), t...) }
	for _, c := range s.classes {
		text(c)
	}
	for i := range s.dirs {
		d := &s.dirs[i]
		text(d.path)
		b = binary.AppendUvarint(b, uint64(d.files.Len()))
		for k := range d.files.Len() {
			name := d.files.Name(k)
			b = append(binary.AppendUvarint(b, uint64(len(name))), name...)
			b = binary.AppendUvarint(b, uint64(d.files.Size(k)))
			if len(b) > 1<<16 {
				h.Write(b)
				b = b[:0]
			}
		}
	}
	h.Write(b)
	return "folder:" + hex.EncodeToString(h.Sum(nil)[:16])
}

// errNoClasses tells what a folder of images looks like.
var errNoClasses = errors.New("it has no class directories; want a directory for each class with its images in it, CLASS/IMAGE.jpg")

func hidden(name string) bool { return strings.HasPrefix(name, ".") }

// split cuts an object's name into its directory and the name in it.
func split(name string) (dir, base string) {
	dir, base = path.Split(name)
	return strings.TrimSuffix(dir, "/"), base
}
