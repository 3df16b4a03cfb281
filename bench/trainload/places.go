package main

import (
	"cmp"
	"context"
	"errors"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/paragon-train/paragon/data"
	"github.com/paragon-train/paragon/data/transform"
	"github.com/paragon-train/paragon/internal/testing/s3test"
)

// buckets says that this program reads from buckets.
var buckets bool

// The least shares of the rate on pixels in memory at which images are trained on that lie on a
// disk, or in a bucket.
const (
	diskBar   = 0.95
	bucketBar = 0.9
)

// A place is where the images of a spell of training come from.
type place struct {
	name string
	// bar is the least ratio that passes; 0: the place has none.
	bar    float64
	images repeated
	// alone is how many images a second are read while nothing is trained.
	alone  float64
	spells []spell
}

// places opens the images: first pixels in memory.
func (c config) places(ctx context.Context) (places []*place, forget func() error, err error) {
	var ends []func() error
	forget = func() (err error) {
		for _, end := range slices.Backward(ends) {
			err = errors.Join(err, end())
		}
		return err
	}
	open := func(name, url string, bar float64, cfg data.OpenOptions) (*data.Images, error) {
		cfg.Transforms = []transform.Transform{transform.RandomResizedCrop(c.size), transform.Flip()}
		images, err := data.OpenImages(ctx, url, cfg)
		if err != nil {
			return nil, err
		}
		ends = append(ends, images.Close)
		places = append(places, &place{name: name, bar: bar, images: c.repeat(images)})
		return images, nil
	}
	places = []*place{{name: "memory"}}
	for i, set := range strings.Split(c.data, ",") {
		kind := cmp.Or(strings.TrimPrefix(filepath.Ext(set), "."), "folder")
		images, err := open(kind+"-disk", set, diskBar, data.OpenOptions{})
		if err != nil {
			return nil, forget, err
		}
		if i == 0 {
			memory, err := inMemory(ctx, images, min(images.Len(), c.batch*(c.warm+c.steps)))
			if err != nil {
				return nil, forget, err
			}
			places[0].images = c.repeat(memory)
		}
		if c.latency == 0 {
			continue
		}
		url, end, err := c.distant(set)
		if err != nil {
			return nil, forget, err
		}
		ends = append(ends, end)
		cache, err := os.MkdirTemp("", "paragon-trainload")
		if err != nil {
			return nil, forget, err
		}
		ends = append(ends, func() error { return os.RemoveAll(cache) })
		if _, err := open(kind+"-bucket", url, bucketBar, data.OpenOptions{}); err != nil {
			return nil, forget, err
		}
		if _, err := open(kind+"-cache", url, bucketBar, data.OpenOptions{CacheDir: cache}); err != nil {
			return nil, forget, err
		}
	}
	return places, forget, nil
}

// distant serves a set from a stand-in of S3, or where the program has no buckets from a web
// server.
func (c config) distant(set string) (url string, end func() error, err error) {
	if !buckets {
		address, stop, err := serve(filepath.Dir(set), c.latency)
		return address + "/" + filepath.Base(set), func() error { stop(); return nil }, err
	}
	server := s3test.Start()
	server.Latency = c.latency
	end = func() error { server.Close(); return nil }
	for name, value := range s3test.Environment() {
		if err := os.Setenv(name, value); err != nil {
			return "", nil, errors.Join(err, end())
		}
	}
	if err := server.AddFolder("set", filepath.Dir(set)); err != nil {
		return "", nil, errors.Join(err, end())
	}
	return server.URL(path.Join("set", filepath.Base(set))), end, nil
}

// repeat makes a set as long as the longest spell needs it, with the batches that are read ahead of
// it.
func (c config) repeat(set data.Dataset) repeated {
	const ahead = 128
	return repeated{set, c.batch * (c.warm + c.steps + ahead)}
}

// readAll reads as many images as a set has, once each, and returns how many a second.
func (c config) readAll(ctx context.Context, set repeated) (rate float64, err error) {
	order := func(yield func(int) bool) {
		for i := range set.Dataset.Len() {
			if !yield(i) {
				return
			}
		}
	}
	begun := time.Now()
	l, err := data.NewLoader(set, order, data.LoaderConfig{BatchSize: c.batch, Readers: c.read, Augment: normalise})
	if err != nil {
		return 0, err
	}
	defer l.Close()
	images := 0
	for {
		b, err := l.Next(ctx)
		if errors.Is(err, io.EOF) {
			return float64(images) / time.Since(begun).Seconds(), nil
		}
		if err != nil {
			return 0, err
		}
		images += b.N
	}
}
