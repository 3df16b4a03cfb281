// Package list reads images that a list names: MXNet's .lst files, as im2rec makes them.
//
// A line has an id, one label or several, and the path of an image below a folder, with tabs
// between them:
//
//	17	3.000000	cat/17.jpg
//	18	2	5	0.1	0.2	0.6	0.9	street/18.jpg
//
// Example i is the i-th line that is not empty; its id counts for nothing. A line that is none of
// these is an error with its number. An image that is not there is a damaged example.
package list

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"

	"github.com/paragon-train/paragon/data/internal/source"
	"github.com/paragon-train/paragon/data/internal/source/manifest"
	"github.com/paragon-train/paragon/internal/files/objects"
)

// A Config says what is read.
type Config struct {
	// File is the name of the .lst file in the store.
	File string
	// Images has the images, and is the source's to close once it is open. Nil: the store of
	// the list.
	Images objects.Store
	// Root is the folder of the images' store that paths begin at, with slashes; empty: the
	// store's own.
	Root string
	// Classes are the names of the classes by label, if they are known: a list has none.
	Classes []string
}

// A Source has the images of a list.
type Source struct {
	images objects.Store

	// own is what Close closes; nil: nothing is closed.
	own objects.Store

	file    string
	classes []string
	objects manifest.Manifest
	labels  labels
	// known says that the sizes are known of all objects that are there.
	known bool
	notes []string
	print string
}

var _ source.Source = (*Source)(nil)

// Open reads the list, and looks for the images.
func Open(ctx context.Context, store objects.Store, cfg Config) (*Source, error) {
	s, err := open(ctx, store, cfg)
	if err != nil {
		return nil, fmt.Errorf("data: image list %s in %s: %w", cfg.File, store.URL(), err)
	}
	return s, nil
}

func open(ctx context.Context, store objects.Store, cfg Config) (*Source, error) {
	info, err := store.Stat(ctx, cfg.File)
	if err != nil {
		return nil, err
	}
	r := objects.NewReader(ctx, store, info)
	defer r.Close()
	s := &Source{images: cfg.Images, own: cfg.Images, file: cfg.File, classes: cfg.Classes}
	if s.images == nil {
		s.images = store
	}
	var names []string
	err = parse(r, cfg.Root, func(name string, labels []float32) {
		names = append(names, name)
		s.labels.add(labels)
	})
	if err != nil {
		return nil, err
	}
	if len(names) == 0 {
		return nil, errors.New("it has no line; want lines of an id, a label and the path of an image, with tabs between them")
	}
	s.labels.trim()
	if s.known, err = find(ctx, s.images, names, &s.objects); err != nil {
		return nil, err
	}
	if s.known {
		s.notes = s.missing()
	}
	s.print = s.fingerprint()
	return s, nil
}

// missing says which images are not there.
func (s *Source) missing() []string {
	n, some := 0, ""
	for i := range s.objects.Len() {
		if s.objects.Size(i) >= 0 {
			continue
		}
		switch n++; {
		case n == 1:
			some = string(s.objects.Name(i))
		case n <= 3:
			some += ", " + string(s.objects.Name(i))
		case n == 4:
			some += ", ..."
		}
	}
	if n == 0 {
		return nil
	}
	return []string{fmt.Sprintf("%d of the %d images that %s names are not in %s: %s", n, s.objects.Len(), s.file, s.images.URL(), some)}
}

// Len is the number of images.
func (s *Source) Len() int { return s.objects.Len() }

// Classes are those of the Config.
func (s *Source) Classes() []string { return s.classes }

// Blocks is nil: each image is an object of its own.
func (s *Source) Blocks() []int { return nil }

// Notes are what the user should know, such as that images are not there, a sentence each.
func (s *Source) Notes() []string { return s.notes }

// Fingerprint covers the paths, labels and sizes of the images in their order.
func (s *Source) Fingerprint() string { return s.print }

// Close closes the store of the images, if it is another one than the list's.
func (s *Source) Close() error {
	if s.own == nil {
		return nil
	}
	return s.own.Close()
}

// Range is all of the image's file, if its size is known.
func (s *Source) Range(i int) (objects.Range, bool) {
	if source.CheckIndex(i, s.Len()) != nil || s.objects.Size(i) < 0 {
		return objects.Range{}, false
	}
	o := s.objects.At(i)
	return objects.Range{Object: o, Length: o.Size}, true
}

// Read reads the file of image i.
func (s *Source) Read(ctx context.Context, i int, buf []byte) (source.Example, error) {
	if err := source.CheckIndex(i, s.Len()); err != nil {
		return source.Example{}, fmt.Errorf("data: image list %s: %w", s.file, err)
	}
	o := s.objects.At(i)
	image, err := s.read(ctx, o, buf)
	if err != nil {
		return source.Example{}, source.Blame(i, o.Name, err)
	}
	return source.Example{Image: image, Labels: s.labels.at(i), Name: o.Name}, nil
}

func (s *Source) read(ctx context.Context, o objects.Info, buf []byte) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if o.Size < 0 && s.known {
		return nil, source.Fault{Err: fmt.Errorf("%s names it, but it was not there when the list was read: %w", s.file, fs.ErrNotExist)}
	}
	if o.Size < 0 {
		var err error
		switch o, err = s.images.Stat(ctx, o.Name); {
		case errors.Is(err, fs.ErrNotExist):
			return nil, source.Fault{Err: err}
		case err != nil:
			return nil, err
		}
	}
	return source.ReadObject(ctx, s.images, o, buf)
}

func (s *Source) fingerprint() string {
	h := sha256.New()
	io.WriteString(h, "list\n")
	var b []byte
	for i := range s.Len() {
		name := s.objects.Name(i)
		b = append(binary.AppendUvarint(b, uint64(len(name))), name...)
		b = binary.AppendUvarint(b, uint64(s.objects.Size(i)+1))
		for _, label := range s.labels.at(i) {
			b = binary.LittleEndian.AppendUint32(b, math.Float32bits(label))
		}
		if len(b) > 1<<16 {
			h.Write(b)
			b = b[:0]
		}
	}
	h.Write(b)
	return "list:" + hex.EncodeToString(h.Sum(nil)[:16])
}
