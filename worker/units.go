package worker

import (
	"context"
	"fmt"

	"github.com/paragon-train/paragon/nn"
)

// A unit is devices whose gradients come as one sum: one device, or GPUs that are joined.
type unit struct {
	program *nn.Program // whose parameters and gradients are the unit's
	first   int         // device, of one or more
	step    func(ctx context.Context, wait, ready func(i int)) error
}

// makeUnits joins the programs if they are on different GPUs: they then sum gradients among themselves, and the store gets one.
func (t *Trainer) makeUnits() error {
	programs := t.cfg.Programs
	if nn.Joinable(programs) {
		group, err := nn.Join(programs...)
		if err != nil {
			return fmt.Errorf("worker: %w", err)
		}
		t.group = group
		t.units = []unit{{programs[0], 0, group.StepOverlapped}}
		t.cfg.Logger.Info("GPUs joined", "how", group.String())
		return nil
	}
	for d, program := range programs {
		t.units = append(t.units, unit{program, d, func(ctx context.Context, wait, ready func(i int)) error {
			return t.programs[d].StepOverlapped(ctx, wait, ready)
		}})
	}
	return nil
}

// holders are the programs whose parameters and gradients are the units'.
func (t *Trainer) holders() []*nn.Program {
	programs := make([]*nn.Program, len(t.units))
	for u := range t.units {
		programs[u] = t.units[u].program
	}
	return programs
}
