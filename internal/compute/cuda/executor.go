package cuda

import (
	"errors"
	"fmt"
	"time"
	"unsafe"

	"github.com/paragon-train/paragon/internal/compute/cuda/drv"
	"github.com/paragon-train/paragon/internal/compute/cuda/kernels"
	"github.com/paragon-train/paragon/internal/compute/plan"
	"gorgonia.org/tensor"
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

	// ops are by op of the plan.
	ops []lowered

	// workspace is the bytes of the libraries' workspace that it needs.
	workspace int64

	store *store

	// inputs are by input of the plan.
	inputs []input

	// floats are the mirrors of float32 inputs.
	floats mirrors

	kept      map[*plan.Value]*valueMemory // memory of outputs and constants
	keptOrder []*valueMemory               // outputs

	// numbers are those that change from run to run.
	numbers numbers

	convs    map[convKey]convPlan
	products map[product]productPlan
	norms    norms

	// copies has, by parameter, its forms that ops of this plan read.
	copies map[int][]kernels.Tensor

	// unpacks has, by parameter, its gradient as the library makes it.
	unpacks map[int]*kernels.Tensor

	// masks are those of results of ReLUs: a bit for each number.
	masks map[*plan.Value]drv.Ptr

	owned      []drv.Ptr
	ownedBytes int64

	full, forward *schedule
	rest          [3]drv.Event // see drain
	watch         *watch

	// examples is how many later runs have. It says nothing of a plan without Batch.
	examples int

	// empty says that later runs have no examples, also where Batch is not known: gradients are
	// zero.
	empty bool

	// scaler is that of programs that train, and the store's.
	scaler *scaler

	// held says that the host's parameters and statistics stay as they are.
	held bool

	// fresh is the schedule whose parameters the device has as they are.
	fresh *schedule

	failed error // the device is lost
	closed bool
}

// valueMemory is the memory of a value that outlives a run.
type valueMemory struct {
	value  *plan.Value
	device drv.Ptr
	host   []byte // pinned, of outputs
}

