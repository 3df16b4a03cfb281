package ref

import (
	"fmt"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// Numbers copies a value's numbers in row-major order.
func Numbers(v gorgonia.Value) ([]float64, error) {
	if d, ok := v.(*tensor.Dense); ok && d.IsMaterializable() {
		v = d.Materialize().(*tensor.Dense)
	}
	if v == nil {
		return nil, fmt.Errorf("ref: node has no value; it was not run")
	}
	switch d := v.Data().(type) {
	case []float64:
		return append([]float64(nil), d...), nil
	case []float32:
		out := make([]float64, len(d))
		for i, x := range d {
			out[i] = float64(x)
		}
		return out, nil
	case float64:
		return []float64{d}, nil
	case float32:
		return []float64{float64(d)}, nil
	}
	return nil, fmt.Errorf("ref: value is %v, want float32 or float64", v.Dtype())
}

func mustNumbers(v gorgonia.Value) []float64 {
	out, err := Numbers(v)
	if err != nil {
		panic(err.Error())
	}
	return out
}

// convert makes the backing slice of a tensor of type dt.
func convert(values []float64, dt tensor.Dtype) (any, error) {
	switch dt {
	case tensor.Float64:
		return append([]float64(nil), values...), nil
	case tensor.Float32:
		return cast[float32](values), nil
	case tensor.Int32:
		return cast[int32](values), nil
	case tensor.Int64:
		return cast[int64](values), nil
	case tensor.Int:
		return cast[int](values), nil
	}
	return nil, fmt.Errorf("leaf is %v, want a float or integer type", dt)
}

func cast[T float32 | int | int32 | int64](values []float64) []T {
	out := make([]T, len(values))
	for i, x := range values {
		out[i] = T(x)
	}
	return out
}

// first is the one element of a backing slice, as gorgonia takes scalars.
func first(backing any) any {
	switch d := backing.(type) {
	case []float64:
		return d[0]
	case []float32:
		return d[0]
	case []int32:
		return d[0]
	case []int64:
		return d[0]
	default:
		return d.([]int)[0]
	}
}
