package cpu

import (
	"fmt"
	"math"
	"unsafe"

	"github.com/paragon-train/paragon/internal/compute/op"
	"github.com/paragon-train/paragon/internal/compute/plan"
	"gorgonia.org/gorgonia"
)

// floats is the memory of a value that is not boxed and is float32. Valid once the plan is placed.
func (e *Executor) floats(v *plan.Value) []float32 {
	if v == nil {
		return nil
	}
	r := v.Root()
	if r.BFloat16() {
		panic(fmt.Sprintf("cpu: value %v is read as float32", v))
	}
	switch r.Source {
	case plan.Temporary:
		at := r.Offset / 4
		return e.arena[at : at+int64(r.Len()) : at+int64(r.Len())]
	case plan.Parameter:
		return e.host.Params[r.Index]
	case plan.Gradient:
		return e.host.Grads[r.Index]
	case plan.Input:
		return e.host.Inputs[e.inputIndex(r)].Data.([]float32)
	}
	m, ok := e.kept[r]
	if !ok {
		m = make([]float32, r.Len())
		if r.Source == plan.Constant {
			copyNumbers(m, r.Node.Value())
		}
		e.kept[r] = m
	}
	return m
}

// bytes is the memory of a temporary whose elements are bytes.
func (e *Executor) bytes(v *plan.Value) []uint8 { return e.arenaBytes(v.Offset, v.Size()) }

// scratch is the memory that o asked for, as numbers and as bytes.
func (e *Executor) scratch(o *plan.Op) []float32 {
	return e.arena[o.ScratchOffset/4 : (o.ScratchOffset+o.Scratch)/4]
}

func (e *Executor) scratchBytes(o *plan.Op) []uint8 { return e.arenaBytes(o.ScratchOffset, o.Scratch) }

func (e *Executor) arenaBytes(offset, size int64) []uint8 {
	if size == 0 {
		return nil
	}
	all := unsafe.Slice((*uint8)(unsafe.Pointer(&e.arena[0])), 4*len(e.arena))
	return all[offset : offset+size : offset+size]
}

func (e *Executor) inputIndex(v *plan.Value) int {
	for i, in := range e.plan.Inputs {
		if in == v {
			return i
		}
	}
	panic(fmt.Sprintf("cpu: value %v is no input of the plan", v))
}

// box is the place of a boxed value.
func (e *Executor) box(v *plan.Value) *gorgonia.Value {
	r := v.Root()
	b, ok := e.boxes[r]
	if !ok {
		b = new(gorgonia.Value)
		switch r.Source {
		case plan.Input:
			*b = e.host.Inputs[e.inputIndex(r)].Tensor
		case plan.Constant, plan.Parameter:
			*b = r.Node.Value()
		}
		e.boxes[r] = b
	}
	return b
}

// Number is the value of a scalar, such as the loss.
func (e *Executor) Number(v *plan.Value) (float64, error) {
	if !v.Boxed {
		m := e.floats(v)
		if len(m) != 1 {
			return 0, fmt.Errorf("cpu: %q has shape %v, want a scalar", v.Name, v.Shape)
		}
		return float64(m[0]), nil
	}
	switch x := (*e.box(v)).(type) {
	case *gorgonia.F64:
		return float64(*x), nil
	case *gorgonia.F32:
		return float64(*x), nil
	}
	return 0, fmt.Errorf("cpu: %q is %v, want a float scalar", v.Name, v.Dtype)
}

// Output is the memory of one of the plan's outputs: row-major, valid until the next run.
func (e *Executor) Output(v *plan.Value) ([]float32, error) {
	if v.Boxed {
		return nil, fmt.Errorf("cpu: output %q is %v, want float32", v.Name, v.Dtype)
	}
	return e.floats(v), nil
}

// indices returns a function that gives label or row number i of v without allocating where the
// numbers lie in memory of ours.
func (e *Executor) indices(v *plan.Value) (func() func(i int) int, error) {
	if !v.Boxed {
		m := e.floats(v)
		at := func(i int) int { return int(m[i]) }
		return func() func(int) int { return at }, nil
	}
	if v.Root().Source == plan.Input {
		var at func(i int) int
		switch d := e.host.Inputs[e.inputIndex(v.Root())].Data.(type) {
		case []int32:
			at = func(i int) int { return int(d[i]) }
		case []int64:
			at = func(i int) int { return int(d[i]) }
		case []int:
			at = func(i int) int { return d[i] }
		default:
			return nil, fmt.Errorf("%q is %v, want int32, int64, int or float32", v.Name, v.Dtype)
		}
		return func() func(int) int { return at }, nil
	}
	b := e.box(v)
	return func() func(int) int {
		d, err := op.Indices(*b)
		if err != nil {
			return func(int) int { return math.MinInt } // an index that every reader refuses
		}
		return func(i int) int { return d[i] }
	}, nil
}
