package nn

import (
	"fmt"
	"math"
	"slices"
	"sync/atomic"
	"unsafe"

	"github.com/paragon-train/paragon/internal/compute/cuda"
	"github.com/paragon-train/paragon/internal/compute/op"
	"github.com/paragon-train/paragon/internal/compute/plan"
	"github.com/paragon-train/paragon/internal/compute/pool"
	"gorgonia.org/gorgonia"
)

// A shared is what programs have in common that share with each other (Config.Share); a program
// that shares with none has one of its own.
type shared struct {
	// running says that one of the programs is.
	running atomic.Bool
	// lone says that it was logged that a batch has one value of a channel.
	lone bool
	// programs are those that are not closed.
	programs []*Program
	// gpu is nil on a CPU.
	gpu *cuda.GPU
	// trained is what the programs for training have alike; nil: there was none so far.
	trained *trained
	// first is, in a Group, the program whose parameters these programs have; nil: they have
	// their own.
	first *Program
}

// leave takes out a program. The last one gives back the GPU.
func (s *shared) leave(p *Program) error {
	i := slices.Index(s.programs, p)
	if i < 0 {
		return nil
	}
	if s.programs = slices.Delete(s.programs, i, i+1); len(s.programs) > 0 || s.gpu == nil {
		return nil
	}
	return s.gpu.Close()
}

// threads is a pool that ends with the last program that uses it.
type threads struct {
	*pool.Pool
	users int
}

func (t *threads) leave() {
	if t.users--; t.users == 0 {
		t.Close()
	}
}

// trained is what all programs for training that share have alike, with their gradients.
type trained struct {
	// params are read for their names and shapes.
	params []*plan.Value
	// grads lie in block.
	grads  [][]float32
	block  []float32
	seed   uint64
	dtype  DType
	freeze []string
}

// config is cfg, of a further program for training, with what it leaves to the programs that it
// shares with.
func (t *trained) config(cfg Config) (Config, error) {
	if cfg.DType == AutoDType {
		cfg.DType = t.dtype
	}
	if cfg.Seed == 0 {
		cfg.Seed = t.seed
	}
	if cfg.Freeze == nil {
		cfg.Freeze = t.freeze
	}
	switch {
	case cfg.DType != t.dtype:
		return cfg, fmt.Errorf("Config.DType is %v, of the program to share with %v; training programs that share parameters must compute in one type", cfg.DType, t.dtype)
	case !slices.Equal(cfg.Freeze, t.freeze):
		return cfg, fmt.Errorf("Config.Freeze is %q, of the program to share with %q; training programs that share parameters must freeze the same", cfg.Freeze, t.freeze)
	case cfg.Seed != t.seed:
		return cfg, fmt.Errorf("Config.Seed is %d, of the program to share with %d; training programs that share parameters must have one seed", cfg.Seed, t.seed)
	}
	return cfg, nil
}

const sameParams = "a program for training has the parameters of the one that it shares with, in the same order"

// check is an error that names the first difference between a further program's parameters and
// these.
func (t *trained) check(params []*plan.Value) error {
	for i, v := range params {
		if i == len(t.params) {
			return fmt.Errorf("parameter %d is %q, and the program to share with has only %d; %s", i, v.Name, i, sameParams)
		}
		want := t.params[i]
		if v.Name != want.Name {
			return fmt.Errorf("parameter %d is %q, of the program to share with %q; %s", i, v.Name, want.Name, sameParams)
		}
		if !v.Shape.Eq(want.Shape) {
			return fmt.Errorf("parameter %q has shape %v, in the program to share with %v", v.Name, v.Shape, want.Shape)
		}
	}
	if n := len(params); n < len(t.params) {
		return fmt.Errorf("it has only %d parameters, and parameter %d of the program to share with is %q; %s", n, n, t.params[n].Name, sameParams)
	}
	return nil
}

// join makes the program one of those that it shares with, or of a new shared.
func (p *Program) join(with *Program) {
	if p.shared = new(shared); with != nil {
		p.shared = with.shared
	}
	p.shared.programs = append(p.shared.programs, p)
}

// weighBatches makes normalisations weigh a batch as so many.
func weighBatches(p *plan.Plan, batches float64) {
	for _, o := range p.Ops {
		if bn, ok := o.Attr.(*op.BatchNorm2D); ok && batches != 1 {
			// The graph's own stays as it is.
			own := *bn
			own.Momentum = 1 - math.Pow(1-bn.Momentum, batches)
			o.Attr = &own
		}
	}
}

// showShared lets the leaves and the state of the program's graph show what the program shares, and
// so frees the graph's own values, unless another program uses them.
func (p *Program) showShared() error {
	if op.RegistryOf(p.graph).InUse() {
		return nil
	}
	for i, v := range p.plan.Params {
		if err := letValue(v, p.host.Params[i]); err != nil {
			return err
		}
	}
	for _, o := range p.plan.Ops {
		if bn, ok := o.Attr.(*op.BatchNorm2D); ok {
			have := p.host.States[bn.State.Name]
			bn.State.Mean, bn.State.Var = over(have.Mean, []int{len(have.Mean)}), over(have.Var, []int{len(have.Var)})
		}
	}
	return nil
}

// letValue gives the leaf of a parameter a value in memory m.
func letValue(v *plan.Value, m []float32) error {
	var x gorgonia.Value = (*gorgonia.F32)(unsafe.Pointer(unsafe.SliceData(m)))
	if len(v.Shape) > 0 {
		x = over(m, v.Shape)
	}
	if err := op.Let(v.Node, x); err != nil {
		return fmt.Errorf("parameter %q: move its value: %w", v.Name, err)
	}
	return nil
}
