package worker

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"time"

	"github.com/paragon-train/paragon/adapt"
	"github.com/paragon-train/paragon/nn"
	"github.com/paragon-train/paragon/optim"
)

// AdaptConfig lets Fit choose the batch size while it trains, by goodput: examples a second times
// what an example is worth in a batch of that size (package adapt). The servers measure the noise
// of the gradient and scale the learning rate of each step by Rule; rank 0 fits a model of the
// step's time to what it measures. All workers change the batch after the same step. All of them
// give the same configuration, but for MinLocal and MaxLocal; where their numbers of devices differ
// it has an InitialBatch.
//
// An epoch then is so much progress, in scale-invariant steps, as one pass over the data makes at
// the initial batch size. It may end in the middle of a pass, and the next one goes on there: each
// example of a pass is used exactly once by steps that count. Learning-rate schedules are read at
// the progress: their steps are those that a run at the initial batch size would take.
//
// The learning rate and the optimizer's other numbers are those for InitialBatch. A worker's local
// batch stays as it is when workers come or go, unless the global batch would leave the limits;
// then rank 0 chooses anew.
type AdaptConfig struct {
	// Rule scales the learning rate: adascale, adamscale, linear, sqrt or legw (adapt.Factor);
	// empty: adapt.DefaultRule of the optimizer.
	Rule string
	// InitialBatch is the global batch that the learning rate is for, M0. The run begins with
	// it. 0: what the workers' programs take together when the job starts.
	InitialBatch int
	// MaxBatch is the largest global batch. 0: the batch stays at the initial one, and only its
	// division over the workers changes.
	MaxBatch int
	// MinLocal and MaxLocal bound the local batch: the examples of one run, a forward and a
	// backward pass, on all devices of a worker together. 0: 1 and MaxBatch. Without Program
	// the trainer's programs are the upper bound.
	MinLocal, MaxLocal int
	// Accumulation allows steps of several runs, whose gradients are added up
	// (Trainer.Accumulate). One worker alone goes beyond the initial batch only so.
	Accumulation bool
	// Program compiles the model for another batch size of a device, with the trainer's program
	// on it as nn.Config.Share, and its batch size as MomentumBatch where running statistics
	// are to reach back as many examples as with the trainer's. Fit calls it between two steps
	// when a size is first used, keeps the last four, and closes them at its end. Where one
	// cannot be compiled (memory), the log says so, and steps take more and smaller runs. nil:
	// all runs are made by the trainer's programs.
	Program func(device, batch int) (*nn.Program, error)
	// Groups are patterns of parameters' names (path.Match), each of which is a group with a
	// learning-rate factor by its own noise. Parameters that match none are one more group; one
	// that matches several is in the first.
	Groups []string
	// WarmupEpochs are legw's, at the initial batch size.
	WarmupEpochs float64
	// Smoothing of the noise's averages; 0: 0.999.
	Smoothing float64
	// Model predicts the seconds of a step, where they are known before: rank 0's choices then
	// repeat, as far as the measured noise does. nil: it is fitted to what rank 0 measures.
	// Only rank 0's counts.
	Model adapt.Model
	// Decisions, if any, are taken in place of rank 0's choices, so that a job repeats bit for
	// bit: the log of a job has its decisions.
	Decisions []Decision

	// now is the clock of tests; nil: time.Now.
	now func() time.Time
	// model makes a model in place of a fit, in tests; nil: a fit does.
	model func([]adapt.Timing) (adapt.Model, error)
}

// A Decision is a batch that all workers take from a step on.
type Decision struct {
	// Step is the number of steps done in all before the first one with this batch. It rises
	// from one decision to the next.
	Step uint64
	// LocalBatch are the examples of a worker's run, and Accumulation its runs of a step before
	// the last one.
	LocalBatch, Accumulation int
}

const (
	maxLocalBatch = 1 << 20
	// maxAccumulation is as high as the norms of one step's micro-batches can be counted: in 16
	// bits.
	maxAccumulation = 1<<16 - 2
)

func (c *AdaptConfig) limits() adapt.Limits {
	return adapt.Limits{MaxBatch: c.MaxBatch, MinLocal: c.MinLocal, MaxLocal: c.MaxLocal, Accumulation: c.Accumulation}
}

// rule is Rule with its default.
func (c *AdaptConfig) rule(optimizer string) string {
	if c.Rule == "" {
		return adapt.DefaultRule(optimizer)
	}
	return c.Rule
}

// validate names the first field that cannot be, alone or with the trainer and feed.
func (c *AdaptConfig) validate(t *Trainer, feed Feed) error {
	if err := checkAdaptable(t); err != nil {
		return err
	}
	feeds, ok := feed.(BatchFeed)
	if !ok {
		return fmt.Errorf("worker: FitConfig.Adapt is set with feed %T, want a worker.BatchFeed: its steps cannot change their size", feed)
	}
	if err := c.validateNumbers(); err != nil {
		return err
	}
	if err := c.validateRule(t.cfg.Optimizer.Name, feeds.PerRun()); err != nil {
		return err
	}
	if c.InitialBatch > 0 {
		if err := c.validateBatches(c.InitialBatch); err != nil {
			return err
		}
	}
	if err := c.validateLists(); err != nil {
		return err
	}
	for d, program := range t.cfg.Programs {
		if err := program.CheckExamples(min(1, program.Batch())); err != nil {
			return fmt.Errorf("worker: FitConfig.Adapt needs a program that takes batches of fewer examples: device %d: %w", d, err)
		}
	}
	return nil
}

