package data

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
)

// Streams of random numbers of an example. Those of Augment are older and have the seed itself.
const (
	exampleStream = 1 + iota // for ExampleReader
	mixStream                // for Mix
)

// A reader reads pieces of batches, one after the other. It belongs to one goroutine.
type reader struct {
	dataset Dataset

	// examples is nil if the data set is none.
	examples ExampleReader

	cfg    LoaderConfig
	layout layout

	augmenter augmenter

	// mixer is nil if nothing is mixed.
	mixer *mixer

	// pixels are those of the image that is read.
	pixels []uint8

	example Example
	source  rand.PCG

	// draw has source as its source.
	draw *rand.Rand
}

func newReader(dataset Dataset, cfg LoaderConfig, l layout, table [][256]float32) *reader {
	r := &reader{
		dataset: dataset, cfg: cfg, layout: l, pixels: make([]uint8, l.pixels),
		augmenter: augmenter{Augment: cfg.Augment, shape: dataset.Shape(), table: table},
	}
	r.examples, _ = dataset.(ExampleReader)
	r.draw = rand.New(&r.source)
	if cfg.Mix.mixes() {
		r.mixer = newMixer(cfg, l, dataset.Shape())
	}
	return r
}

// do reads a piece, and finishes the batch if it was the last.
func (r *reader) do(ctx context.Context, p piece) {
	b := p.batch
	for k := p.first; k < p.end; k++ {
		err := ctx.Err()
		if err == nil {
			err = r.read(ctx, b, k)
		}
		if err != nil {
			b.state.fail(k, err)
			break
		}
	}
	if !b.state.end() {
		return
	}
	if b.state.err == nil {
		r.finish(b)
	}
	b.state.done <- b.state.err
}

// read reads the example at a place of a batch, and augments it.
func (r *reader) read(ctx context.Context, b *Batch, k int) error {
	size := r.layout.pixels
	i, pixels := b.Indices[k], r.pixels
	if r.cfg.Raw {
		pixels = b.Pixels[k*size : (k+1)*size]
	}
	label, err := r.readPixels(ctx, b, k, pixels)
	var bad *BadExampleError
	switch {
	case errors.As(err, &bad):
		label = -1
		clear(pixels)
		r.layout.leaveOut(b, k)
		b.state.damaged(k, bad)
	case err != nil:
		return fmt.Errorf("data: loader: example %d: %w", i, err)
	case label < 0:
		r.layout.leaveOut(b, k)
	case r.mixer != nil && r.mixer.Classes > 0 && labelWidth(r.dataset) == 0:
		if label >= r.mixer.Classes {
			return fmt.Errorf("data: loader: example %d: got label %d, want one of Mix.Classes, below %d", i, label, r.mixer.Classes)
		}
		r.mixer.class(r.layout.target(b, k), label)
	}
	b.Labels[k] = int32(label)
	draw := r.augmenter.draw(r.cfg.Seed, r.cfg.Epoch, i)
	if r.cfg.Raw {
		b.Draws[k] = draw
	} else {
		r.augmenter.image(b.Images[k*size:(k+1)*size], pixels, draw)
	}
	return nil
}

func (r *reader) readPixels(ctx context.Context, b *Batch, k int, pixels []uint8) (label int, err error) {
	i := b.Indices[k]
	if r.examples == nil {
		return r.dataset.Read(i, pixels)
	}
	r.example = Example{Pixels: pixels}
	if r.examples.LabelWidth() > 0 {
		r.example.Labels = r.layout.target(b, k)
		clear(r.example.Labels)
	}
	if !r.cfg.Still {
		r.source.Seed(mix(r.cfg.Seed, exampleStream), mix(uint64(r.cfg.Epoch), uint64(i)))
		r.example.Draw = r.draw
	}
	err = r.examples.ReadExample(ctx, i, &r.example)
	return r.example.Label, err
}

// finish mixes a batch whose examples have been read, and gives it its length.
func (r *reader) finish(b *Batch) {
	b.tellBad()
	if r.mixer != nil {
		r.mixer.mix(b)
	}
	if r.cfg.Last == ShortLast {
		r.layout.resize(b, b.N)
	} else {
		r.layout.pad(b)
	}
}