func (k *valueMemory) floats() []float32 {
	return unsafe.Slice((*float32)(unsafe.Pointer(&k.host[0])), k.value.Len())
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
	e := &Executor{
		plan: p, host: host, gpu: cfg.GPU, cfg: cfg,
		kept: make(map[*plan.Value]*valueMemory), convs: make(map[convKey]convPlan), products: make(map[product]productPlan),
		copies: make(map[int][]kernels.Tensor), unpacks: make(map[int]*kernels.Tensor), masks: make(map[*plan.Value]drv.Ptr),
		held: cfg.Update != nil, examples: p.Batch, scaler: newScaler(cfg.Type), watch: cfg.GPU.newWatch(),
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
	p, g := e.plan, e.gpu
	e.floats = mirrors{gpu: g, what: "inputs", blocks: e.host.Blocks}
	for i := range p.Params {
		if _, err := s.params.span(e.host.Params[i]); err != nil {
			return err
		}
	}
	if err := s.mirrorGrads(e.host); err != nil {
		return err
	}
	if err := e.numbers.alloc(g, p); err != nil {
		return err
	}
	if err := e.allocInputs(); err != nil {
		return err
	}
	if err := e.allocKept(); err != nil {
		return err
	}
	e.ops = make([]lowered, len(p.Ops))
	for i, o := range p.Ops {
		l, err := e.lower(o)
		if err != nil {
			return fmt.Errorf("cuda: node %q: %v: %w", o.Node, o.Kind, err)
		}
		o.Scratch = l.scratch
		e.workspace = max(e.workspace, l.workspace)
		e.ops[i] = l
	}
	p.Place()
	return s.grow(p.Memory.Arena, e.workspace, e, func() error {
		e.bind()
		e.countMemory(before)
		if err := e.fillConstants(); err != nil {
			return err
		}
		if err := e.makeSchedules(); err != nil {
			return err
		}
		for i := range e.rest {
			var err error
			if e.rest[i], err = g.context.NewEvent(false); err != nil {
				return err
			}
		}
		return nil
	})
}

// bind makes the launches for the memory that there is.
func (e *Executor) bind() {
	for i := range e.ops {
		e.ops[i].work = e.ops[i].bind()
	}
}

// makeSchedules cuts the plan into segments, anew after launches of ops have changed.
func (e *Executor) makeSchedules() (err error) {
	if err := errors.Join(e.full.close(e.gpu), e.forward.close(e.gpu)); err != nil {
		return err
	}
	e.full, e.forward = nil, nil
	if e.forward, err = e.newSchedule(true); err != nil || e.plan.Grads == nil {
		return err
	}
	if e.full, err = e.newSchedule(false); err == nil && e.cfg.Update != nil {
		e.full.update = e.newUpdate()
	}
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

// at is where a value lies on the device.
func (e *Executor) at(v *plan.Value) drv.Ptr {
	if v == nil {
		return 0
	}
	r := v.Root()
	switch r.Source {
	case plan.Temporary:
		return e.store.arena.device + drv.Ptr(r.Offset)
	case plan.Parameter:
		return e.where(&e.store.params, e.host.Params[r.Index])
	case plan.Gradient:
		return e.where(&e.store.grads, e.host.Grads[r.Index])
	case plan.Input:
		return e.inputs[e.inputIndex(r)].device
	case plan.Seed:
		return e.numbers.seed()
	}
	return e.kept[r].device
}

// where is the place on the device of memory that has a mirror.
func (e *Executor) where(ms *mirrors, x []float32) drv.Ptr {
	p, err := ms.span(x)
	if err != nil {
		panic(fmt.Sprintf("cuda: memory without a mirror: %v", err)) // build makes all of them
	}
	return p.mirror.device + drv.Ptr(p.from)
}

func (e *Executor) inputIndex(v *plan.Value) int {
	for i, in := range e.plan.Inputs {
		if in == v {
			return i
		}
	}
	panic(fmt.Sprintf("cuda: value %v is no input of the plan", v))
}

// allocKept takes memory for outputs, the loss and constants.
func (e *Executor) allocKept() error {
	keep := func(v *plan.Value) error {
		r := v.Root()
		if e.kept[r] != nil || r.Source != plan.Output && r.Source != plan.Constant {
			return nil
		}
		if r.Boxed {
			return fmt.Errorf("cuda: %q is %v, want float32", r.Name, r.Dtype)
		}
		k := &valueMemory{value: r}
		var err error
		if k.device, err = e.gpu.malloc("outputs", r.Size()); err != nil {
			return err
		}
		e.kept[r] = k
		if k.host, err = e.gpu.context.HostAlloc(r.Size()); err != nil {
			return fmt.Errorf("cuda: pinned memory of %d bytes for output %q: %w", r.Size(), r.Name, err)
		}
		if r.Source == plan.Output {
			e.keptOrder = append(e.keptOrder, k)
		}
		return nil
	}
	for _, v := range append([]*plan.Value{e.plan.Loss}, e.plan.Outputs...) {
		if err := keep(v); err != nil {
			return err
		}
	}
	for _, o := range e.plan.Ops {
		for _, v := range o.In {
			if v == nil || v.Root().Source != plan.Constant {
				continue
			}
			if err := keep(v); err != nil {
				return err
			}
		}
	}
	return nil
}

// fillConstants copies the graph's constants to the device.
func (e *Executor) fillConstants() error {
	for _, o := range e.plan.Ops {
		for _, v := range o.In {
			if v == nil || v.Root().Source != plan.Constant {
				continue
			}
			k := e.kept[v.Root()]
			numbers, err := numbersOf(k.value)
			if err != nil {
				return fmt.Errorf("cuda: constant %q: %w", k.value.Name, err)
			}
			copy(k.floats(), numbers)
			if err := e.gpu.context.CopyToDevice(k.device, unsafe.Pointer(&k.host[0]), k.value.Size(), e.gpu.up); err != nil {
				return err
			}
		}
	}
	return e.gpu.context.Synchronize(e.gpu.up)
}

// numbersOf are a constant's numbers, row-major.
func numbersOf(v *plan.Value) ([]float32, error) {
	x := v.Node.Value()
	if d, ok := x.(*tensor.Dense); ok && !d.IsScalar() && (d.RequiresIterator() || d.DataOrder().IsColMajor() || d.IsMaterializable()) {
		x = d.Materialize().(*tensor.Dense)
	}
	switch m := x.Data().(type) {
	case []float32:
		return m, nil
	case float32:
		return []float32{m}, nil
	}
	return nil, fmt.Errorf("it is %v, want float32", x.Dtype())
}

// countMemory makes the plan's memory what the executor takes besides what there was before.
func (e *Executor) countMemory(before usage) {
	m, now := &e.plan.Memory, e.store.usage()
	m.Arena = now.arena - before.arena
	m.Parameters = now.params - before.params
	m.Gradients = now.grads - before.grads
	m.Copies = now.copies - before.copies
	m.Workspace = now.workspace - before.workspace + e.ownedBytes + e.numbers.size
	_, floats := e.floats.bytes()
	m.Host = now.host - before.host + floats
	for _, k := range e.kept {
		m.Host += int64(len(k.host))
	}
}

// SetGradScale multiplies the gradients of later runs by s, also those of executors that share.
func (e *Executor) SetGradScale(s float32) { e.store.gradScale = s }

// SetStep says how many runs with gradients came before, those of executors that share included,
// which decides what dropout drops.
func (e *Executor) SetStep(step uint64) { e.store.step = step }

// Hold says whether parameters and running statistics stay as they are from now on, as in an
// evaluation: runs then take them to the device once.
func (e *Executor) Hold(held bool) { e.held, e.fresh = held || e.cfg.Update != nil, nil }

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
		if m, ok := e.host.Inputs[e.inputIndex(r)].Data.([]float32); ok {
			return m, nil
		}
	}
	k, ok := e.kept[r]
	if !ok || k.host == nil {
		return nil, fmt.Errorf("cuda: output %q is %v %v, want float32", v.Name, r.Source, v.Dtype)
	}
	return k.floats(), nil
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
		c := e.gpu.context
		errs := []error{e.full.close(e.gpu), e.forward.close(e.gpu)}
		for _, event := range e.rest {
			if event != 0 {
				errs = append(errs, c.DestroyEvent(event))
			}
		}
		for _, p := range e.convs {
			errs = append(errs, p.Close())
		}
		errs = append(errs, e.norms.close())
		for _, p := range e.products {
			errs = append(errs, p.Close())
		}
		for _, p := range e.owned {
			errs = append(errs, c.Free(p))
		}
		for _, k := range e.kept {
			errs = append(errs, c.Free(k.device))
			if k.host != nil {
				errs = append(errs, c.HostFree(k.host))
			}
		}
		for i := range e.inputs {
			errs = append(errs, e.inputs[i].close(c))
		}
		errs = append(errs, e.numbers.close(c), e.floats.close())
		if e.store != nil {
			errs = append(errs, e.store.leave(e))
		}
		return e.gpu.unlessLost(errs)
	})
}