// checkAdaptable returns an error unless a trainer's global batch may follow the noise of its
// gradients: the noise must be that of each step, and the servers must scale the rate.
func checkAdaptable(t *Trainer) error {
	compression := t.cfg.Compression.Type
	switch {
	case t.async():
		return errors.New("worker: FitConfig.Adapt is set with store dist_async, want dist_sync: an asynchronous job has no step that all workers take together, so no global batch")
	case t.local != nil:
		return fmt.Errorf("worker: FitConfig.Adapt is set with a store of %d local steps, want none: a round exchanges values, not gradients, so the noise of gradients cannot be measured", t.local.length)
	case t.cfg.UpdateOnWorker:
		return errors.New("worker: FitConfig.Adapt is set with Config.UpdateOnWorker, want false: the servers scale the learning rate")
	case compression == "2bit" || compression == "1bit" || compression == "topk":
		return fmt.Errorf("worker: FitConfig.Adapt is set with Config.Compression %s, want none, fp16 or bf16: it sends parts of a gradient some steps later, so the noise of a step cannot be measured", compression)
	case t.cfg.Optimizer.Reduction == optim.Sum:
		return fmt.Errorf("worker: FitConfig.Adapt is set with Config.Optimizer.Reduction %q, want %q: the learning rate is scaled for the mean over a batch", optim.Sum, optim.Mean)
	}
	return nil
}

// validateNumbers checks the fields that are numbers, each by itself.
func (c *AdaptConfig) validateNumbers() error {
	switch {
	case c.InitialBatch < 0 || c.InitialBatch > maxPerStep:
		return fmt.Errorf("worker: AdaptConfig.InitialBatch is %d, want 1 to %d, or 0 for what the programs take", c.InitialBatch, maxPerStep)
	case c.MaxBatch > maxPerStep:
		return fmt.Errorf("worker: AdaptConfig.MaxBatch is %d, want at most %d", c.MaxBatch, maxPerStep)
	case c.MaxLocal > maxLocalBatch:
		return fmt.Errorf("worker: AdaptConfig.MaxLocal is %d, want at most %d", c.MaxLocal, maxLocalBatch)
	case !(c.Smoothing >= 0 && c.Smoothing < 1):
		return fmt.Errorf("worker: AdaptConfig.Smoothing is %v, want at least 0 and below 1", c.Smoothing)
	}
	return nil
}

// validateRule checks the rule of an optimizer, with an initial batch of perRun examples by default.
func (c *AdaptConfig) validateRule(optimizer string, perRun int) error {
	initial := c.InitialBatch
	if initial == 0 {
		initial = max(1, perRun)
	}
	rule := c.rule(optimizer)
	if err := adapt.ValidateRule(rule, adapt.Progress{Examples: 1, InitialBatch: initial, WarmupEpochs: c.WarmupEpochs}); err != nil {
		return fmt.Errorf("worker: AdaptConfig.Rule: %w", err)
	}
	if c.WarmupEpochs != 0 && rule != "legw" {
		return fmt.Errorf("worker: AdaptConfig.WarmupEpochs is %v with rule %s, want 0: only legw has a warm-up of its own", c.WarmupEpochs, rule)
	}
	return nil
}

// validateLists checks Groups and Decisions.
func (c *AdaptConfig) validateLists() error {
	for i, pattern := range c.Groups {
		if _, err := path.Match(pattern, ""); err != nil {
			return fmt.Errorf("worker: AdaptConfig.Groups[%d] is %q: %w", i, pattern, err)
		}
	}
	for i, d := range c.Decisions {
		if i > 0 && d.Step <= c.Decisions[i-1].Step || d.LocalBatch < 1 || d.LocalBatch > maxLocalBatch || d.Accumulation < 0 || d.Accumulation > maxAccumulation {
			return fmt.Errorf("worker: AdaptConfig.Decisions[%d] is %+v, want a step above that of the one before, a local batch of 1 to %d and an accumulation of 0 to %d", i, d, maxLocalBatch, maxAccumulation)
		}
	}
	return nil
}

// validateBatches checks the limits for this initial batch.
func (c *AdaptConfig) validateBatches(initial int) error {
	if err := c.limits().Validate(initial); err != nil {
		return fmt.Errorf("worker: FitConfig.Adapt: %w", err)
	}
	if most := c.MaxLocal; most > 0 && !c.Accumulation && c.MaxBatch > 0 && most > c.MaxBatch {
		return fmt.Errorf("worker: AdaptConfig.MaxLocal is %d, above MaxBatch of %d", most, c.MaxBatch)
	}
	return nil
}

// groupsOf returns the group of each parameter, and how many groups there are: those that have
// parameters.
func (c *AdaptConfig) groupsOf(keys []string) (groups []int, n int) {
	// numbers has the group of each pattern, in the order in which parameters match them.
	numbers := map[int]int{}
	groups = make([]int, len(keys))
	for i, key := range keys {
		pattern := slices.IndexFunc(c.Groups, func(p string) bool {
			ok, _ := path.Match(p, key)
			return ok
		})
		if _, ok := numbers[pattern]; !ok {
			numbers[pattern] = len(numbers)
		}
		groups[i] = numbers[pattern]
	}
	return groups, len(numbers)
}
