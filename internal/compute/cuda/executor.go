package cuda

import (
	"errors"
	"fmt"
	"time"

	"github.com/paragon-train/paragon/internal/compute/cuda/drv"
	"github.com/paragon-train/paragon/internal/compute/plan"
)

// Config is how an Executor runs.
type Config struct {
	// GPU is the device. The executor does not close it.
	GPU *GPU

	// Stream is that of dropout: replicas with another one drop other elements.
	Stream uint64

	// Type is that of products, and of images and matrices between operations.
	Type Compute

	// Share is an executor on the same GPU whose parameters, gradients and running statistics
	// on the device this one uses where the host's memory is the same, and its memory between
	// operations, step counter, gradient scale and, of the same Type, loss scale. One of those
	// that share runs at a time.
	Share *Executor

	// Update, if not nil, keeps training on the device: at the end of each step it changes
	// parameters by their gradients, neither of which travels. The host's values count for the
	// first run and after Hold(false); Fetch brings values back, also for executors that share,
	// and the host's gradients are never written.
	Update Update

	// Bucket is how many bytes of gradients leave the device together at least; 0 is 4 MiB.
	// Backward is cut into so many segments.
	Bucket int64

	// Eager launches every kernel by itself in every step, in place of captured graphs.
	Eager bool

	// Timeout is how long a bucket of gradients may take before the device is said to hang; 0
	// is two minutes.
	Timeout time.Duration
}

// An Executor runs one plan on one GPU.
type Executor struct {
	plan *plan.Plan
	host *plan.Host
	gpu  *GPU
	cfg  Config

	// store is what executors that share have together.
	store *store

	// inputs, results, numbers and owned are memory of the device that lives as long as the
	// executor; places finds values in them and in the store.
	inputs  *inputs
	results *results
	numbers *numbers
	owned   *owned
	places  *places

	families *families

	// ops are by op of the plan.
	ops []lowered

	segmenter *segmenter
	schedules schedules

	examples *examples
	fresh    freshness

	// scaler is that of programs that train, and the store's.
	scaler *scaler

	rest  rest
	watch *watch

	// failed is the error with which the device was lost.
	failed error

	closed bool
}

// New prepares p to run over the memory of host. It places the temporaries of p, takes all memory
// that runs need, and chooses the libraries' ways to compute, which it measures unless that was
// done before.
func New(p *plan.Plan, host *plan.Host, cfg Config) (*Executor, error) {
	if cfg.Bucket == 0 {
		cfg.Bucket = 4 << 20
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = 2 * time.Minute
	}
	g := cfg.GPU
	e := &Executor{
		plan: p, host: host, gpu: g, cfg: cfg,
		inputs: newInputs(g, p, host), results: &results{gpu: g, values: make(map[*plan.Value]*valueMemory)},
		numbers: &numbers{}, owned: &owned{gpu: g}, examples: &examples{plan: p, n: p.Batch},
		fresh: freshness{held: cfg.Update != nil}, scaler: newScaler(cfg.Type), rest: rest{gpu: g}, watch: g.newWatch(),
	}
	e.cfg.Share = nil
	var free int64
	if err := e.gpu.context.Do(func() (err error) {
		if free, _, err = e.gpu.context.MemInfo(); err != nil {
			return fmt.Errorf("cuda: free memory of %s: %w", e.gpu.Name(), err)
		}
		return e.build(cfg.Share)
	}); err != nil {
		e.gpu.noteLoss(err)
		if errors.Is(err, drv.ErrOutOfMemory) {
			err = e.tooLarge(err, free)
		}
		return nil, errors.Join(err, e.Close())
	}
	e.gpu.vendor.settled()
	return e, nil
}

// build runs on the device's thread.
func (e *Executor) build(share *Executor) error {
	p, g := e.plan, e.gpu
	if err := check(p); err != nil {
		return err
	}
	chooseTypes(p, e.cfg.Type)
	var before usage
	if share != nil {
		e.store = share.store
		before = e.store.usage()
	} else {
		var err error
		if e.store, err = newStore(g, e.host); err != nil {
			return err
		}
	}
	if err := e.buildIn(e.store, before); err != nil {
		return errors.Join(err, e.store.reset(before))
	}
	if e.host.Grads != nil {
		e.store.scaler = e.scaler
	}
	return nil
}

