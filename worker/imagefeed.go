package worker

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/paragon-train/paragon/data"
	"github.com/paragon-train/paragon/nn"
	"github.com/paragon-train/paragon/sampler"
)

// ImageFeedConfig configures an ImageFeed.
type ImageFeedConfig struct {
	// Programs are the trainer's. Each has an input "images" (N, C, H, W) and labels "labels"
	// (N). If the data set has labels of several numbers, or with Mix, there is an input
	// "targets" (N, W) for a loss such as nn.SoftCrossEntropy or nn.BinaryCrossEntropy, and
	// "labels" need not be.
	Programs []*nn.Program
	Dataset  data.Dataset
	// Workers and Rank are the store's. Fit divides the examples anew when the number of
	// workers changes.
	Workers, Rank int
	// Seed of the order and of the augmentation; the same on all workers.
	Seed uint64
	// Order is the order of the examples of an epoch; the default is sampler.Permutation.
	Order sampler.Order
	// Remainder is what becomes of the examples that do not divide evenly over the workers; the
	// default is sampler.Spread.
	Remainder sampler.Policy
	Augment   data.Augment
	// Accumulation is how many runs of each step come before its last one: a step uses the
	// examples of Accumulation+1 batches.
	Accumulation int
	// Readers is the number of goroutines that read and augment; 0: data's default.
	Readers int
	// Mix mixes the images and targets of a run, each with the next image of it.
	Mix data.Mix
	// BadExamples is how many damaged examples (data.BadExampleError) of a pass over the data
	// all workers together may leave out of their losses; Fit ends with the next one on all of
	// them. With dist_async each worker may leave out so many. 0: the first one ends the
	// reading.
	BadExamples int
	// Prefetch is how many runs are read ahead, if PrefetchBytes has room for them; 0: data's
	// default.
	Prefetch int
	// PrefetchBytes bounds the memory of the batches that are read ahead; 0: data's default.
	PrefetchBytes int64
}

// An ImageFeed reads a worker's part of a data set of images, ahead of the training, and gives each
// device an equal share of every batch. The last batch of an epoch may be short; a worker that has
// run out while another has not takes part in the last step with no example. It is a BatchFeed.
type ImageFeed struct {
	*Partition
	cfg ImageFeedConfig
	// share is the most examples of one device in a run.
	share  int
	loader *data.Loader
	// inputs are by device. pixels take the place of their images where all devices take bytes.
	inputs []imageInput
	pixels []*nn.Pixels
	// bad are damaged examples that TakeBad has not returned yet.
	bad []*data.BadExampleError
}

// NewImageFeed returns the feed of one worker.
func NewImageFeed(cfg ImageFeedConfig) (*ImageFeed, error) {
	if len(cfg.Programs) == 0 || cfg.Dataset == nil {
		return nil, errors.New("worker: image feed: want Programs and a Dataset")
	}
	if cfg.Accumulation < 0 {
		return nil, fmt.Errorf("worker: image feed: Accumulation is %d, want at least 0", cfg.Accumulation)
	}
	f := &ImageFeed{cfg: cfg}
	if err := f.take(cfg.Programs); err != nil {
		return nil, err
	}
	f.share = f.inputs[0].batch
	perRun := f.share * len(cfg.Programs)
	if cfg.Accumulation >= maxPerStep/perRun {
		return nil, fmt.Errorf("worker: image feed: Accumulation is %d with a batch of %d, want a step of fewer than %d examples", cfg.Accumulation, perRun, maxPerStep)
	}
	var err error
	f.Partition, err = NewPartition(cfg.Dataset.Len(), perRun*(cfg.Accumulation+1), cfg.Workers, cfg.Rank, sampler.Seed(cfg.Seed), sampler.Ordered(cfg.Order), sampler.Remainder(cfg.Remainder))
	if err != nil {
		return nil, err
	}
	return f, f.SetRun(perRun)
}

// maxPerStep is above what a worker can use in a step; sums of it over workers do not overflow, and
// a float32 holds it exactly.
const maxPerStep = 1 << 24

// take finds the inputs of the programs.
func (f *ImageFeed) take(programs []*nn.Program) error {
	var inputs []imageInput
	width := targetWidth(f.cfg.Dataset, f.cfg.Mix)
	for d, program := range programs {
		input, err := imageInputs(program, f.cfg.Dataset.Shape(), width)
		if err != nil {
			return fmt.Errorf("worker: image feed: device %d: %w", d, err)
		}
		if d > 0 && input.batch != inputs[0].batch {
			return fmt.Errorf("worker: image feed: batch of device %d is %d, of device 0 %d, want the same", d, input.batch, inputs[0].batch)
		}
		inputs = append(inputs, input)
	}
	pixels, err := imagePixels(programs, f.cfg)
	if err != nil {
		return err
	}
	if pixels != nil && (f.cfg.Mix.Mixup != 0 || f.cfg.Mix.CutMix != 0) {
		return errors.New("worker: image feed: Mix on GPUs that take images as bytes, want none: they augment by themselves, and cannot mix")
	}
	f.inputs, f.pixels = inputs, pixels
	return nil
}

