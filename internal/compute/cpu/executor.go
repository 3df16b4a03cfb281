package cpu

import (
	"fmt"

	"github.com/paragon-train/paragon/internal/compute/f32"
	"github.com/paragon-train/paragon/internal/compute/plan"
	"github.com/paragon-train/paragon/internal/compute/pool"
)

// Config is how an Executor runs.
type Config struct {
	// Pool has the threads. The executor does not close it.
	Pool *pool.Pool

	// Room is how many bytes a plan may need; 0: it is not known.
	Room int64

	// Stream is that of dropout: replicas with another one drop other elements.
	Stream uint64

	// Share is an executor whose arena, step counter and gradient scale this one uses, too. One
	// of those that share runs at a time.
	Share *Executor

	// BFloat16 rounds what convolutions and Linear multiply to bfloat16. Sums, and all other
	// ops, are float32. Plans that store values as bfloat16 need it.
	BFloat16 bool
}

// An Executor runs one plan.
type Executor struct {
	plan *plan.Plan
	host *plan.Host
	pool *pool.Pool

	mem      *memory
	examples *examples
	running  *runningStates

	// kernels has one for each op of the plan.
	kernels []kernel

	// steps is what the kernels' bind gave for the memory that there is.
	steps []func() error
}

// New prepares p to run over the memory of host. It places the temporaries of p.
func New(p *plan.Plan, host *plan.Host, cfg Config) (*Executor, error) {
	if _, err := f32.FromEnv(); err != nil {
		return nil, fmt.Errorf("cpu: %w", err)
	}
	if err := checkStorage(p, cfg); err != nil {
		return nil, err
	}
	s := &shared{counts: counts{gradScale: 1}}
	if cfg.Share != nil {
		s = cfg.Share.mem.shared
	}
	e := &Executor{
		plan:     p,
		host:     host,
		pool:     cfg.Pool,
		mem:      newMemory(s, p.Inputs, host),
		examples: &examples{plan: p, n: p.Batch},
		running:  &runningStates{},
	}
	doubles, err := e.prepare(cfg)
	if err != nil {
		return nil, err
	}
	p.Place()
	if cfg.Share != nil {
		p.LeaveOut(host, cfg.Share.host)
	}
	if err := s.checkRoom(p, cfg.Room); err != nil {
		return nil, err
	}
	s.join(e, p.Memory.Arena, doubles)
	return e, nil
}

// prepare makes the kernels, and returns how many doubles the one that needs most of them needs.
func (e *Executor) prepare(cfg Config) (doubles int, err error) {
	all := families(e.mem, threads{cfg.Pool}, e.examples, e.running, cfg)
	e.kernels = make([]kernel, len(e.plan.Ops))
	for i, o := range e.plan.Ops {
		k, err := all.kernel(o)
		if err != nil {
			return 0, fmt.Errorf("cpu: node %q: %v: %w", o.Node, o.Kind, err)
		}
		o.Scratch = k.scratch
		doubles = max(doubles, k.doubles)
		e.kernels[i] = k
	}
	return doubles, nil
}

// bind makes the steps for the memory that there is.
func (e *Executor) bind() {
	e.steps = make([]func() error, len(e.kernels))
	for i, k := range e.kernels {
		e.steps[i] = k.bind()
	}
}

func (e *Executor) ownMemory() int64 { return e.plan.Memory.Total() - e.plan.Memory.Arena }

// SetGradScale multiplies the gradients of later runs by s, also those of executors that share.
func (e *Executor) SetGradScale(s float32) { e.mem.shared.counts.gradScale = s }

// SetExamples says that later runs have n examples, at most the plan's Batch.
func (e *Executor) SetExamples(n int) { e.examples.set(n) }

// SetStep says how many runs with gradients came before, those of executors that share included,
// which decides what dropout drops.
func (e *Executor) SetStep(step uint64) { e.mem.shared.counts.step = step }

// Number is the value of a scalar, such as the loss.
func (e *Executor) Number(v *plan.Value) (float64, error) { return e.mem.number(v) }

// Output is the memory of one of the plan's outputs: row-major, valid until the next run.
func (e *Executor) Output(v *plan.Value) ([]float32, error) {
	if v.Boxed {
		return nil, fmt.Errorf("cpu: output %q is %v, want float32", v.Name, v.Dtype)
	}
	return e.mem.floats(v), nil
}

// Close takes the executor out of those that share; the memory stays as it is until the last of
// them has gone.
func (e *Executor) Close() error {
	e.mem.shared.leave(e)
	return nil
}
