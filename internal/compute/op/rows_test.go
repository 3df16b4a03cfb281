package op_test

import (
	"strings"
	"testing"

	"github.com/paragon-train/paragon/internal/compute/op"
	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// A graphCase is an element of graphs.
type graphCase = struct {
	name  string
	build func(g *gorgonia.ExprGraph, leaf func(name string, shape ...int) *gorgonia.Node) *gorgonia.Node
}

// Those of rows and of shapes are among graphs.
func init() { graphs = append(graphs, rowGraphs...) }

var rowGraphs = []graphCase{
	{"RowNorm of three dimensions", rowNorm(op.RowNorm{Dims: 3, Eps: 1e-5, Bias: true}, 2, 3, 5)},
	{"RowNorm without bias", rowNorm(op.RowNorm{Dims: 2, Eps: 1e-5}, 4, 5)},
	{"RowNorm by the root of the mean square", rowNorm(op.RowNorm{Dims: 2, Eps: 1e-6, RMS: true}, 4, 5)},
	{"GroupNorm of two groups", groupNorm(2)},
	{"GroupNorm of one channel each", groupNorm(6)},
	{"MatMul of two dimensions", matMul(false, false, []int{3, 4}, []int{4, 5})},
	{"MatMul of four dimensions", matMul(false, false, []int{2, 3, 2, 4}, []int{2, 3, 4, 5})},
	{"MatMul of a transposed", matMul(true, false, []int{2, 4, 3}, []int{2, 4, 5})},
	{"MatMul of b transposed", matMul(false, true, []int{2, 3, 4}, []int{2, 5, 4})},
	{"MatMul of both transposed", matMul(true, true, []int{2, 4, 3}, []int{2, 5, 4})},
	{"Concat and Slice", func(_ *gorgonia.ExprGraph, leaf func(string, ...int) *gorgonia.Node) *gorgonia.Node {
		y := must(op.Apply(&op.Concat{Axis: 1, Dims: 3, Count: 3}, leaf("x", 2, 3, 2), leaf("y", 2, 1, 2), leaf("z", 2, 2, 2)))
		return must(op.Apply(&op.Slice{Axis: 1, Lo: 2, Hi: 5, Dims: 3}, y))
	}},
	{"Slice of the last axis", unary(&op.Slice{Axis: 1, Lo: 1, Hi: 3, Dims: 2}, 3, 4)},
	{"Permute", unary(&op.Permute{Axes: []int{2, 0, 3, 1}}, 2, 3, 2, 4)},
	{"Broadcast of rows", broadcast(false, []int{2, 3, 4}, []int{3, 4})},
	{"Broadcast from the first argument", broadcast(false, []int{4}, []int{2, 3, 4})},
	{"Broadcast of both", broadcast(true, []int{2, 1, 4}, []int{3, 1})},
	{"Broadcast of an inner axis", broadcast(true, []int{2, 3, 4}, []int{2, 1, 4})},
	{"product of one shape", broadcast(true, []int{2, 3}, []int{2, 3})},
}

func rowNorm(o op.RowNorm, shape ...int) func(*gorgonia.ExprGraph, func(string, ...int) *gorgonia.Node) *gorgonia.Node {
	return func(_ *gorgonia.ExprGraph, leaf func(string, ...int) *gorgonia.Node) *gorgonia.Node {
		c := shape[len(shape)-1]
		args := gorgonia.Nodes{leaf("x", shape...), leaf("w", c)}
		if o.Bias {
			args = append(args, leaf("b", c))
		}
		return must(op.Apply(&op.Take{Shape: shape, From: len(shape)}, must(op.Apply(&o, args...))))
	}
}

func groupNorm(groups int) func(*gorgonia.ExprGraph, func(string, ...int) *gorgonia.Node) *gorgonia.Node {
	return func(_ *gorgonia.ExprGraph, leaf func(string, ...int) *gorgonia.Node) *gorgonia.Node {
		x := leaf("x", 2, 6, 3, 2)
		y := must(op.Apply(&op.GroupNorm{Groups: groups, Eps: 1e-5}, x, leaf("w", 6), leaf("b", 6)))
		return must(op.Apply(&op.Take{Shape: x.Shape(), From: 4}, y))
	}
}

func matMul(transA, transB bool, a, b []int) func(*gorgonia.ExprGraph, func(string, ...int) *gorgonia.Node) *gorgonia.Node {
	return func(_ *gorgonia.ExprGraph, leaf func(string, ...int) *gorgonia.Node) *gorgonia.Node {
		return must(op.Apply(&op.MatMul{Dims: len(a), TransA: transA, TransB: transB}, leaf("a", a...), leaf("b", b...)))
	}
}

func broadcast(mul bool, a, b tensor.Shape) func(*gorgonia.ExprGraph, func(string, ...int) *gorgonia.Node) *gorgonia.Node {
	return func(_ *gorgonia.ExprGraph, leaf func(string, ...int) *gorgonia.Node) *gorgonia.Node {
		return must(op.Apply(&op.Broadcast{Mul: mul, A: a, B: b}, leaf("a", a...), leaf("b", b...)))
	}
}

func TestRowsAndShapesThatDoNotFitAreRefused(t *testing.T) {
	cases := []struct {
		name string
		o    gorgonia.Op
		args []tensor.Shape
		says string
	}{
		{"weights of another width", &op.RowNorm{Dims: 2, RMS: true}, []tensor.Shape{{2, 3}, {4}}, "(2, 3)"},
		{"a row alone", &op.RowNorm{Dims: 1, RMS: true}, []tensor.Shape{{3}, {3}}, "2 dimensions or more"},
		{"groups that do not divide", &op.GroupNorm{Groups: 4}, []tensor.Shape{{1, 6, 2, 2}, {6}, {6}}, "6 channels"},
		{"inner sizes that differ", &op.MatMul{Dims: 2}, []tensor.Shape{{2, 3}, {4, 5}}, "a row of the first has 3 numbers, a column of the second 4"},
		{"batches that differ", &op.MatMul{Dims: 3}, []tensor.Shape{{2, 3, 4}, {3, 4, 5}}, "before the last two"},
		{"sizes beside the axis", &op.Concat{Axis: 0, Dims: 2, Count: 2}, []tensor.Shape{{2, 3}, {2, 4}}, "but for axis 0"},
		{"a slice beyond the end", &op.Slice{Axis: 1, Lo: 2, Hi: 5, Dims: 2}, []tensor.Shape{{2, 4}}, "≤ its size"},
		{"an axis twice", &op.Permute{Axes: []int{0, 0}}, []tensor.Shape{{2, 3}}, "once"},
		{"sizes that are not 1", &op.Broadcast{A: tensor.Shape{2, 3}, B: tensor.Shape{2}}, []tensor.Shape{{2, 3}, {2}}, "equal or 1"},
	}
	for _, c := range cases {
		args := make([]gorgonia.DimSizer, len(c.args))
		for i, s := range c.args {
			args[i] = s
		}
		if s, err := c.o.InferShape(args...); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: got shape %v and error %v, want one that says %q", c.name, s, err, c.says)
		}
	}
}
