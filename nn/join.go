package nn

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/paragon-train/paragon/internal/compute/cuda"
	"github.com/paragon-train/paragon/internal/compute/plan"
)

// A Group is programs of one model on several GPUs of this process that take steps together, as one program with all of their batches
// would but for batch normalisation: its statistics are each program's own.
type Group struct {
	programs []*Program
	group    *cuda.Group
}

// Joinable tells whether Join can join programs: two or more for training, each on a GPU of its own.
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

// Join joins programs of one model on different GPUs. From then on they have one set of parameters and gradients in the host's
// memory, the first program's: Params of the others shows these, and the graphs that the others were made of do not show any more what
// is learned. Inputs, losses, outputs, statistics and SetGradScale stay each program's own. Close the group before the programs.
//
// Between the GPUs numbers go by NCCL, if it is there, else by copies; String tells which.
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
		p.adopt(programs[0])
	}
	return &Group{slices.Clone(programs), g}, nil
}

// adopt shows another program's parameters, and its gradients if p has any, as p's.
func (p *Program) adopt(first *Program) {
	p.first = first
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

// StepOverlapped is Program.StepOverlapped for all of the group's programs at once: each parameter is waited for once and ready once, when
// the sum of the programs' gradients is final. After an error of a GPU the group is of no more use.
func (g *Group) StepOverlapped(ctx context.Context, wait, ready func(i int)) error {
	if slices.ContainsFunc(g.programs, func(p *Program) bool { return p.executor == nil }) {
		return errors.New("nn: the group or one of its programs is closed")
	}
	for _, p := range g.programs {
		if err := p.checkUnset(); err != nil {
			return err
		}
		p.fillWeights()
	}
	return g.group.Run(ctx, plan.Hooks{Wait: wait, Ready: ready})
}

// String says how many GPUs there are and how numbers go between them, such as "2 GPUs by NCCL 2.28.9".
func (g *Group) String() string { return g.group.String() }

// Close gives back what the group takes beside the programs.
func (g *Group) Close() error { return g.group.Close() }
