package nn

import (
	"fmt"
	"slices"

	"github.com/paragon-train/paragon/internal/compute/op"
	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// Reshape gives x, in row-major order, another shape of as many numbers; one size may be −1 and is
// worked out. Nothing is copied.
func Reshape(x *gorgonia.Node, shape ...int) *gorgonia.Node {
	to, known, open := tensor.Shape(shape).Clone(), 1, -1
	for i, n := range shape {
		if n == -1 && open < 0 {
			open = i
			continue
		}
		known *= n
	}
	total := x.Shape().TotalSize()
	if open >= 0 && known > 0 {
		to[open] = total / known
		known *= to[open]
	}
	if known != total || total < 1 {
		panic(fmt.Sprintf("nn: Reshape: x is %v, which has %d numbers, and the shape wanted is %v", x.Shape(), total, shape))
	}
	if slices.Equal(to, x.Shape()) {
		return x
	}
	return apply("Reshape", &op.Reshape{From: x.Shape().Clone(), To: to}, x)
}

// Permute puts the axes of x in another order, as PyTorch's permute and numpy's transpose do: axis
// i of the result is axis axes[i] of x.
func Permute(x *gorgonia.Node, axes ...int) *gorgonia.Node {
	o := &op.Permute{Axes: make([]int, len(axes))}
	for i, a := range axes {
		o.Axes[i] = axisOf("Permute", x, a)
	}
	return apply("Permute", o, x)
}

// Concat puts nodes of the same sizes, but for one axis, one behind the other along it. A negative
// axis counts from the end.
func Concat(axis int, xs ...*gorgonia.Node) *gorgonia.Node {
	if len(xs) == 0 {
		panic("nn: Concat: nothing to put together, want at least one node")
	}
	if len(xs) == 1 {
		return xs[0]
	}
	return apply("Concat", &op.Concat{Axis: axisOf("Concat", xs[0], axis), Dims: xs[0].Dims(), Count: len(xs)}, xs...)
}

// Slice takes the indices from lo up to, without, hi along an axis of x; a negative axis counts from
// the end.
func Slice(x *gorgonia.Node, axis, lo, hi int) *gorgonia.Node {
	axis = axisOf("Slice", x, axis)
	if lo == 0 && hi == x.Shape()[axis] {
		return x
	}
	return apply("Slice", &op.Slice{Axis: axis, Lo: lo, Hi: hi, Dims: x.Dims()}, x)
}

// Split cuts x along an axis into pieces of the given sizes, whose sum is that of the axis; a
// negative axis counts from the end.
func Split(x *gorgonia.Node, axis int, sizes ...int) []*gorgonia.Node {
	axis = axisOf("Split", x, axis)
	sum := 0
	for _, n := range sizes {
		sum += n
	}
	if sum != x.Shape()[axis] {
		panic(fmt.Sprintf("nn: Split: axis %d of %v has %d, and the sizes %v have the sum %d", axis, x.Shape(), x.Shape()[axis], sizes, sum))
	}
	out, at := make([]*gorgonia.Node, len(sizes)), 0
	for i, n := range sizes {
		out[i] = Slice(x, axis, at, at+n)
		at += n
	}
	return out
}

// axisOf is an axis of x, which counts from the end if it is negative.
func axisOf(layer string, x *gorgonia.Node, axis int) int {
	d := x.Dims()
	if axis < -d || axis >= d {
		panic(fmt.Sprintf("nn: %s: axis is %d, and x %v has %d axes", layer, axis, x.Shape(), d))
	}
	if axis < 0 {
		return axis + d
	}
	return axis
}

// Add is a + b. Shapes may differ by numpy's rule of broadcasting: they are aligned at their last
// axes, and an axis of size 1, or that is not there, is repeated. So learned positions (T,C) are
// added to (B,T,C).
func Add(a, b *gorgonia.Node) *gorgonia.Node {
	if slices.Equal(a.Shape(), b.Shape()) {
		return apply("Add", &op.Add{}, a, b)
	}
	return apply("Add", &op.Broadcast{A: a.Shape().Clone(), B: b.Shape().Clone()}, a, b)
}

// Mul is a·b, element by element, broadcast as Add's arguments are.
func Mul(a, b *gorgonia.Node) *gorgonia.Node {
	return apply("Mul", &op.Broadcast{Mul: true, A: a.Shape().Clone(), B: b.Shape().Clone()}, a, b)
}

// MatMulConfig says which arguments of a MatMul are transposed.
type MatMulConfig struct {
	// TransA takes a as (...,K,M), and TransB b as (...,N,K).
	TransA, TransB bool
}

// MatMul is the matrix product (...,M,K)·(...,K,N) of the last two axes, for each index of the axes
// in front, which are the same in both.
func MatMul(a, b *gorgonia.Node, cfg MatMulConfig) *gorgonia.Node {
	return apply("MatMul", &op.MatMul{Dims: a.Dims(), TransA: cfg.TransA, TransB: cfg.TransB}, a, b)
}
