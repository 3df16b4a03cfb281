package worker

import (
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