// buildIn builds what the store does not have. before is what it had taken.
func (e *Executor) buildIn(s *store, before usage) error {
	if err := s.join(e); err != nil {
		return err
	}
	if err := e.alloc(s); err != nil {
		return err
	}
	workspace, err := e.lower()
	if err != nil {
		return err
	}
	e.plan.Place()
	return s.grow(e.plan.Memory.Arena, workspace, e, func() error {
		e.bind()
		e.countMemory(before)
		if err := e.results.fillConstants(e.plan); err != nil {
			return err
		}
		if err := e.makeSchedules(); err != nil {
			return err
		}
		return e.rest.alloc()
	})
}

// alloc takes memory for all values but temporaries.
func (e *Executor) alloc(s *store) error {
	for _, m := range e.host.Params {
		if _, err := s.params.span(m); err != nil {
			return err
		}
	}
	if err := s.mirrorGrads(e.host); err != nil {
		return err
	}
	if err := e.numbers.alloc(e.gpu, e.plan); err != nil {
		return err
	}
	if err := e.inputs.alloc(); err != nil {
		return err
	}
	return e.results.alloc(e.plan)
}

// lower prepares the ops, and returns how much workspace the libraries need.
func (e *Executor) lower() (workspace int64, err error) {
	forms := newWeightForms(e.store, e.host)
	e.places = &places{host: e.host, store: e.store, inputs: e.inputs, results: e.results, numbers: e.numbers}
	e.segmenter = &segmenter{gpu: e.gpu, plan: e.plan, host: e.host, store: e.store, numbers: e.numbers, forms: forms,
		scaler: e.scaler, bucket: e.cfg.Bucket, update: e.cfg.Update}
	e.families = newFamilies(e.gpu, e.plan, e.places, e.owned, e.examples)
	e.ops = make([]lowered, len(e.plan.Ops))
	for i, o := range e.plan.Ops {
		l, err := e.families.lower(&lowering{o: o, gpu: e.gpu, typ: e.cfg.Type, places: e.places, forms: forms})
		if err != nil {
			return 0, fmt.Errorf("cuda: node %q: %v: %w", o.Node, o.Kind, err)
		}
		o.Scratch = l.scratch
		workspace = max(workspace, l.workspace)
		e.ops[i] = l
	}
	return workspace, nil
}

// bind makes the launches for the memory that there is.
func (e *Executor) bind() {
	for i := range e.ops {
		e.ops[i].work = e.ops[i].bind()
	}
}

// makeSchedules cuts the plan into segments, anew after launches of ops have changed.
func (e *Executor) makeSchedules() (err error) {
	if err := e.schedules.close(e.gpu); err != nil {
		return err
	}
	e.schedules, err = e.segmenter.schedules(e.ops)
	return err
}

// check is an error if the plan has something that cannot be done on the device.
func check(p *plan.Plan) error {
	for _, o := range p.Ops {
		if o.Kind == plan.Generic {
			return fmt.Errorf("cuda: node %q: there is no kernel for %v; nodes of gorgonia's own ops run on the CPU only (device cpu:0)", o.Node, o.Attr)
		}
		for _, v := range o.Out {
			if v != nil && v.Boxed {
				return fmt.Errorf("cuda: node %q: %v gives %v, want float32", o.Node, o.Kind, v.Dtype)
			}
		}
	}
	return nil
}

// countMemory makes the plan's memory what the executor takes besides what there was before.
func (e *Executor) countMemory(before usage) {
	m, now := &e.plan.Memory, e.store.usage()
	m.Arena = now.arena - before.arena
	m.Parameters = now.params - before.params
	m.Gradients = now.grads - before.grads
	m.Copies = now.copies - before.copies
	m.Workspace = now.workspace - before.workspace + e.owned.size + e.numbers.size
	_, floats := e.inputs.floats.bytes()
	m.Host = now.host - before.host + floats + e.results.hostBytes()
}

