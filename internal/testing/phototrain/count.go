package phototrain

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"

	"github.com/paragon-train/paragon/data"
	"github.com/paragon-train/paragon/data/transform"
	"github.com/paragon-train/paragon/internal/testing/countmodel"
	"github.com/paragon-train/paragon/nn"
	"github.com/paragon-train/paragon/sampler"
	"github.com/paragon-train/paragon/worker"
)

// counted are the transforms of Count: without chance, so that an image is the same each time.
func counted(size int) []transform.Transform {
	return []transform.Transform{transform.Resize(size), transform.CenterCrop(size)}
}

// Prints reads all images as Count does, and gives a number for each that tells its pixels and its
// label from others.
func Prints(ctx context.Context, r Run) (prints []uint64, err error) {
	r.Open.Transforms = counted(r.Size)
	images, err := data.OpenImages(ctx, r.URL, r.Open)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, images.Close()) }()
	pixels := make([]uint8, images.Shape().Size())
	for i := range images.Len() {
		label, err := images.Read(i, pixels)
		if err != nil {
			return nil, err
		}
		prints = append(prints, printOf(pixels, int32(label)))
	}
	return prints, nil
}

func printOf(pixels []uint8, label int32) uint64 {
	h := fnv.New64a()
	h.Write(pixels)
	h.Write([]byte{uint8(label), uint8(label >> 8)})
	return h.Sum64()
}

// Count trains countmodel's model on the numbers of the images, which it reads in earnest, and
// returns how often each was used. An image that is not the one of prints is an error.
func Count(ctx context.Context, r Run, prints []uint64) (counts []int, err error) {
	r.Open.Transforms = counted(r.Size)
	images, err := data.OpenImages(ctx, r.URL, r.Open)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, images.Close()) }()
	if images.Len() != len(prints) {
		return nil, fmt.Errorf("phototrain: %s has %d images, want %d", r.URL, images.Len(), len(prints))
	}
	program, err := countmodel.Compile(images.Len())
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, program.Close()) }()
	trainer, err := worker.NewTrainer(ctx, worker.Config{Store: r.Store, Programs: []*nn.Program{program}, Optimizer: countmodel.Optimizer})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, trainer.Close()) }()
	x, err := program.Input("x")
	if err != nil {
		return nil, err
	}
	part, err := worker.NewPartition(len(x), r.Batch, r.Store.NumWorkers(), r.Store.Rank(), sampler.Seed(seed), sampler.Ordered(r.order(images)))
	if err != nil {
		return nil, err
	}
	feed := &countFeed{Partition: part, run: r, images: images, x: x, prints: prints}
	epochs, err := worker.Fit(ctx, worker.FitConfig{
		Trainer: trainer, Feed: feed, Epochs: r.Epochs, Checkpoint: r.Checkpoint, Stop: r.Stop, Leave: r.Leave, Observers: r.Observers,
	})
	if err == nil && len(epochs) == 0 {
		err = ErrLate
	}
	if err != nil {
		return nil, err
	}
	return countmodel.Counts(program), nil
}

// A countFeed reads a worker's images, ahead, and gives the program their numbers. It is a
// worker.DividedFeed.
type countFeed struct {
	*worker.Partition
	run    Run
	images *data.Images
	x      []float32
	prints []uint64
	loader *data.Loader
}

// Begin implements worker.Feed.
func (f *countFeed) Begin(_ context.Context, epoch, step int) error {
	if err := f.Close(); err != nil {
		return err
	}
	var err error
	f.loader, err = data.NewLoader(f.images, f.From(epoch, step), data.LoaderConfig{
		BatchSize: f.PerStep(), Seed: seed, Epoch: epoch, Readers: f.run.Readers, Raw: true, Still: true,
	})
	return err
}

// Next implements worker.Feed.
func (f *countFeed) Next(ctx context.Context) ([]int, error) {
	if f.run.Before != nil {
		if err := f.run.Before(ctx); err != nil {
			return nil, err
		}
	}
	clear(f.x)
	batch, err := f.loader.Next(ctx)
	if errors.Is(err, io.EOF) {
		return []int{0}, nil
	}
	if err != nil {
		return nil, err
	}
	size := f.images.Shape().Size()
	for k, i := range batch.Indices[:batch.N] {
		if got := printOf(batch.Pixels[k*size:(k+1)*size], batch.Labels[k]); got != f.prints[i] {
			return nil, fmt.Errorf("phototrain: image %d, of label %d, is another than when all were read", i, batch.Labels[k])
		}
		f.x[i] = 1 / float32(batch.N)
	}
	return []int{batch.N}, nil
}

// Close implements worker.Feed.
func (f *countFeed) Close() error {
	if f.loader == nil {
		return nil
	}
	err := f.loader.Close()
	f.loader = nil
	return err
}
