package worker

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/paragon-train/paragon/nn"
)

// A unit is devices whose gradients come as one sum: one device, or GPUs that are joined.
type unit struct {
	program *nn.Program // whose parameters and gradients are the unit's
	first   int         // device, of one or more
	step    func(ctx context.Context, wait, ready func(i int)) error
}

// makeUnits joins the programs if they are on different GPUs: they then sum gradients among
// themselves, and the store gets one.
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

// Use makes the next runs with other programs, one for each device: of another batch size, with the
// parameters, gradients and running statistics of Config.Programs (nn.Config.Share). The caller
// closes them, after Use of others. GPUs that are joined keep their programs.
func (t *Trainer) Use(programs []*nn.Program) error {
	switch {
	case len(programs) != len(t.cfg.Programs):
		return fmt.Errorf("worker: use: got programs for %d devices, want %d", len(programs), len(t.cfg.Programs))
	case slices.Equal(programs, t.programs):
		return nil
	case t.group != nil:
		return errors.New("worker: use: the devices are GPUs that are joined, want their own programs")
	}
	for d, program := range programs {
		if err := t.fits(d, program, 0); err != nil {
			return fmt.Errorf("worker: use: device %d: %w", d, err)
		}
		if s, ok := t.programs[d].LossScale(); ok {
			if err := program.SetLossScale(s); err != nil {
				return fmt.Errorf("worker: use: device %d: %w", d, err)
			}
		}
	}
	t.programs = slices.Clone(programs)
	return nil
}

// fits is an error if a program does not share what a device's own has, or has another batch than
// wanted; 0: any.
func (t *Trainer) fits(device int, program *nn.Program, batch int) error {
	if got := program.Batch(); batch > 0 && got != batch && got != 0 {
		return fmt.Errorf("the program has batch %d, want %d", got, batch)
	}
	own := t.cfg.Programs[device]
	for _, list := range []struct {
		what      string
		got, want []nn.Param
	}{{"parameter", program.Params(), own.Params()}, {"running statistic", program.State(), own.State()}, {"frozen array", program.Frozen(), own.Frozen()}} {
		if len(list.got) != len(list.want) {
			return fmt.Errorf("the program has %d %ss, the trainer's has %d, want the same model", len(list.got), list.what, len(list.want))
		}
		for i, p := range list.got {
			w := list.want[i]
			if p.Name != w.Name || !sameMemory(p.Value, w.Value) || !sameMemory(p.Gradient, w.Gradient) {
				return fmt.Errorf("%s %d is %s, of the trainer's program %s, want the same one in the same memory (nn.Config.Share)", list.what, i, p.Name, w.Name)
			}
		}
	}
	return nil
}

func sameMemory(a, b []float32) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}
