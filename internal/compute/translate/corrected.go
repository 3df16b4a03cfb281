package translate

import (
	"fmt"
	"math"

	"github.com/paragon-train/paragon/internal/compute/op"
	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// A corrected op is one of gorgonia's of one argument with another gradient.
type corrected struct {
	gorgonia.Op
	gradient func(x, y, dy *gorgonia.Node) (*gorgonia.Node, error)
}

// OverwritesInput is -1: only Do is gorgonia's.
func (corrected) OverwritesInput() int { return -1 }

func (corrected) DiffWRT(int) []bool { return []bool{true} }

func (o corrected) SymDiff(in gorgonia.Nodes, y, dy *gorgonia.Node) (gorgonia.Nodes, error) {
	dx, err := o.gradient(in[0], y, dy)
	return gorgonia.Nodes{dx}, err
}

// activations are gorgonia's elementwise functions that are ours, too: with a gradient in one pass
// and, on the CPU, in vectors.
var activations = map[string]op.Function{"sigmoid": op.Sigmoid, "tanh": op.Tanh, "softplus": op.Softplus}

// unary replaces the elementwise functions that are ours, and corrects those whose gradients are
// wrong.
func unary(_ *translator, n *gorgonia.Node) (*rewrite, error) {
	text := fmt.Sprint(n.Op())
	if f, ok := activations[text]; ok && n.Shape().Dims() > 0 && isFloat(n) {
		return replace(n, &op.Activation{Function: f}), nil
	}
	switch text {
	case "invSqrt":
		return replace(n, corrected{n.Op(), inverseSqrtGradient}), nil
	case "log2":
		return replace(n, corrected{n.Op(), log2Gradient}), nil
	}
	return nil, nil
}

// inverseSqrtGradient is dx = −y³/2·dy. gorgonia has −dy/(2·y³).
func inverseSqrtGradient(_, y, dy *gorgonia.Node) (*gorgonia.Node, error) {
	cube, err := gorgonia.Cube(y)
	if err != nil {
		return nil, err
	}
	half, err := gorgonia.HadamardProd(number(y, "half", -0.5), cube)
	if err != nil {
		return nil, err
	}
	return gorgonia.HadamardProd(half, dy)
}

// log2Gradient is dx = dy/(x·ln 2). gorgonia has dy·ln 2/x.
func log2Gradient(x, _, dy *gorgonia.Node) (*gorgonia.Node, error) {
	scaled, err := gorgonia.HadamardProd(number(x, "ln2", math.Ln2), x)
	if err != nil {
		return nil, err
	}
	return gorgonia.HadamardDiv(dy, scaled)
}

// number is a constant of the type of like's numbers.
func number(like *gorgonia.Node, name string, x float64) *gorgonia.Node {
	dt := like.Dtype()
	named := gorgonia.WithName(fmt.Sprintf("paragon.%s %v", name, dt))
	if dt == tensor.Float32 {
		return gorgonia.NewConstant(float32(x), named)
	}
	return gorgonia.NewConstant(x, named)
}

// outerProduct becomes a product of a column and a row: gorgonia cannot differentiate its own.
func outerProduct(_ *translator, n *gorgonia.Node) (*rewrite, error) {
	children := op.Children(n)
	if fmt.Sprint(n.Op()) != "a ⊗ b" {
		return nil, nil
	}
	return &rewrite{from: children, build: func(x gorgonia.Nodes) (*gorgonia.Node, error) {
		a, err := gorgonia.Reshape(x[0], tensor.Shape{x[0].Shape().TotalSize(), 1})
		if err != nil {
			return nil, err
		}
		b, err := gorgonia.Reshape(x[1], tensor.Shape{1, x[1].Shape().TotalSize()})
		if err != nil {
			return nil, err
		}
		return gorgonia.Mul(a, b)
	}}, nil
}

// at becomes a slice: no gradient flows through gorgonia's At.
func at(_ *translator, n *gorgonia.Node) (*rewrite, error) {
	a := attributesOf(n.Op())
	coordinates := a.ints("coordinates")
	if a.missing != nil || len(coordinates) != op.Children(n)[0].Shape().Dims() {
		return nil, fmt.Errorf("no gradient flows through gorgonia.At; use gorgonia.Slice")
	}
	return &rewrite{from: op.Children(n), build: func(x gorgonia.Nodes) (*gorgonia.Node, error) {
		slices := make([]tensor.Slice, len(coordinates))
		for i, c := range coordinates {
			slices[i] = gorgonia.S(c)
		}
		return gorgonia.Slice(x[0], slices...)
	}}, nil
}
