package nn

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/paragon-train/paragon/internal/compute/cuda"
	"github.com/paragon-train/paragon/internal/compute/plan"
)

// A Group is the programs of one model on several GPUs of this process. They take steps together,
// as one program with the sum of their batches would, except that each program has its own batch
// normalisation statistics.
type Group struct {
	programs []*Program
	group    *cuda.Group
}

// Joinable reports whether Join can join programs: two or more for training, each on another GPU.
func Joinable(programs []*Program) bool {
	seen := make(map[device]bool)
	for _, p := range programs {
		if !p.device.gpu || seen[p.device] || p.executor == nil || p.plan.Grads == nil {
			return false
		}
		seen[p.device] = true
	}
	return len(programs) > 1
}

// Join joins programs of one model on different GPUs. From then on they share one set of parameters
// and gradients in the host's memory, the first program's: Params of the others returns these, and
// the graphs of the others no longer show what is learned. Inputs, losses, outputs, statistics and
// SetGradScale stay each program's own. Close the group before the programs.
//
// The GPUs exchange gradients by NCCL, if it is installed, else by copies; String says which.
func Join(programs ...*Program) (*Group, error) {
	if !Joinable(programs) {
		return nil, errors.New("nn: join: want two or more programs for training, each on a GPU of its own")
	}
	var executors []*cuda.Executor
	for _, p := range programs {
		executors = append(executors, p.executor.(*cuda.Executor))
	}
	g, err := cuda.NewGroup(executors, cuda.AutoLink)
	if err != nil {
		return nil, fmt.Errorf("nn: %w", err)
	}
	for _, p := range programs[1:] {
		p.shared.first = programs[0]
		for _, q := range p.shared.programs {
			q.adopt(programs[0])
		}
	}
	return &Group{slices.Clone(programs), g}, nil
}

// adopt makes another program's parameters, and gradients if p has any, those of p.
func (p *Program) adopt(first *Program) {
	for i, q := range p.params {
		for _, of := range first.params {
			if of.Name != q.Name {
				continue
			}
			if p.params[i].Value = of.Value; q.Gradient != nil {
				p.params[i].Gradient = of.Gradient
			}
		}
	}
}

// StepOverlapped is Program.StepOverlapped for all programs of the group at once: wait and ready
// are called once for each parameter, ready when the sum of the programs' gradients is final. After
// an error of a GPU the group cannot be used any more.
func (g *Group) StepOverlapped(ctx context.Context, wait, ready func(i int)) error {
	if slices.ContainsFunc(g.programs, func(p *Program) bool { return p.executor == nil }) {
		return errors.New("nn: the group or one of its programs is closed")
	}
	for _, p := range g.programs {
		if err := p.begin(); err != nil {
			return err
		}
		defer p.end()
	}
	return g.group.Run(ctx, plan.Hooks{Wait: wait, Ready: ready})
}

// String says how many GPUs there are and how they exchange gradients, such as "2 GPUs by NCCL
// 2.28.9".
func (g *Group) String() string { return g.group.String() }

// Close frees what the group holds beside its programs.
func (g *Group) Close() error { return g.group.Close() }
