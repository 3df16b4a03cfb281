package nn

import (
	"fmt"
	"slices"
	"strings"
	"unsafe"

	"github.com/paragon-train/paragon/internal/compute/op"
	"github.com/paragon-train/paragon/internal/compute/plan"
	"github.com/paragon-train/paragon/internal/compute/shm"
	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// A Param is one parameter of a program, or one tensor of its state. The slices are the program's
// own memory, row-major.
type Param struct {
	Name  string
	Shape []int
	// Value may be changed between steps.
	Value []float32
	// Gradient is that of the last step. It is nil in inference and for state.
	Gradient []float32
}

// ValueTensor is the value as a tensor over the same memory.
func (p Param) ValueTensor() *tensor.Dense { return over(p.Value, p.Shape) }

// GradientTensor is the gradient as a tensor over the same memory; nil if there is none.
func (p Param) GradientTensor() *tensor.Dense {
	if p.Gradient == nil {
		return nil
	}
	return over(p.Gradient, p.Shape)
}

func over(m []float32, shape []int) *tensor.Dense {
	if len(shape) == 0 {
		shape = []int{1}
	}
	return tensor.New(tensor.WithShape(shape...), tensor.WithBacking(m))
}

// A LabelInput is an input of class labels or row numbers. Its slice is the program's own memory.
type LabelInput struct{ values []int32 }

// Len is the number of labels of a batch.
func (l LabelInput) Len() int { return len(l.values) }

// Set fills the input with labels. With fewer than Len the rest becomes −1, the mark of a row that
// is ignored; with more it panics.
func (l LabelInput) Set(labels []int32) {
	if len(labels) > len(l.values) {
		panic(fmt.Sprintf("nn: LabelInput.Set: got %d labels, want at most %d", len(labels), len(l.values)))
	}
	for i := copy(l.values, labels); i < len(l.values); i++ {
		l.values[i] = -1
	}
}

// An IDInput is an input of row numbers that Embedding looks up, such as tokens. Its slice is the
// program's own memory.
type IDInput struct{ values []int32 }

// Len is the number of row numbers of a batch.
func (l IDInput) Len() int { return len(l.values) }

// Set fills the input with row numbers. With fewer than Len the rest, which is padding, becomes 0,
// a row that there is; with more it panics.
func (l IDInput) Set(ids []int32) {
	if len(ids) > len(l.values) {
		panic(fmt.Sprintf("nn: IDInput.Set: got %d ids, want at most %d", len(ids), len(l.values)))
	}
	clear(l.values[copy(l.values, ids):])
}

// memoryLike makes the memory of a number for each one of the parameters in one piece, as
// shm.Slices does. Servers of the same host can use it in place, and GPUs copy from and to it.
func memoryLike(params []*plan.Value) (each [][]float32, all []float32) {
	lengths := make([]int, len(params))
	for i, v := range params {
		lengths[i] = v.Len()
	}
	return shm.Slices(lengths...)
}

// newHost finds or allocates the memory that a program shares with its user.
func newHost(p *plan.Plan, g *gorgonia.ExprGraph, share *Program, gpu bool) (*plan.Host, error) {
	h := &plan.Host{States: make(map[string]*plan.State)}
	if share != nil {
		h.Blocks = append(h.Blocks, share.host.Blocks...)
	}
	for _, v := range p.Params {
		m, err := paramMemory(v, share)
		if err != nil {
			return nil, err
		}
		h.Params = append(h.Params, m)
	}
	if gpu && share == nil {
		if err := moveParams(h, g, p.Params); err != nil {
			return nil, err
		}
	}
	switch {
	case p.Grads == nil:
	case share != nil && share.shared.trained != nil:
		t := share.shared.trained
		h.Grads, h.Blocks = t.grads, append(h.Blocks, t.block)
	default:
		var block []float32
		h.Grads, block = memoryLike(p.Params)
		h.Blocks = append(h.Blocks, block)
	}
	for _, v := range p.Inputs {
		in, err := inputMemory(v, share)
		if err != nil {
			return nil, err
		}
		h.Inputs = append(h.Inputs, in)
	}
	for _, o := range p.Ops {
		bn, ok := o.Attr.(*op.BatchNorm2D)
		if !ok {
			continue
		}
		s, err := stateMemory(bn.State, share)
		if err != nil {
			return nil, err
		}
		h.States[bn.State.Name] = s
	}
	return h, nil
}

// moveParams gives the leaves of parameters values in one piece of memory, but for those that
// another program has moved.
func moveParams(h *plan.Host, g *gorgonia.ExprGraph, params []*plan.Value) error {
	registry := op.RegistryOf(g)
	var here []int
	var values []*plan.Value
	for i, m := range h.Params {
		if !slices.ContainsFunc(*registry.Blocks, func(block []float32) bool { return within(m, block) }) {
			here, values = append(here, i), append(values, params[i])
		}
	}
	each, block := memoryLike(values)
	for k, i := range here {
		v := params[i]
		copy(each[k], h.Params[i])
		h.Params[i] = each[k]
		if err := letValue(v, each[k]); err != nil {
			return err
		}
	}
	if len(block) > 0 {
		*registry.Blocks = append(*registry.Blocks, block)
	}
	h.Blocks = append(h.Blocks, *registry.Blocks...)
	return nil
}

// within reports whether m lies in block.
func within(m, block []float32) bool {
	begin, end := uintptr(unsafe.Pointer(unsafe.SliceData(block))), uintptr(4*len(block))
	at := uintptr(unsafe.Pointer(unsafe.SliceData(m)))
	return begin <= at && at+uintptr(4*len(m)) <= begin+end
}

func paramMemory(v *plan.Value, share *Program) ([]float32, error) {
	if share != nil {
		m, shape := share.param(v.Name)
		if m == nil {
			return nil, fmt.Errorf("parameter %q: the program to share with has none of this name", v.Name)
		}
		if !v.Shape.Eq(shape) {
			return nil, fmt.Errorf("parameter %q has shape %v, in the program to share with %v", v.Name, v.Shape, shape)
		}
		return m, nil
	}
	if v.Node.Value() == nil {
		return nil, fmt.Errorf("parameter %q has no value; give it one (gorgonia.WithInit, WithValue or Let) before", v.Name)
	}
	m := floatMemory(v.Node.Value())
	if m == nil {
		return nil, fmt.Errorf("parameter %q is %v in memory that cannot be shared, want contiguous row-major float32", v.Name, v.Node.Value().Dtype())
	}
	return m, nil
}

// param is the memory of a parameter, or of a leaf that was left out of the parameters.
func (p *Program) param(name string) ([]float32, tensor.Shape) {
	for i, v := range p.plan.Params {
		if v.Name == name {
			return p.host.Params[i], v.Shape
		}
	}
	for i, v := range p.plan.Inputs {
		if m, ok := p.host.Inputs[i].Data.([]float32); ok && v.Name == name {
			return m, v.Shape
		}
	}
	return nil, nil
}

// floatMemory is the memory of a float32 value, nil if it is not contiguous and row-major.
func floatMemory(x gorgonia.Value) []float32 {
	switch x := x.(type) {
	case *gorgonia.F32:
		return unsafe.Slice((*float32)(unsafe.Pointer(x)), 1)
	case *tensor.Dense:
		if x.Dtype() != tensor.Float32 || x.IsMaterializable() || x.RequiresIterator() || x.DataOrder().IsColMajor() {
			return nil
		}
		return x.Float32s()
	}
	return nil
}

// inputMemory is the memory of a leaf that is no parameter: that of its value if it has one, else
// new.
func inputMemory(v *plan.Value, share *Program) (plan.HostInput, error) {
	if x, ok := v.Node.Value().(*tensor.Dense); ok && v.Dtype == tensor.Float32 {
		m := floatMemory(x)
		// It may be a parameter that is kept as it is.
		if share != nil {
			if s, shape := share.param(v.Name); s != nil && v.Shape.Eq(shape) {
				m = s
			}
		}
		if m != nil {
			return plan.HostInput{Data: m, Tensor: over(m, v.Shape)}, nil
		}
	}
	n := v.Len()
	var data any
	switch v.Dtype {
	case tensor.Float32:
		data = make([]float32, n)
	case tensor.Float64:
		data = make([]float64, n)
	case tensor.Int32:
		data = make([]int32, n)
	case tensor.Int64:
		data = make([]int64, n)
	case tensor.Int:
		data = make([]int, n)
	case tensor.Bool:
		data = make([]bool, n)
	default:
		return plan.HostInput{}, fmt.Errorf("input %q is %v, want float32, float64, int32, int64, int or bool", v.Name, v.Dtype)
	}
	shape := v.Shape
	if len(shape) == 0 {
		shape = tensor.Shape{1}
	}
	t := tensor.New(tensor.WithShape(shape...), tensor.WithBacking(data))
	if old := v.Node.Value(); old != nil && len(v.Shape) > 0 {
		if d, ok := old.(*tensor.Dense); ok {
			if err := tensor.Copy(t, d); err != nil {
				return plan.HostInput{}, fmt.Errorf("input %q: %w", v.Name, err)
			}
		}
	} else if x, ok := old.(*gorgonia.F32); ok {
		data.([]float32)[0] = float32(*x)
	}
	return plan.HostInput{Data: data, Tensor: t}, nil
}

func stateMemory(s *op.BatchNormState, share *Program) (*plan.State, error) {
	if share != nil {
		have, ok := share.host.States[s.Name]
		if n := s.Mean.Shape().TotalSize(); ok && n != len(have.Mean) {
			return nil, fmt.Errorf("state %q has %d channels, in the program to share with %d", s.Name, n, len(have.Mean))
		}
		if ok {
			return have, nil
		}
		return nil, fmt.Errorf("state %q: the program to share with has none of this name", s.Name)
	}
	mean, variance := floatMemory(s.Mean), floatMemory(s.Var)
	if mean == nil || variance == nil {
		return nil, fmt.Errorf("state %q is %v in memory that cannot be shared, want contiguous float32", s.Name, s.Mean.Dtype())
	}
	return &plan.State{Mean: mean, Var: variance}, nil
}

// list makes the program's lists of parameters, of state, and of inputs that may be parameters
// without a value.
func (p *Program) list() {
	for _, v := range p.plan.Inputs {
		if op.IsUnset(v.Node) {
			p.unset = append(p.unset, v.Name)
		}
	}
	for i, v := range p.plan.Inputs {
		if m, ok := p.host.Inputs[i].Data.([]float32); ok && p.freezes[v.Name] {
			p.frozen = append(p.frozen, Param{Name: v.Name, Shape: v.Shape, Value: m})
		}
	}
	for i, v := range p.plan.Params {
		q := Param{Name: v.Name, Shape: v.Shape, Value: p.host.Params[i]}
		if p.host.Grads != nil {
			q.Gradient = p.host.Grads[i]
		}
		p.params = append(p.params, q)
	}
	for _, s := range op.States(p.graph) {
		name, isMean := strings.CutSuffix(s.Name, meanSuffix)
		if !isMean {
			name = strings.TrimSuffix(s.Name, varianceSuffix)
		}
		// The root may not depend on it.
		have := p.host.States[name]
		if have == nil {
			continue
		}
		q := Param{Name: s.Name, Shape: []int{len(have.Mean)}, Value: have.Var}
		if isMean {
			q.Value = have.Mean
		}
		if p.freezes[s.Name] {
			p.frozen = append(p.frozen, q)
			continue
		}
		p.state = append(p.state, q)
	}
}
