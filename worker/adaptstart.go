package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/paragon-train/paragon/adapt"
)

// newAdaptation begins where state says, on a trainer that has done as many steps; nil: a new run
// of so many workers.
func newAdaptation(cfg *AdaptConfig, t *Trainer, feed BatchFeed, workers int, state *adaptState) (*adaptation, error) {
	a := &adaptation{
		cfg: *cfg, feed: feed, devices: t.devices, store: t.cfg.Store, logger: t.cfg.Logger, bytes: t.exchange.total,
		scaling: newScaling(cfg, t.cfg.Optimizer, t.keys, t.cfg.Store, t.Steps()), programs: newProgramSets(cfg.Program, t.devices, feed, t.cfg.Logger),
	}
	a.decider = newDecider(&a.cfg)
	a.scaling.progress = adapt.Progress{Examples: feed.Length(), InitialBatch: cfg.InitialBatch, WarmupEpochs: cfg.WarmupEpochs}
	if state != nil {
		if err := a.restore(state); err != nil {
			return nil, err
		}
	} else {
		if a.scaling.progress.InitialBatch == 0 {
			segments := feed.Segments()
			a.scaling.progress.InitialBatch = segments[len(segments)-1].PerStep * workers
		}
		a.batch = a.limits().first(workers)
	}
	initial, most := a.initial(), a.limits().runs
	if err := cfg.validateBatches(initial); err != nil {
		return nil, err
	}
	if most < cfg.MinLocal {
		return nil, fmt.Errorf("worker: AdaptConfig.MinLocal is %d, and this worker's programs take %d; want at most that, or AdaptConfig.Program", cfg.MinLocal, most)
	}
	a.scaling.still.batchGrows = cfg.Accumulation && cfg.MaxBatch > initial
	a.epochs.from = a.scaling.progress.Steps
	return a, nil
}

// state is what there is to know after the last step; done: the epoch has ended.
func (a *adaptation) state(done bool) *adaptState {
	p := &a.scaling.progress
	s := &adaptState{
		Rule: a.scaling.rule, InitialBatch: p.InitialBatch, Examples: p.Examples, Progress: p.Steps,
		Epochs: a.epochs.finished, Step: a.epochs.step, Batch: a.batch, Segments: a.feed.Segments(), Groups: a.scaling.estimators.State(), Profile: a.decider.profile.Entries(),
	}
	if done {
		s.Epochs, s.Step = s.Epochs+1, 0
	}
	return s
}

// restore takes over a state of another process.
func (a *adaptation) restore(s *adaptState) error {
	if err := s.check(); err != nil {
		return fmt.Errorf("worker: state of adaptive training: %w", err)
	}
	switch {
	case s.Rule != a.scaling.rule:
		return fmt.Errorf("worker: AdaptConfig.Rule is %s, and the run so far had %s, want the same", a.scaling.rule, s.Rule)
	case a.cfg.InitialBatch > 0 && s.InitialBatch != a.cfg.InitialBatch:
		return fmt.Errorf("worker: AdaptConfig.InitialBatch is %d, and the run so far had %d, want the same, or 0", a.cfg.InitialBatch, s.InitialBatch)
	case s.Examples != a.scaling.progress.Examples:
		return fmt.Errorf("worker: the data set has %d examples, and the run so far had %d, want the same data set", a.scaling.progress.Examples, s.Examples)
	}
	if err := a.scaling.estimators.Restore(s.Groups); err != nil {
		return fmt.Errorf("worker: AdaptConfig.Groups: %w", err)
	}
	if err := a.decider.profile.Restore(s.Profile); err != nil {
		return fmt.Errorf("worker: state of adaptive training: %w", err)
	}
	a.scaling.progress.InitialBatch, a.scaling.progress.Steps = s.InitialBatch, s.Progress
	a.epochs.finished, a.epochs.step, a.batch = s.Epochs, s.Step, s.Batch
	return nil
}

// tellAdaptation gives the state of the worker of the lowest rank to all: what a worker that has
// just joined begins with. own is this worker's; nil: it has joined. Where the lowest rank has
// joined, all that were there before have been lost since, and nobody has a state.
func tellAdaptation(ctx context.Context, store broadcaster, own *adaptState) (*adaptState, error) {
	text, err := store.Broadcast(ctx, func() (string, error) {
		if own == nil {
			return "", nil
		}
		text, err := json.Marshal(own)
		return string(text), err
	})
	if err != nil {
		return nil, fmt.Errorf("worker: state of adaptive training: %w", err)
	}
	if text == "" {
		return nil, errors.New("worker: state of adaptive training: all workers that had it were lost; resume from a checkpoint")
	}
	var s adaptState
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		return nil, fmt.Errorf("worker: state of adaptive training: %w", err)
	}
	if err := s.check(); err != nil {
		return nil, fmt.Errorf("worker: state of adaptive training: %w", err)
	}
	return &s, nil
}