// Use implements BatchFeed: each device has an equal share of a run.
func (f *ImageFeed) Use(programs []*nn.Program, perRun int) error {
	if len(programs) != len(f.cfg.Programs) {
		return fmt.Errorf("worker: image feed: got programs for %d devices, want %d", len(programs), len(f.cfg.Programs))
	}
	if err := f.Close(); err != nil {
		return err
	}
	if err := f.SetRun(perRun); err != nil {
		return err
	}
	share := (perRun + len(programs) - 1) / len(programs)
	if err := f.take(programs); err != nil {
		return err
	}
	if most := f.inputs[0].batch; share > most {
		return fmt.Errorf("worker: image feed: got runs of %d examples for %d devices, want at most %d on each", perRun, len(programs), most)
	}
	f.share = share
	return nil
}

// imagePixels are the inputs of all devices as bytes; nil if one of them takes numbers.
func imagePixels(programs []*nn.Program, cfg ImageFeedConfig) ([]*nn.Pixels, error) {
	var all []*nn.Pixels
	for d, program := range programs {
		pixels, err := program.Pixels("images", pixelsConfig(cfg.Dataset.Shape(), cfg.Augment))
		if errors.Is(err, nn.ErrNoPixels) && d == 0 {
			return nil, nil
		}
		if err != nil {
			return nil, fmt.Errorf("worker: image feed: device %d: %w", d, err)
		}
		all = append(all, pixels)
	}
	return all, nil
}

func pixelsConfig(shape data.Shape, augment data.Augment) nn.PixelsConfig {
	return nn.PixelsConfig{Channels: shape.Channels, Height: shape.Height, Width: shape.Width, Mean: augment.Mean, Std: augment.Std}
}

// Begin starts epoch e at a step.
func (f *ImageFeed) Begin(ctx context.Context, epoch, step int) error {
	if err := f.Close(); err != nil {
		return err
	}
	// Runs without examples are the last ones.
	sizes := func(yield func(int) bool) {
		for n := range f.Runs(step) {
			if n == 0 || !yield(n) {
				return
			}
		}
	}
	var err error
	f.loader, err = data.NewLoader(f.cfg.Dataset, f.From(epoch, step), data.LoaderConfig{
		BatchSize: f.share * len(f.inputs), Sizes: sizes, Augment: f.cfg.Augment, Seed: f.cfg.Seed, Epoch: epoch, Readers: f.cfg.Readers, Raw: f.pixels != nil,
		Mix: f.cfg.Mix, BadExamples: f.cfg.BadExamples, Prefetch: f.cfg.Prefetch, PrefetchBytes: f.cfg.PrefetchBytes,
	})
	return err
}

// Ahead implements AheadFeed: a device that takes bytes has copied them when it has computed a
// gradient.
func (f *ImageFeed) Ahead() bool { return f.pixels != nil }

// Next fills the inputs of all devices.
func (f *ImageFeed) Next(ctx context.Context) ([]int, error) {
	counts := make([]int, len(f.inputs))
	batch, err := f.loader.Next(ctx)
	if errors.Is(err, io.EOF) {
		// The images of the last batch stay, and none counts.
		for _, input := range f.inputs {
			input.setLabels(nil)
		}
		return counts, nil
	}
	if err != nil {
		return nil, err
	}
	f.bad = append(f.bad, batch.Bad...)
	for d, input := range f.inputs {
		first := d * f.share
		if f.pixels != nil {
			size := f.cfg.Dataset.Shape().Size()
			setPixels(f.pixels[d], batch.Pixels[first*size:(first+f.share)*size], batch.Draws[first:first+f.share])
		}
		counts[d] = min(max(batch.N-first, 0), f.share)
		input.set(batch, first, f.share, counts[d], f.pixels != nil)
	}
	return counts, nil
}

// BadBudget implements BadExampleFeed.
func (f *ImageFeed) BadBudget() int { return f.cfg.BadExamples }

// TakeBad implements BadExampleFeed.
func (f *ImageFeed) TakeBad() (list []*data.BadExampleError) {
	list, f.bad = f.bad, nil
	return list
}

// knownOrders are orders of the data besides the configured one, for a run that resumes or joins in
// another.
func (f *ImageFeed) knownOrders() []sampler.Order {
	if d, ok := f.cfg.Dataset.(interface{ Blocks() []int }); ok && len(d.Blocks()) > 0 {
		return []sampler.Order{sampler.Blocks(d.Blocks(), 1)}
	}
	return nil
}

// Data implements DescribedFeed.
func (f *ImageFeed) Data() DataInfo { return describe(f.cfg.Dataset) }

func setPixels(p *nn.Pixels, images []uint8, draws []data.Draw) {
	copy(p.Images, images)
	for i, d := range draws {
		p.Draw(i, d.DX, d.DY, d.Flip)
	}
}

// Close stops the reading.
func (f *ImageFeed) Close() error {
	if f.loader == nil {
		return nil
	}
	err := f.loader.Close()
	f.loader = nil
	return err
}
