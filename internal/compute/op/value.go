package op

import (
	"fmt"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// float is the element type of a node's numbers.
type float interface{ float32 | float64 }

// run checks in against o and calls the loop for its element type, which is
// that of the argument typed.
func run[O gorgonia.Op](o O, typed int, in []gorgonia.Value, f32, f64 func(O, []gorgonia.Value, tensor.Shape) (gorgonia.Value, error)) (gorgonia.Value, error) {
	ds := make([]gorgonia.DimSizer, len(in))
	for i, v := range in {
		if v == nil {
			return nil, fmt.Errorf("op: do %v: argument %d has no value", o, i)
		}
		ds[i] = v.Shape()
	}
	shape, err := o.InferShape(ds...)
	if err != nil {
		return nil, err
	}
	switch dt := in[typed].Dtype(); dt {
	case tensor.Float32:
		return f32(o, in, shape)
	case tensor.Float64:
		return f64(o, in, shape)
	default:
		return nil, fmt.Errorf("op: do %v: argument %d is %v, want float32 or float64", o, typed, dt)
	}
}

// dense makes a zero tensor and gives its numbers too.
func dense[T float](shape tensor.Shape) (*tensor.Dense, []T) {
	data := make([]T, shape.TotalSize())
	if shape.IsScalar() {
		data = make([]T, 1)
	}
	return tensor.New(tensor.WithShape(shape.Clone()...), tensor.WithBacking(data)), data
}

// numbers returns v's numbers in row-major order: the memory of v where it is
// laid out so, a copy where v is a view.
func numbers[T float](v gorgonia.Value) []T {
	switch t := v.(type) {
	case *Tuple:
		return numbers[T](t.Values[0])
	case *tensor.Dense:
		v = rowMajor(t)
	}
	switch d := v.Data().(type) {
	case []T:
		return d
	case T:
		return []T{d}
	}
	panic(fmt.Sprintf("op: value is %v of %v, want %T", v.Shape(), v.Dtype(), *new(T)))
}

// rowMajor is t, or a copy of it if it is a view whose numbers are not side by side.
func rowMajor(t *tensor.Dense) *tensor.Dense {
	if t.IsScalar() || !t.RequiresIterator() && !t.DataOrder().IsColMajor() && !t.IsMaterializable() {
		return t
	}
	return t.Materialize().(*tensor.Dense)
}

// number returns the one number of v, a scalar or a tensor with one element.
func number[T float](v gorgonia.Value) T { return numbers[T](v)[0] }

// scalar makes the value of a scalar node.
func scalar[T float](x T) gorgonia.Value {
	switch x := any(x).(type) {
	case float32:
		return gorgonia.NewF32(x)
	default:
		return gorgonia.NewF64(x.(float64))
	}
}

// Indices returns v's numbers as integers: class labels or row ids, of type
// int32, int64, int, float32 or float64.
func Indices(v gorgonia.Value) ([]int, error) {
	if t, ok := v.(*tensor.Dense); ok {
		v = rowMajor(t)
	}
	switch d := v.Data().(type) {
	case []int32:
		return indices(d), nil
	case []int64:
		return indices(d), nil
	case []int:
		return indices(d), nil
	case []float32:
		return indices(d), nil
	case []float64:
		return indices(d), nil
	case int32:
		return []int{int(d)}, nil
	case int64:
		return []int{int(d)}, nil
	case int:
		return []int{d}, nil
	case float32:
		return []int{int(d)}, nil
	case float64:
		return []int{int(d)}, nil
	}
	return nil, fmt.Errorf("op: indices are %v, want int32, int64, int, float32 or float64", v.Dtype())
}

func indices[T int | int32 | int64 | float32 | float64](d []T) []int {
	out := make([]int, len(d))
	for i, x := range d {
		out[i] = int(x)
	}
	return out
}
