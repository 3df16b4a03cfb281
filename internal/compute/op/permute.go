package op

import (
	"fmt"
	"hash"
	"slices"

	"github.com/chewxy/hm"
	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// Permute puts axes in another order: axis i of y is axis Axes[i] of x.
//
// Arguments: x of len(Axes) dimensions. Result: y. Gradient: dy permuted back.
type Permute struct {
	traits
	Axes []int
}

func (o *Permute) Arity() int            { return 1 }
func (o *Permute) Type() hm.Type         { return fn(len(o.Axes), len(o.Axes)) }
func (o *Permute) String() string        { return fmt.Sprintf("Permute{%v}", o.Axes) }
func (o *Permute) WriteHash(h hash.Hash) { writeHash(h, o) }
func (o *Permute) Hashcode() uint32      { return hashcode(o) }
func (o *Permute) DiffWRT(int) []bool    { return []bool{true} }

func (o *Permute) InferShape(ds ...gorgonia.DimSizer) (tensor.Shape, error) {
	s, err := argShapes(o, ds, len(o.Axes))
	if err != nil {
		return nil, err
	}
	out := make(tensor.Shape, len(o.Axes))
	for i := range o.Axes {
		if !slices.Contains(o.Axes, i) {
			return nil, fmt.Errorf("op: %v: x is %v, want each of its axes, 0 to %d, once", o, s[0], len(o.Axes)-1)
		}
		out[i] = s[0][o.Axes[i]]
	}
	return out, nil
}

// Moves reports whether numbers of a tensor of this shape move: axes of size 1 do not count.
func (o *Permute) Moves(shape tensor.Shape) bool {
	last := -1
	for _, a := range o.Axes {
		if shape[a] == 1 {
			continue
		}
		if a < last {
			return true
		}
		last = a
	}
	return false
}

func (o *Permute) Do(in ...gorgonia.Value) (gorgonia.Value, error) {
	return run(o, 0, in, permute[float32], permute[float64])
}

func permute[T float](o *Permute, in []gorgonia.Value, shape tensor.Shape) (gorgonia.Value, error) {
	out, y := dense[T](shape)
	x, from := numbers[T](in[0]), strides(in[0].Shape())
	for i := range y {
		at, rest := 0, i
		for d := len(shape) - 1; d >= 0; d-- {
			at += rest % shape[d] * from[o.Axes[d]]
			rest /= shape[d]
		}
		y[i] = x[at]
	}
	return out, nil
}

// strides are the distances of neighbours along each axis, row-major.
func strides(s tensor.Shape) []int {
	out, stride := make([]int, len(s)), 1
	for d := len(s) - 1; d >= 0; d-- {
		out[d] = stride
		stride *= s[d]
	}
	return out
}

func (o *Permute) SymDiff(_ gorgonia.Nodes, _, grad *gorgonia.Node) (gorgonia.Nodes, error) {
	back := make([]int, len(o.Axes))
	for i, a := range o.Axes {
		back[a] = i
	}
	dx, err := Apply(&Permute{Axes: back}, grad)
	return gorgonia.Nodes{dx}, err
}
