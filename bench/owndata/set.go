package main

import (
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"time"

	"github.com/paragon-train/paragon/internal/testing/photos"
	"github.com/paragon-train/paragon/internal/testing/s3test"
)

// A format is a way in which the images lie, at a path below a root.
type format struct{ name, path string }

// shards is how many files the formats of several files have.
const shards = 4

// formats are what the same images are written in, with their paths in a place.
var formats = []format{
	{"folder", "folder"},
	{"rec", "rec/set.rec"},
	{"tar", fmt.Sprintf("tar/shard-{000000..%06d}.tar", shards-1)},
	{"list", "set.lst"},
	{"MDS", "mds"},
	{"TFRecord", "tfrecord"},
}

// A place has the images in each format.
type place struct {
	name string
	url  func(f format) string
	// sent is the number of bytes that the server has sent since it was started; nil: not
	// known.
	sent func() int64
}

// A set has the images in all places.
type set struct {
	root   string
	places []place
	server *s3test.Server
	temp   bool
	// largestFormat is the size of the tar files, in bytes: no format takes more.
	largestFormat int64
}

// makeSet makes the images, or takes those that the folder has. What it made before an error is
// closed.
func makeSet(c config) (s *set, err error) {
	s = &set{root: c.dir}
	if s.root == "" {
		s.temp = true
		if s.root, err = os.MkdirTemp("", "paragon-owndata"); err != nil {
			return nil, err
		}
	}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	if s.root, err = filepath.Abs(s.root); err != nil {
		return s, err
	}
	if _, err := os.Stat(filepath.Join(s.root, "complete")); err != nil {
		if err := s.makeImages(c); err != nil {
			return s, err
		}
	}
	if s.largestFormat, err = tarBytes(filepath.Join(s.root, "tar")); err != nil {
		return s, err
	}
	s.places = []place{{name: "disk", url: func(f format) string { return filepath.Join(s.root, filepath.FromSlash(f.path)) }}}
	if buckets {
		return s, s.startServer(c.latency)
	}
	return s, nil
}

// formatFolders are the folders of the formats but for that of single images.
var formatFolders = []string{"rec", "tar", "mds", "tfrecord"}

// makeImages writes the images in all formats, and then the file complete.
func (s *set) makeImages(c config) error {
	for _, d := range formatFolders {
		if err := os.MkdirAll(filepath.Join(s.root, d), 0o755); err != nil {
			return err
		}
	}
	folder := filepath.Join(s.root, "folder")
	if err := errors.Join(
		photos.Make(folder, photos.Config{Images: c.images, Classes: c.classes, Seed: 1, Largest: c.largest, Real: c.photos}),
		photos.Record(filepath.Join(s.root, "rec", "set.rec"), folder),
		photos.Tars(filepath.Join(s.root, "tar"), folder, shards),
		photos.List(filepath.Join(s.root, "set.lst"), folder),
		photos.MDS(filepath.Join(s.root, "mds"), folder, shards),
		photos.TFRecords(filepath.Join(s.root, "tfrecord"), folder, shards),
	); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(s.root, "complete"), nil, 0o644)
}

// tarBytes is the size of all tar files in a folder.
func tarBytes(folder string) (total int64, err error) {
	tars, err := filepath.Glob(filepath.Join(folder, "*.tar"))
	if err != nil {
		return 0, err
	}
	for _, name := range tars {
		info, err := os.Stat(name)
		if err != nil {
			return 0, err
		}
		total += info.Size()
	}
	return total, nil
}

// startServer adds S3 to the places. The jobs that this process starts inherit its environment.
func (s *set) startServer(latency time.Duration) error {
	s.server = s3test.Start()
	s.server.Latency = latency
	for name, value := range s3test.Environment() {
		if err := os.Setenv(name, value); err != nil {
			return err
		}
	}
	for _, d := range append([]string{"folder"}, formatFolders...) {
		if err := s.server.AddFolder(path.Join("set", d), filepath.Join(s.root, d)); err != nil {
			return err
		}
	}
	list, err := os.ReadFile(filepath.Join(s.root, "set.lst"))
	if err != nil {
		return err
	}
	s.server.Put("set/set.lst", list)
	s.places = append(s.places, place{
		name: "S3", url: func(f format) string { return s.server.URL("set/" + f.path) }, sent: func() int64 { return s.server.Counts().Bytes.Load() },
	})
	return nil
}

// A source is a format in a place.
type source struct {
	place
	format
}

func (s source) String() string { return s.format.name + " from " + s.place.name }

func (s source) address() string { return s.url(s.format) }

// bytes is how many the place has sent so far.
func (s source) bytes() int64 {
	if s.sent == nil {
		return 0
	}
	return s.sent()
}

// sources are those that are asked for.
func (s *shower) sources() (list []source) {
	for _, p := range s.places {
		for _, f := range formats {
			if c := (source{p, f}); s.what.MatchString(c.String()) {
				list = append(list, c)
			}
		}
	}
	return list
}

// close stops the server and removes a temporary folder.
func (s *set) close() {
	if s.server != nil {
		s.server.Close()
	}
	if s.temp {
		os.RemoveAll(s.root)
	}
}
