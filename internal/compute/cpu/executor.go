package cpu

import (
	"context"
	"fmt"
	"runtime"

	"github.com/paragon-train/paragon/internal/compute/cpu/conv"
	"github.com/paragon-train/paragon/internal/compute/f32"
	"github.com/paragon-train/paragon/internal/compute/plan"
	"github.com/paragon-train/paragon/internal/compute/pool"
	"gorgonia.org/gorgonia"
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
	*common
	plan *plan.Plan
	host *plan.Host
	pool *pool.Pool

	// kernels has one for each op of the plan.
	kernels []kernel

	// steps is what the kernels' bind gave for the memory that there is.
	steps []func() error

	// kept is the memory of outputs, constants and the seed.
	kept map[*plan.Value][]float32

	// boxes has values that are no float32 numbers in memory of ours.
	boxes map[*plan.Value]*gorgonia.Value

	convs   map[conv.Shape]*conv.Plan
	newConv func(conv.Shape, *pool.Pool) (*conv.Plan, error)

	// tile is that of Linear.
	tile *f32.Tile

	gemm *f32.Gemm

	// ones are as many as a piece has values.
	ones []float32

	halfOnes []uint16 // the same as bfloat16

	stream uint64

	// examples is how many later runs have. It says nothing of a plan without Batch.
	examples int

	// empty says that later runs have no examples, also where Batch is not known: gradients are
	// zero.
	empty bool

	// running has the running statistics of the batch normalisations that train.
	running []*running
}

// A kernel is an op that is ready but for its memory: bind is called when all memory has its place,
// and gives the function that a run calls.
type kernel struct {
	// scratch is the bytes of memory for this op alone (see Executor.scratch).
	scratch int64

	// doubles is the float64 numbers for this op alone (see Executor.doubles).
	doubles int

	bind func() func() error
}

// New prepares p to run over the memory of host. It places the temporaries of p.
func New(p *plan.Plan, host *plan.Host, cfg Config) (*Executor, error) {
	if _, err := f32.FromEnv(); err != nil {
		return nil, fmt.Errorf("cpu: %w", err)
	}
	if err := checkStorage(p, cfg); err != nil {
		return nil, err
	}
	e := &Executor{
		common:   &common{gradScale: 1},
		plan:     p,
		host:     host,
		pool:     cfg.Pool,
		kept:     make(map[*plan.Value][]float32),
		boxes:    make(map[*plan.Value]*gorgonia.Value),
		convs:    make(map[conv.Shape]*conv.Plan),
		newConv:  conv.New,
		tile:     f32.Tiles(f32.Active()),
		gemm:     f32.NewGemm(cfg.Pool),
		stream:   cfg.Stream,
		examples: p.Batch,
	}
	if cfg.Share != nil {
		e.common = cfg.Share.common
	}
	if cfg.BFloat16 {
		e.newConv, e.tile = conv.NewBFloat16, f32.BFloat16Tiles()
	}
	e.kernels = make([]kernel, len(p.Ops))
	doubles := 0
	for i, o := range p.Ops {
		k, err := e.kernel(o)
		if err != nil {
			return nil, fmt.Errorf("cpu: node %q: %v: %w", o.Node, o.Kind, err)
		}
		o.Scratch = k.scratch
		doubles = max(doubles, k.doubles)
		e.kernels[i] = k
	}
	p.Place()
	if cfg.Share != nil {
		p.LeaveOut(host, cfg.Share.host)
	}
	if err := e.checkRoom(p, cfg.Room); err != nil {
		return nil, err
	}
	e.join(e, doubles)
	return e, nil
}

// bind makes the steps for the memory that there is.
func (e *Executor) bind() {
	e.steps = make([]func() error, len(e.kernels))
	for i, k := range e.kernels {
		e.steps[i] = k.bind()
	}
}

// SetGradScale multiplies the gradients of later runs by s, also those of executors that share.
func (e *Executor) SetGradScale(s float32) { e.gradScale = s }

// SetExamples says that later runs have n examples, at most the plan's Batch.
func (e *Executor) SetExamples(n int) { e.examples, e.empty = n, n == 0 }

