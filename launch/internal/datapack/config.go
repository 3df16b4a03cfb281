// Package datapack packs images of any format into .rec files or tar shards, as they are or at
// another size.
//
// The same images and the same configuration make the same bytes, however many goroutines work.
// Files are written under other names and get their own when all of them are whole.
package datapack

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"strings"

	"github.com/paragon-train/paragon/data"
	"github.com/paragon-train/paragon/data/transform"
)

// A Source has the images to pack; *data.Images is one.
type Source interface {
	Len() int
	// ReadEncoded reads an example as it is stored; it is damaged if the error is a
	// *data.BadExampleError.
	ReadEncoded(ctx context.Context, i int) (data.Encoded, error)
	// Decode decodes an image, in colour or in grey.
	Decode(encoded []byte) (*transform.Image, error)
}

// A Config says how images are packed. Names and defaults are im2rec's where it has the same.
type Config struct {
	// Output is what is written: PREFIX.rec, with an index PREFIX.idx, or PREFIX.tar, for
	// shards PREFIX-000000.tar and so on.
	Output string
	// Decode makes images anew: they are decoded, changed and encoded. Otherwise their files
	// are packed as they are.
	Decode bool
	// CenterCrop cuts a square out of the middle first.
	CenterCrop bool
	// Resize is the length of the shorter side; 0: as it is.
	Resize int
	// Encoding is "jpg" or "png".
	Encoding string
	// Quality is 1 to 100 for JPEG; for PNG 1 to 9, the effort to make it small.
	Quality int
	// Shuffle mixes the order, by Seed.
	Shuffle bool
	Seed    uint64
	// TrainRatio and TestRatio cut the images into PREFIX_train, PREFIX_val and PREFIX_test:
	// the shares of the first and the last.
	TrainRatio, TestRatio float64
	// Chunks is how many files of consecutive images are made, PREFIX_0, PREFIX_1 and so on, or
	// how many shards.
	Chunks int
	// ShardSize is from how many bytes on a tar shard is full.
	ShardSize int64
	// PackLabel writes one label behind the header of a record, as several are.
	PackLabel bool
	// Goroutines is how many images are worked on at once.
	Goroutines int
	// Classes are the names of the classes by label, which are written beside the files. Empty:
	// they have none.
	Classes []string
	// Overwrite replaces files of the same names.
	Overwrite bool
	// Bad is told of each image that is left out, in order.
	Bad func(*data.BadExampleError)
	// Progress is told after each image how many are done.
	Progress func(done int)
}

// Validate names what is wrong by the flags of the command.
func (c *Config) Validate() error {
	switch {
	case strings.Contains(c.Output, "://"):
		return fmt.Errorf("got output %s, want a local path: pack into a folder, and copy the files", c.Output)
	case c.tar() == c.rec() || len(filepath.Base(c.Output)) <= len(".rec"):
		return fmt.Errorf("got output %q, want a name that ends in .rec or .tar, such as train.rec", c.Output)
	case c.Resize < 0:
		return fmt.Errorf("--resize: got %d, want the length of the shorter side, or 0", c.Resize)
	case c.Encoding != "jpg" && c.Encoding != "png":
		return fmt.Errorf("--encoding: got %q, want .jpg or .png", c.Encoding)
	case c.Encoding == "jpg" && (c.Quality < 1 || c.Quality > 100):
		return fmt.Errorf("--quality: got %d, want 1 to 100 for JPEG", c.Quality)
	case c.Encoding == "png" && (c.Quality < 1 || c.Quality > 9):
		return fmt.Errorf("--quality: got %d, want 1 to 9 for PNG", c.Quality)
	case !(c.TrainRatio >= 0 && c.TestRatio >= 0 && c.TrainRatio+c.TestRatio <= 1+1e-9):
		return fmt.Errorf("--train-ratio and --test-ratio: got %g and %g, want shares of the whole", c.TrainRatio, c.TestRatio)
	case c.Chunks < 1:
		return fmt.Errorf("--chunks: got %d, want at least 1", c.Chunks)
	case c.ShardSize < 1:
		return fmt.Errorf("--shard-size: got %d bytes, want at least 1", c.ShardSize)
	case c.PackLabel && c.tar():
		return errors.New("--pack-label is for .rec files alone")
	}
	return nil
}

// tar and rec report which files are written; Validate allows no others.
func (c *Config) tar() bool { return strings.HasSuffix(c.Output, ".tar") }

func (c *Config) rec() bool { return strings.HasSuffix(c.Output, ".rec") }

// A part is a set of files that is written for itself.
type part struct {
	// prefix is the name without the ending.
	prefix string
	// images are the examples, in order.
	images []int
	// shards is how many tar shards of as many images are made; 0: by size.
	shards int
}

// parts cuts the images as im2rec does: into chunks, and each of them into test, training and
// validation.
func (c *Config) parts(n int) ([]part, error) {
	order := c.order(n)
	prefix := strings.TrimSuffix(strings.TrimSuffix(c.Output, ".rec"), ".tar")
	chunks := c.Chunks
	if c.tar() {
		// Shards are what chunks are for.
		chunks = 1
	}
	if chunks > n {
		return nil, fmt.Errorf("--chunks: got %d for %d images, want at least one image in each", chunks, n)
	}
	var parts []part
	size := (n + chunks - 1) / chunks
	for k := range chunks {
		images := order[min(k*size, n):min((k+1)*size, n)]
		name := prefix
		if chunks > 1 {
			name = fmt.Sprintf("%s_%d", prefix, k)
		}
		if c.TrainRatio >= 1 {
			parts = append(parts, part{prefix: name, images: images})
			continue
		}
		test, train := share(len(images), c.TestRatio), share(len(images), c.TrainRatio)
		some := []part{
			{prefix: name + "_test", images: images[:test]},
			{prefix: name + "_train", images: images[test : test+train]},
			{prefix: name + "_val", images: images[test+train:]},
		}
		for i, ratio := range []float64{c.TestRatio, c.TrainRatio, 1 - c.TestRatio - c.TrainRatio} {
			switch {
			case ratio < 1e-9:
			case len(some[i].images) == 0:
				return nil, fmt.Errorf("%s would have no image: %g of %d is less than one", some[i].prefix, ratio, len(images))
			default:
				parts = append(parts, some[i])
			}
		}
	}
	if c.tar() && c.Chunks > 1 {
		for i := range parts {
			parts[i].shards = c.Chunks
		}
	}
	return parts, nil
}

// share is how many of n images a ratio means, as im2rec rounds, up to errors of the ratio in
// binary.
func share(n int, ratio float64) int { return min(n, int(math.Floor(float64(n)*ratio+1e-6))) }

// order has the numbers of n examples, in the order in which they are packed.
func (c *Config) order(n int) []int {
	order := make([]int, n)
	for i := range order {
		order[i] = i
	}
	if c.Shuffle {
		rand.New(rand.NewPCG(c.Seed, 0)).Shuffle(n, func(i, k int) { order[i], order[k] = order[k], order[i] })
	}
	return order
}
