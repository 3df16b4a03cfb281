package op

import (
	"fmt"
	"hash"

	"github.com/chewxy/hm"
	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// Linear is y = x·Wᵀ + b.
//
// Arguments: x (B,In), W (Out,In) and, with Bias, b (Out). Result: y (B,Out).
// Gradients: dx = dy·W, dW = dyᵀ·x, db = Σ_B dy, as one LinearGrad node, so that
// an executor can share the passes over dy.
type Linear struct {
	traits
	Bias bool
}

func (o *Linear) Arity() int {
	if o.Bias {
		return 3
	}
	return 2
}

func (o *Linear) Type() hm.Type {
	if o.Bias {
		return fn(2, 2, 1, 2)
	}
	return fn(2, 2, 2)
}

func (o *Linear) String() string        { return fmt.Sprintf("Linear{bias %t}", o.Bias) }
func (o *Linear) WriteHash(h hash.Hash) { writeHash(h, o) }
func (o *Linear) Hashcode() uint32      { return hashcode(o) }
func (o *Linear) DiffWRT(n int) []bool  { return []bool{true, true, true}[:n] }

func (o *Linear) InferShape(ds ...gorgonia.DimSizer) (tensor.Shape, error) {
	s, err := argShapes(o, ds, []int{2, 2, 1}[:o.Arity()]...)
	if err != nil {
		return nil, err
	}
	if s[0][1] != s[1][1] || o.Bias && s[2][0] != s[1][0] {
		return nil, fmt.Errorf("op: %v: arguments are %v, want (B,In), (Out,In) and (Out)", o, s)
	}
	return tensor.Shape{s[0][0], s[1][0]}, nil
}

func (o *Linear) Do(in ...gorgonia.Value) (gorgonia.Value, error) {
	return run(o, 0, in, linear[float32], linear[float64])
}

func linear[T float](o *Linear, in []gorgonia.Value, shape tensor.Shape) (gorgonia.Value, error) {
	out, y := dense[T](shape)
	x, w := numbers[T](in[0]), numbers[T](in[1])
	rows, width, inner := shape[0], shape[1], in[0].Shape()[1]
	for b := range rows {
		for j := range width {
			var sum T
			for k := range inner {
				sum += x[b*inner+k] * w[j*inner+k]
			}
			if o.Bias {
				sum += numbers[T](in[2])[j]
			}
			y[b*width+j] = sum
		}
	}
	return out, nil
}

func (o *Linear) SymDiff(in gorgonia.Nodes, _, grad *gorgonia.Node) (gorgonia.Nodes, error) {
	d, err := Apply(&LinearGrad{Bias: o.Bias}, in[0], in[1], grad)
	if err != nil {
		return nil, err
	}
	return takeEach(d, in)
}

// LinearGrad is the backward pass of Linear: dx = dy·W, dW = dyᵀ·x, db = Σ_B dy.
//
// Arguments: x (B,In), W (Out,In), dy (B,Out).
// Result: Tuple{dx (B,In), dW (Out,In)} and, with Bias, db (Out) as the third.
type LinearGrad struct {
	gradient
	Bias bool
}

func (o *LinearGrad) Arity() int            { return 3 }
func (o *LinearGrad) Type() hm.Type         { return fn(2, 2, 2, 2) }
func (o *LinearGrad) String() string        { return fmt.Sprintf("LinearGrad{bias %t}", o.Bias) }
func (o *LinearGrad) WriteHash(h hash.Hash) { writeHash(h, o) }
func (o *LinearGrad) Hashcode() uint32      { return hashcode(o) }

func (o *LinearGrad) InferShape(ds ...gorgonia.DimSizer) (tensor.Shape, error) {
	s, err := argShapes(o, ds, 2, 2, 2)
	if err != nil {
		return nil, err
	}
	if s[0][1] != s[1][1] || s[2][0] != s[0][0] || s[2][1] != s[1][0] {
		return nil, fmt.Errorf("op: %v: arguments are %v, want (B,In), (Out,In) and (B,Out)", o, s)
	}
	return s[0].Clone(), nil
}

func (o *LinearGrad) Do(in ...gorgonia.Value) (gorgonia.Value, error) {
	return run(o, 0, in, linearGrad[float32], linearGrad[float64])
}

func linearGrad[T float](o *LinearGrad, in []gorgonia.Value, shape tensor.Shape) (gorgonia.Value, error) {
	rows, inner, width := shape[0], shape[1], in[1].Shape()[0]
	xt, dx := dense[T](shape)
	wt, dw := dense[T](in[1].Shape())
	bt, db := dense[T](tensor.Shape{width})
	x, w, dy := numbers[T](in[0]), numbers[T](in[1]), numbers[T](in[2])
	for b := range rows {
		for j := range width {
			d := dy[b*width+j]
			db[j] += d
			for k := range inner {
				dx[b*inner+k] += d * w[j*inner+k]
				dw[j*inner+k] += d * x[b*inner+k]
			}
		}
	}
	t := &Tuple{Values: []*tensor.Dense{xt, wt}}
	if o.Bias {
		t.Values = append(t.Values, bt)
	}
	return t, nil
}
