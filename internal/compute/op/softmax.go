package op

import (
	"fmt"
	"hash"
	"math"

	"github.com/chewxy/hm"
	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// Softmax is y = exp(x) / Σ exp(x), the sum along one axis: class probabilities. With Log it is
// log y = x − log Σ exp(x). Both are computed so that they cannot overflow.
//
// Arguments: x of any shape with at least one dimension. Result: y like x. Gradient: by SoftmaxGrad.
type Softmax struct {
	traits

	// Axis counts from 0.
	Axis int
	Log  bool
}

func (o *Softmax) Arity() int            { return 1 }
func (o *Softmax) Type() hm.Type         { return same(1) }
func (o *Softmax) String() string        { return fmt.Sprintf("Softmax{axis %d log %t}", o.Axis, o.Log) }
func (o *Softmax) WriteHash(h hash.Hash) { writeHash(h, o) }
func (o *Softmax) Hashcode() uint32      { return hashcode(o) }
func (o *Softmax) DiffWRT(int) []bool    { return []bool{true} }

func (o *Softmax) InferShape(ds ...gorgonia.DimSizer) (tensor.Shape, error) {
	return likeAlong(o, ds, 1, o.Axis)
}

// likeAlong is likeAll of arguments that have the axis.
func likeAlong(o gorgonia.Op, ds []gorgonia.DimSizer, n, axis int) (tensor.Shape, error) {
	s, err := likeAll(o, ds, n)
	if err == nil && (axis < 0 || axis >= s.Dims()) {
		return nil, fmt.Errorf("op: %v: x is %v, which has no axis %d", o, s, axis)
	}
	return s, err
}

// Along cuts a shape at an axis: its numbers are outer times inner vectors of n, and those of a
// vector are inner apart.
func Along(s tensor.Shape, axis int) (outer, n, inner int) {
	outer, inner = 1, 1
	for i, d := range s {
		switch {
		case i < axis:
			outer *= d
		case i > axis:
			inner *= d
		}
	}
	return outer, s[axis], inner
}

// eachAlong calls f for each vector along an axis, with the index of its first number and the
// distance between its numbers.
func eachAlong(s tensor.Shape, axis int, f func(first, n, step int)) {
	outer, n, inner := Along(s, axis)
	for i := range outer {
		for j := range inner {
			f(i*n*inner+j, n, inner)
		}
	}
}

func (o *Softmax) Do(in ...gorgonia.Value) (gorgonia.Value, error) {
	return run(o, 0, in, softmax[float32], softmax[float64])
}

func softmax[T float](o *Softmax, in []gorgonia.Value, shape tensor.Shape) (gorgonia.Value, error) {
	out, y := dense[T](shape)
	x := numbers[T](in[0])
	row := make([]T, shape[o.Axis])
	eachAlong(shape, o.Axis, func(first, n, step int) {
		for k := range n {
			row[k] = x[first+k*step]
		}
		lse := logSumExp(row)
		for k, v := range row {
			log := float64(v) - lse
			if !o.Log {
				log = math.Exp(log)
			}
			y[first+k*step] = T(log)
		}
	})
	return out, nil
}

func (o *Softmax) SymDiff(_ gorgonia.Nodes, out, grad *gorgonia.Node) (gorgonia.Nodes, error) {
	dx, err := Apply(&SoftmaxGrad{Axis: o.Axis, Log: o.Log}, out, grad)
	return gorgonia.Nodes{dx}, err
}

// SoftmaxGrad is dx = y·(dy − Σ dy·y), the sum along the axis; with Log dx = dy − exp(y)·Σ dy.
//
// Arguments: y (the Softmax's result), dy like y. Result: dx like y.
type SoftmaxGrad struct {
	gradient
	Axis int
	Log  bool
}

func (o *SoftmaxGrad) Arity() int    { return 2 }
func (o *SoftmaxGrad) Type() hm.Type { return same(2) }
func (o *SoftmaxGrad) String() string {
	return fmt.Sprintf("SoftmaxGrad{axis %d log %t}", o.Axis, o.Log)
}
func (o *SoftmaxGrad) WriteHash(h hash.Hash) { writeHash(h, o) }
func (o *SoftmaxGrad) Hashcode() uint32      { return hashcode(o) }

func (o *SoftmaxGrad) InferShape(ds ...gorgonia.DimSizer) (tensor.Shape, error) {
	return likeAlong(o, ds, 2, o.Axis)
}

func (o *SoftmaxGrad) Do(in ...gorgonia.Value) (gorgonia.Value, error) {
	return run(o, 0, in, softmaxGrad[float32], softmaxGrad[float64])
}

func softmaxGrad[T float](o *SoftmaxGrad, in []gorgonia.Value, shape tensor.Shape) (gorgonia.Value, error) {
	out, dx := dense[T](shape)
	y, dy := numbers[T](in[0]), numbers[T](in[1])
	eachAlong(shape, o.Axis, func(first, n, step int) {
		var sum T
		for i := first; i < first+n*step; i += step {
			if o.Log {
				sum += dy[i]
			} else {
				sum += dy[i] * y[i]
			}
		}
		for i := first; i < first+n*step; i += step {
			if o.Log {
				dx[i] = dy[i] - T(math.Exp(float64(y[i])))*sum
			} else {
				dx[i] = y[i] * (dy[i] - sum)
			}
		}
	})
	return out, nil
}