// SetExamples says that later runs have n examples, at most the plan's Batch. Runs of a short batch
// are launched kernel by kernel: graphs and the library's normalisations are made for whole ones.
func (e *Executor) SetExamples(n int) { e.examples.set(n) }

// SetGradScale multiplies the gradients of later runs by s, also those of executors that share.
func (e *Executor) SetGradScale(s float32) { e.store.gradScale = s }

// SetStep says how many runs with gradients came before, those of executors that share included,
// which decides what dropout drops.
func (e *Executor) SetStep(step uint64) { e.store.step = step }

// Hold says whether parameters and running statistics stay as they are from now on, as in an
// evaluation: runs then take them to the device once.
func (e *Executor) Hold(held bool) { e.fresh.hold(held || e.cfg.Update != nil) }

// Finite is false if the last run's gradients had an infinite number or one that is not a number,
// and were set to zero.
func (e *Executor) Finite() bool { return !e.scaler.skipped }

// LossScale is what the loss of the next run is multiplied by on the device, 1 but for Float16.
func (e *Executor) LossScale() float32 { return e.scaler.scale }

// ScaleState is LossScale and how many steps it has been right for, which decides when it is tried
// larger. on is false if the loss is not scaled.
func (e *Executor) ScaleState() (scale float32, good int, on bool) {
	return e.scaler.scale, e.scaler.good, e.scaler.on
}

// SetScaleState goes on from what ScaleState was, in a run that goes on from a checkpoint. Where
// the loss is not scaled it does nothing.
func (e *Executor) SetScaleState(scale float32, good int) error {
	if !(scale >= leastScale && scale <= largestScale) || good < 0 || good >= goodSteps {
		return fmt.Errorf("cuda: set loss scale: got %v, good for %d steps, want %v to %v for 0 to %d", scale, good, float32(leastScale), float32(largestScale), goodSteps-1)
	}
	if e.scaler.on {
		e.scaler.scale, e.scaler.good = scale, good
	}
	return nil
}

// Number is the value of a scalar, such as the loss.
func (e *Executor) Number(v *plan.Value) (float64, error) {
	m, err := e.Output(v)
	if err != nil {
		return 0, err
	}
	if len(m) != 1 {
		return 0, fmt.Errorf("cuda: %q has shape %v, want a scalar", v.Name, v.Shape)
	}
	return float64(m[0]), nil
}

// Output is the memory of one of the plan's outputs: row-major, valid until the next run.
func (e *Executor) Output(v *plan.Value) ([]float32, error) {
	r := v.Root()
	switch r.Source {
	case plan.Parameter:
		return e.host.Params[r.Index], nil
	case plan.Gradient:
		return e.host.Grads[r.Index], nil
	case plan.Input:
		if m, ok := e.host.Inputs[e.inputs.index(r)].Data.([]float32); ok {
			return m, nil
		}
	}
	m, ok := e.results.floats(r)
	if !ok {
		return nil, fmt.Errorf("cuda: output %q is %v %v, want float32", v.Name, r.Source, v.Dtype)
	}
	return m, nil
}

// Close gives the memory back, but not that of a device that hangs. Executors that share with it go
// on.
func (e *Executor) Close() error {
	if e.closed {
		return nil
	}
	e.closed = true
	e.watch.close()
	if e.watch.hangs {
		e.gpu.hangs = true
		return fmt.Errorf("cuda: close on %s: its memory is not freed: %w", e.gpu.Name(), errHangs)
	}
	return e.gpu.context.Do(func() error {
		errs := []error{e.schedules.close(e.gpu)}
		errs = append(errs, e.rest.close()...)
		errs = append(errs, e.families.close()...)
		errs = append(errs, e.owned.close(), e.results.close(), e.inputs.close(), e.numbers.close(e.gpu.context))
		if e.store != nil {
			errs = append(errs, e.store.leave(e))
		}
		return e.gpu.unlessLost(errs)
	})
}
