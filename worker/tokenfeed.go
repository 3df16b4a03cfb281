package worker

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/paragon-train/paragon/nn"
	"github.com/paragon-train/paragon/sampler"
)

// Windows are sequences of tokens to train a language model on, such as data.Tokens: each is some
// inputs and for each of these its target, the token behind it, or −1 where there is none.
type Windows interface {
	// Len is the number of windows, and Length that of the inputs of one.
	Len() int
	Length() int
	// ReadPair reads window i. It may be called from several goroutines at once.
	ReadPair(ctx context.Context, i int, inputs, targets []int32) error
}

// TokenFeedConfig configures a TokenFeed.
type TokenFeedConfig struct {
	// Programs are the trainer's. Each has an input "tokens" and labels "labels", both (N, T).
	Programs []*nn.Program
	// Windows have the length T.
	Windows Windows
	// Workers and Rank are the store's. Fit divides the windows anew when the number of workers
	// changes.
	Workers, Rank int
	// Seed of the order; the same on all workers.
	Seed uint64
	// Order is the order of the windows of an epoch; the default is sampler.Permutation.
	Order sampler.Order
	// Accumulation is how many runs of each step come before its last one: a step uses the
	// windows of Accumulation+1 batches.
	Accumulation int
}

// A TokenFeed reads a worker's part of the windows of a text, each once in an epoch, and gives each
// device an equal share of every batch. The last batch of an epoch may be short; a worker that has
// run out while another has not takes part in the last step with no window. It is a BatchFeed.
type TokenFeed struct {
	*Partition
	cfg TokenFeedConfig
	// share is the most windows of one device in a run.
	share  int
	inputs []tokenInput

	next func() ([]int, bool)
	stop func()
}

// tokenInput are the inputs of a program.
type tokenInput struct {
	tokens, labels nn.LabelInput
	batch          int
	// inputs and targets are the numbers of a batch.
	inputs, targets []int32
}

// tokenInputs finds the inputs of a program for windows of this length.
func tokenInputs(p *nn.Program, length int) (in tokenInput, err error) {
	if in.tokens, err = p.Labels("tokens"); err != nil {
		return in, err
	}
	if in.labels, err = p.Labels("labels"); err != nil {
		return in, err
	}
	n := in.tokens.Len()
	if in.batch = n / max(length, 1); in.batch < 1 || in.batch*length != n || in.labels.Len() != n {
		return in, fmt.Errorf("input tokens has %d numbers and labels %d, want both of windows of %d", n, in.labels.Len(), length)
	}
	in.inputs, in.targets = make([]int32, n), make([]int32, n)
	return in, nil
}

// set reads some windows, of which there is room for.
func (in *tokenInput) set(ctx context.Context, w Windows, list []int) error {
	length := w.Length()
	for k, i := range list {
		if err := w.ReadPair(ctx, i, in.inputs[k*length:(k+1)*length], in.targets[k*length:(k+1)*length]); err != nil {
			return err
		}
	}
	in.tokens.Set(in.inputs[:len(list)*length])
	in.labels.Set(in.targets[:len(list)*length])
	return nil
}

// NewTokenFeed returns the feed of one worker.
func NewTokenFeed(cfg TokenFeedConfig) (*TokenFeed, error) {
	if len(cfg.Programs) == 0 || cfg.Windows == nil {
		return nil, errors.New("worker: token feed: want Programs and Windows")
	}
	if cfg.Accumulation < 0 {
		return nil, fmt.Errorf("worker: token feed: Accumulation is %d, want at least 0", cfg.Accumulation)
	}
	f := &TokenFeed{cfg: cfg}
	if err := f.take(cfg.Programs); err != nil {
		return nil, err
	}
	f.share = f.inputs[0].batch
	perRun := f.share * len(cfg.Programs)
	if cfg.Accumulation >= maxPerStep/perRun {
		return nil, fmt.Errorf("worker: token feed: Accumulation is %d with a batch of %d, want a step of fewer than %d windows", cfg.Accumulation, perRun, maxPerStep)
	}
	var err error
	f.Partition, err = NewPartition(cfg.Windows.Len(), perRun*(cfg.Accumulation+1), cfg.Workers, cfg.Rank, sampler.Seed(cfg.Seed), sampler.Ordered(cfg.Order))
	if err != nil {
		return nil, err
	}
	return f, f.SetRun(perRun)
}

func (f *TokenFeed) take(programs []*nn.Program) error {
	f.inputs = nil
	for d, program := range programs {
		in, err := tokenInputs(program, f.cfg.Windows.Length())
		if err != nil {
			return fmt.Errorf("worker: token feed: device %d: %w", d, err)
		}
		if d > 0 && in.batch != f.inputs[0].batch {
			return fmt.Errorf("worker: token feed: batch of device %d is %d, of device 0 %d, want the same", d, in.batch, f.inputs[0].batch)
		}
		f.inputs = append(f.inputs, in)
	}
	return nil
}

// Use implements BatchFeed: each device has an equal share of a run.
func (f *TokenFeed) Use(programs []*nn.Program, perRun int) error {
	if len(programs) != len(f.cfg.Programs) {
		return fmt.Errorf("worker: token feed: got programs for %d devices, want %d", len(programs), len(f.cfg.Programs))
	}
	if err := errors.Join(f.Close(), f.SetRun(perRun), f.take(programs)); err != nil {
		return err
	}
	f.share = (perRun + len(programs) - 1) / len(programs)
	if most := f.inputs[0].batch; f.share > most {
		return fmt.Errorf("worker: token feed: got runs of %d windows for %d devices, want at most %d on each", perRun, len(programs), most)
	}
	return nil
}

// Begin starts epoch e at a step.
func (f *TokenFeed) Begin(_ context.Context, epoch, step int) error {
	if err := f.Close(); err != nil {
		return err
	}
	f.next, f.stop = iter.Pull(f.Batches(epoch, step))
	return nil
}

// Next fills the inputs of all devices.
func (f *TokenFeed) Next(ctx context.Context) ([]int, error) {
	list, _ := f.next()
	counts := make([]int, len(f.inputs))
	for d := range f.inputs {
		counts[d] = min(len(list), f.share)
		if err := f.inputs[d].set(ctx, f.cfg.Windows, list[:counts[d]]); err != nil {
			return nil, err
		}
		list = list[counts[d]:]
	}
	return counts, nil
}

// Data implements DescribedFeed.
func (f *TokenFeed) Data() (d DataInfo) {
	if w, ok := f.cfg.Windows.(interface{ Fingerprint() string }); ok {
		d.Examples, d.Fingerprint = f.cfg.Windows.Len(), w.Fingerprint()
	}
	return d
}

// Close ends the reading.
func (f *TokenFeed) Close() error {
	if f.stop != nil {
		f.stop()
		f.next, f.stop = nil, nil
	}
	return nil
}