// rows is how many of some rows belong to examples of this run.
func (e *Executor) rows(rows int) int {
	if e.empty {
		return 0
	}
	return e.plan.Rows(rows, e.examples)
}

// SetStep says how many runs with gradients came before, those of executors that share included,
// which decides what dropout drops.
func (e *Executor) SetStep(step uint64) { e.step = step }

// Run goes through the plan once, or with forward only through the ops that the loss and the
// outputs need. It looks at ctx between ops. After an error the gradients and outputs are in no
// defined state, and the running statistics are as before the run.
//
// A run without examples computes nothing: gradients, loss and outputs are zero.
func (e *Executor) Run(ctx context.Context, forward bool, hooks plan.Hooks) error {
	if e.plan.Seed != nil {
		e.floats(e.plan.Seed)[0] = e.gradScale
	}
	for _, r := range e.running {
		r.moved = false
	}
	if e.empty {
		e.clearOutputs()
	}
	backward := forward || hooks.Backward == nil // begun, or of no interest
	for i, step := range e.steps {
		if forward && !e.plan.Forward[i] {
			continue
		}
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("cpu: run: stopped before op %d of %d: %w", i, len(e.steps), err)
		}
		if !backward && !e.plan.Forward[i] {
			backward = true
			hooks.Backward()
		}
		if hooks.Wait != nil {
			for _, k := range e.plan.FirstUse[i] {
				hooks.Wait(k)
			}
		}

		// It lets through what moves gradients: on one core a goroutine that computes gives
		// way every 10 ms only.
		runtime.Gosched()
		if !e.empty {
			if err := step(); err != nil {
				o := e.plan.Ops[i]
				return fmt.Errorf("cpu: run node %q: %v: %w", o.Node, o.Kind, err)
			}
		}
		if forward {
			continue
		}
		for _, k := range e.plan.Ready[i] {
			switch g := e.host.Grads[k]; {
			case e.empty:
				clear(g)
			case e.plan.ScaleGrads && e.gradScale != 1:
				f32.Scale(g, e.gradScale, g)
			}
			if hooks.Ready != nil {
				hooks.Ready(k)
			}
		}
	}
	for _, r := range e.running {
		r.commit()
	}
	if !forward {
		e.step++
	}
	return nil
}

// clearOutputs makes loss and outputs those of a run without examples.
func (e *Executor) clearOutputs() {
	for _, v := range append([]*plan.Value{e.plan.Loss}, e.plan.Outputs...) {
		if r := v.Root(); r.Source == plan.Output && !r.Boxed {
			clear(e.floats(r))
		}
	}
}

// split returns a function that calls f over [0,n) in pieces of about grain, on all threads. The
// pieces depend on n and grain only.
func (e *Executor) split(n, grain int, f func(lo, hi int)) func() {
	k := pieces(n, grain)
	piece := func(i int) { f(i*n/k, (i+1)*n/k) }
	return func() { e.pool.Run(k, piece) }
}

// splitThreads is split whose f is told its thread, from 0 to Threads()-1 of the pool.
func (e *Executor) splitThreads(n, grain int, f func(thread, lo, hi int)) func() {
	k := pieces(n, grain)
	piece := func(thread, i int) { f(thread, i*n/k, (i+1)*n/k) }
	return func() { e.pool.RunThreads(k, piece) }
}

// pieces is the number of pieces that n is cut into: each about grain, but where they would be few,
// and more than one, each a quarter of it, for more threads.
func pieces(n, grain int) int {
	k := max(1, (n+grain-1)/grain)
	if k > 1 {
		k = max(k, min(64, 4*k, n))
	}
	return k
}

// grain is the number of values in a piece of an elementwise pass: large against the cost of
// handing it out, small enough for the second-level cache.
const grain = 16384

// rowGrain is grain in rows of c values.
func rowGrain(c int) int { return max(1, grain/c) }

// then makes a step of functions that cannot fail.
func then(fs ...func()) func() error {
	if len(fs) == 1 {
		f := fs[0]
		return func() error { f(); return nil }
	}
	return func() error {
		for _, f := range fs {
			f()
		}
		return nil
	}
}
