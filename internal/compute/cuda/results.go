package cuda

import (
	"errors"
	"fmt"
	"unsafe"

	"github.com/paragon-train/paragon/internal/compute/cuda/drv"
	"github.com/paragon-train/paragon/internal/compute/plan"
	"gorgonia.org/tensor"
)

// A results is the memory of values that outlive a run: the loss, outputs and constants.
type results struct {
	gpu    *GPU
	values map[*plan.Value]*valueMemory

	// outputs are in the order in which they go down.
	outputs []*valueMemory
}

// valueMemory is the memory of a value that outlives a run.
type valueMemory struct {
	value  *plan.Value
	device drv.Ptr

	// host is pinned.
	host []byte
}

func (k *valueMemory) floats() []float32 {
	return unsafe.Slice((*float32)(unsafe.Pointer(&k.host[0])), k.value.Len())
}

// at is where a value lies on the device.
func (r *results) at(v *plan.Value) drv.Ptr { return r.values[v].device }

// alloc takes memory for outputs, the loss and constants.
func (r *results) alloc(p *plan.Plan) error {
	for _, v := range append([]*plan.Value{p.Loss}, p.Outputs...) {
		if err := r.keep(v.Root()); err != nil {
			return err
		}
	}
	for _, o := range p.Ops {
		for _, v := range o.In {
			if v == nil || v.Root().Source != plan.Constant {
				continue
			}
			if err := r.keep(v.Root()); err != nil {
				return err
			}
		}
	}
	return nil
}

// keep takes memory for an output or a constant that has none. Other values have theirs elsewhere.
func (r *results) keep(v *plan.Value) error {
	if r.values[v] != nil || v.Source != plan.Output && v.Source != plan.Constant {
		return nil
	}
	if v.Boxed {
		return fmt.Errorf("cuda: %q is %v, want float32", v.Name, v.Dtype)
	}
	k := &valueMemory{value: v}
	var err error
	if k.device, err = r.gpu.malloc("outputs", v.Size()); err != nil {
		return err
	}
	r.values[v] = k
	if k.host, err = r.gpu.context.HostAlloc(v.Size()); err != nil {
		return fmt.Errorf("cuda: pinned memory of %d bytes for output %q: %w", v.Size(), v.Name, err)
	}
	if v.Source == plan.Output {
		r.outputs = append(r.outputs, k)
	}
	return nil
}

// fillConstants copies the graph's constants to the device.
func (r *results) fillConstants(p *plan.Plan) error {
	for _, o := range p.Ops {
		for _, v := range o.In {
			if v == nil || v.Root().Source != plan.Constant {
				continue
			}
			k := r.values[v.Root()]
			numbers, err := numbersOf(k.value)
			if err != nil {
				return fmt.Errorf("cuda: constant %q: %w", k.value.Name, err)
			}
			copy(k.floats(), numbers)
			if err := r.gpu.context.CopyToDevice(k.device, unsafe.Pointer(&k.host[0]), k.value.Size(), r.gpu.up); err != nil {
				return err
			}
		}
	}
	return r.gpu.context.Synchronize(r.gpu.up)
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

// down copies the outputs to the host.
func (r *results) down() error {
	for _, k := range r.outputs {
		if err := r.gpu.context.CopyToHost(unsafe.Pointer(&k.host[0]), k.device, k.value.Size(), r.gpu.down); err != nil {
			return err
		}
	}
	return nil
}

// floats are the numbers of a value that the last run brought to the host; ok is false where it
// keeps none.
func (r *results) floats(v *plan.Value) (numbers []float32, ok bool) {
	k, ok := r.values[v]
	if !ok || k.host == nil {
		return nil, false
	}
	return k.floats(), true
}

// hostBytes is the size of the pinned memory.
func (r *results) hostBytes() (n int64) {
	for _, k := range r.values {
		n += int64(len(k.host))
	}
	return n
}

func (r *results) close() error {
	var errs []error
	for _, k := range r.values {
		errs = append(errs, r.gpu.context.Free(k.device))
		if k.host != nil {
			errs = append(errs, r.gpu.context.HostFree(k.host))
		}
	}
	return errors.Join(errs...)
}
