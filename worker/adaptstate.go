package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/paragon-train/paragon/adapt"
)

// adaptState is what a checkpoint and a worker that joins get of an adaptation.
type adaptState struct {
	Rule         string `json:"rule"`
	InitialBatch int    `json:"initial_batch"`
	// Examples are those of a pass.
	Examples int `json:"examples"`
	// Progress is in scale-invariant steps.
	Progress float64 `json:"progress"`
	// Epochs is how many are finished, and Step the next step of the current one.
	Epochs int   `json:"epochs"`
	Step   int   `json:"step"`
	Batch  batch `json:"batch"`
	// Segments are those of the division.
	Segments []Segment            `json:"segments,omitempty"`
	Groups   []adapt.State        `json:"groups"`
	Profile  []adapt.ProfileEntry `json:"profile,omitempty"`
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

// check is an error if no adaptation can have this state.
func (s *adaptState) check() error {
	progress := adapt.Progress{Steps: s.Progress, Examples: s.Examples, InitialBatch: s.InitialBatch}
	if err := progress.Validate(); err != nil {
		return err
	}
	switch {
	case s.InitialBatch > maxPerStep:
		return fmt.Errorf("the initial batch is %d, want at most %d", s.InitialBatch, maxPerStep)
	case s.Epochs < 0 || s.Step < 0:
		return fmt.Errorf("%d epochs and %d steps were done, want at least 0", s.Epochs, s.Step)
	}
	if err := s.Batch.check(); err != nil {
		return err
	}
	for _, g := range s.Segments {
		if g.First < 0 || g.PerStep < 1 {
			return fmt.Errorf("a segment is %+v, want a step of at least 0 and at least one example", g)
		}
	}
	var p adapt.Profile
	return p.Restore(s.Profile)
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
