package cpu

import (
	"fmt"
	"math"
	"unsafe"

	"github.com/paragon-train/paragon/internal/compute/f32"
	"github.com/paragon-train/paragon/internal/compute/op"
	"github.com/paragon-train/paragon/internal/compute/plan"
	"gorgonia.org/gorgonia"
)

// A memory gives the values of one plan their places: temporaries in the shared arena, parameters,
// gradients and inputs in the host's memory, all else in memory of its own. What it gives out holds
// until the shared memory moves, so kernels ask for it when they are bound (see kernel).
type memory struct {
	shared *shared
	inputs []*plan.Value
	host   *plan.Host

	// kept is the memory of outputs, constants and the seed.
	kept map[*plan.Value][]float32

	// boxes has values that are no float32 numbers in memory of ours.
	boxes map[*plan.Value]*gorgonia.Value
}

func newMemory(s *shared, inputs []*plan.Value, host *plan.Host) *memory {
	return &memory{shared: s, inputs: inputs, host: host,
		kept: make(map[*plan.Value][]float32), boxes: make(map[*plan.Value]*gorgonia.Value)}
}

// floats is the memory of a value that is not boxed and is float32. Valid once the plan is placed.
func (m *memory) floats(v *plan.Value) []float32 {
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
		return m.shared.arena[at : at+int64(r.Len()) : at+int64(r.Len())]
	case plan.Parameter:
		return m.host.Params[r.Index]
	case plan.Gradient:
		return m.host.Grads[r.Index]
	case plan.Input:
		return m.host.Inputs[m.inputIndex(r)].Data.([]float32)
	}
	kept, ok := m.kept[r]
	if !ok {
		kept = make([]float32, r.Len())
		if r.Source == plan.Constant {
			copyNumbers(kept, r.Node.Value())
		}
		m.kept[r] = kept
	}
	return kept
}

// array is the memory of a value whose numbers are float32 or bfloat16; no array for nil. Valid
// once the plan is placed.
func (m *memory) array(v *plan.Value) f32.Array {
	if v == nil || !v.BFloat16() {
		return f32.Array{F32: m.floats(v)}
	}
	return f32.Array{BF16: f32.HalvesOf(m.shared.arena[v.Offset/4 : (v.Offset+v.Size()+3)/4])[:v.Len()]}
}

// bytes is the memory of a temporary whose elements are bytes.
func (m *memory) bytes(v *plan.Value) []uint8 { return m.arenaBytes(v.Offset, v.Size()) }

// scratch is the memory that o asked for, as numbers and as bytes.
func (m *memory) scratch(o *plan.Op) []float32 {
	return m.shared.arena[o.ScratchOffset/4 : (o.ScratchOffset+o.Scratch)/4]
}

func (m *memory) scratchBytes(o *plan.Op) []uint8 {
	return m.arenaBytes(o.ScratchOffset, o.Scratch)
}

func (m *memory) arenaBytes(offset, size int64) []uint8 {
	if size == 0 {
		return nil
	}
	all := unsafe.Slice((*uint8)(unsafe.Pointer(&m.shared.arena[0])), 4*len(m.shared.arena))
	return all[offset : offset+size : offset+size]
}

// doubles is n float64 numbers for sums within one op. Another op uses the same.
func (m *memory) doubles(n int) []float64 { return m.shared.sums[:n:n] }

func (m *memory) inputIndex(v *plan.Value) int {
	for i, in := range m.inputs {
		if in == v {
			return i
		}
	}
	panic(fmt.Sprintf("cpu: value %v is no input of the plan", v))
}

// box is the place of a boxed value.
func (m *memory) box(v *plan.Value) *gorgonia.Value {
	r := v.Root()
	b, ok := m.boxes[r]
	if !ok {
		b = new(gorgonia.Value)
		switch r.Source {
		case plan.Input:
			*b = m.host.Inputs[m.inputIndex(r)].Tensor
		case plan.Constant, plan.Parameter:
			*b = r.Node.Value()
		}
		m.boxes[r] = b
	}
	return b
}

// number is the value of a scalar, such as the loss.
func (m *memory) number(v *plan.Value) (float64, error) {
	if !v.Boxed {
		x := m.floats(v)
		if len(x) != 1 {
			return 0, fmt.Errorf("cpu: %q has shape %v, want a scalar", v.Name, v.Shape)
		}
		return float64(x[0]), nil
	}
	switch x := (*m.box(v)).(type) {
	case *gorgonia.F64:
		return float64(*x), nil
	case *gorgonia.F32:
		return float64(*x), nil
	}
	return 0, fmt.Errorf("cpu: %q is %v, want a float scalar", v.Name, v.Dtype)
}

// indices returns a function that gives label or row number i of v without allocating where the
// numbers lie in memory of ours.
func (m *memory) indices(v *plan.Value) (func() func(i int) int, error) {
	if !v.Boxed {
		x := m.floats(v)
		at := func(i int) int { return int(x[i]) }
		return func() func(int) int { return at }, nil
	}
	if v.Root().Source == plan.Input {
		var at func(i int) int
		switch d := m.host.Inputs[m.inputIndex(v.Root())].Data.(type) {
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
	b := m.box(v)
	return func() func(int) int {
		d, err := op.Indices(*b)
		if err != nil {
			// Every reader refuses this index.
			return func(int) int { return math.MinInt }
		}
		return func(i int) int { return d[i] }
	}, nil
}

// integers returns a function that reads a value of integers and checks each.
func (m *memory) integers(dst []int, v *plan.Value, check func(i, n int) error) func() error {
	read, err := m.indices(v)
	if err != nil {
		return func() error { return err }
	}
	return func() error {
		at := read()
		for i := range dst {
			dst[i] = at(i)
			if err := check(i, dst[i]); err != nil {
				return err
			}
		}
		return nil
	}
}
