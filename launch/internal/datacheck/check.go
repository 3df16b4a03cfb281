// Package datacheck reads all images of a data set, and says what there is and what is damaged.
package datacheck

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/paragon-train/paragon/data"
	"github.com/paragon-train/paragon/data/transform"
	"github.com/paragon-train/paragon/launch/internal/inorder"
)

// A Source has the images to check; *data.Images is one.
type Source interface {
	Len() int
	// Classes are the names of the classes by label; nil: they have none.
	Classes() []string
	// Blocks are the first examples of runs that are read together; nil: there are none.
	Blocks() []int
	// ReadEncoded reads an example as it is stored; it is damaged if the error is a
	// *data.BadExampleError.
	ReadEncoded(ctx context.Context, i int) (data.Encoded, error)
	// Decode decodes an image.
	Decode(encoded []byte) (*transform.Image, error)
}

// A Config says how images are checked.
type Config struct {
	// HeadersOnly reads the images' headers and does not decode them.
	HeadersOnly bool
	// Goroutines is how many images are worked on at once.
	Goroutines int
	// BlockBytes is the size of the blocks that a source without blocks would have elsewhere,
	// such as a local file in a bucket. 0: none.
	BlockBytes int64
	// Damaged is told of each damaged image, in order.
	Damaged func(*data.BadExampleError)
	// Progress is told after each image how many are done.
	Progress func(done int)
}

// result is what is known of one image.
type result struct {
	bytes  int
	labels []float32
	format string
	size   Size
	bad    *data.BadExampleError
}

// Check reads all images of a source. The error is of the storage; damage is in the report.
func Check(ctx context.Context, src Source, cfg Config) (*Report, error) {
	r := &Report{Images: src.Len(), Formats: map[string]int{}, Labels: map[int]int{}}
	named := len(src.Classes())
	for _, name := range src.Classes() {
		r.Classes = append(r.Classes, Class{Name: name})
	}
	work := func(ctx context.Context, i int) (result, error) {
		var got result
		e, err := src.ReadEncoded(ctx, i)
		if err == nil {
			got = result{bytes: len(e.Image), labels: e.Labels}
			if err = got.look(src, e, cfg.HeadersOnly, named); err != nil {
				err = &data.BadExampleError{Example: i, Name: e.Name, Err: err}
			}
		}
		if bad, ok := errors.AsType[*data.BadExampleError](err); ok {
			return result{bad: bad}, nil
		}
		return got, err
	}
	mixing := newMixing(src.Blocks(), cfg.BlockBytes)
	err := inorder.Run(ctx, src.Len(), cfg.Goroutines, work, func(i int, got result) error {
		r.add(got)
		label, ok := class(got.labels)
		if !ok {
			label = -1
		}
		mixing.add(i, label, got.bytes, got.bad == nil)
		if got.bad != nil && cfg.Damaged != nil {
			cfg.Damaged(got.bad)
		}
		if cfg.Progress != nil {
			cfg.Progress(i + 1)
		}
		return nil
	})
	if err != nil {
		return r, err
	}
	r.Sorted = mixing.sorted(r.Classes, r.Images-r.Damaged)
	return r, nil
}

// look finds out what the image of an example is; the error says what is wrong with it.
func (r *result) look(src Source, e data.Encoded, headersOnly bool, named int) error {
	var err error
	if r.format, r.size.Width, r.size.Height, err = data.ImageSize(e.Image); err != nil {
		return err
	}
	if !headersOnly {
		if _, err := src.Decode(e.Image); err != nil {
			return err
		}
	}
	if label, ok := class(e.Labels); ok && named > 0 && label >= named {
		return fmt.Errorf("got label %d, want one of %d classes", label, named)
	}
	for _, label := range e.Labels {
		if math.IsNaN(float64(label)) || math.IsInf(float64(label), 0) {
			return fmt.Errorf("got label %v, want a number", label)
		}
	}
	return nil
}

// mostClasses bounds what a damaged label takes.
const mostClasses = 1 << 20

// class is the class that an example's labels say, if it is one.
func class(labels []float32) (label int, ok bool) {
	if len(labels) != 1 {
		return 0, false
	}
	v := float64(labels[0])
	if v != math.Trunc(v) || v < 0 || v >= mostClasses {
		return 0, false
	}
	return int(v), true
}

func (r *Report) add(got result) {
	if got.bad != nil {
		r.Damaged++
		return
	}
	r.Bytes += int64(got.bytes)
	r.Formats[got.format]++
	r.Pixels += got.size.pixels()
	if r.Smallest == (Size{}) || got.size.pixels() < r.Smallest.pixels() {
		r.Smallest = got.size
	}
	if got.size.pixels() > r.Largest.pixels() {
		r.Largest = got.size
	}
	label, ok := class(got.labels)
	switch {
	case ok:
		for label >= len(r.Classes) {
			r.Classes = append(r.Classes, Class{})
		}
		r.Classes[label].Images++
		r.Classes[label].Bytes += int64(got.bytes)
	case len(got.labels) == 1:
		r.Other++
	default:
		r.Labels[len(got.labels)]++
	}
}
