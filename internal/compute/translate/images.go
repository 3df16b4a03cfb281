package translate

import (
	"errors"
	"fmt"
	"slices"

	"github.com/paragon-train/paragon/internal/compute/op"
	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// convolution finds what gorgonia.Conv2d makes: columns of patches times the filters as a matrix,
// moved back to (N,C,H,W). With a dilation it stays as it is: our convolution has none.
func convolution(_ *translator, n *gorgonia.Node) (*rewrite, error) {
	a := attributesOf(n.Op())
	if !slices.Equal(a.ints("pattern"), []int{0, 3, 1, 2}) {
		return nil, nil
	}
	product := through(n, "gorgonia.transposeOp", "gorgonia.reshapeOp")
	if product == nil || opType(product) != "gorgonia.linAlgBinOp" || fmt.Sprint(product.Op()) != "A × Bᵀ" {
		return nil, nil
	}
	factors := op.Children(product)
	columns, filters := through(factors[0], "gorgonia.reshapeOp"), through(factors[1], "gorgonia.reshapeOp")
	if columns == nil || filters == nil || opType(columns) != "gorgonia.im2colOp" || !isFloat(n) {
		return nil, nil
	}
	x, w := op.Children(columns)[0], filters.Shape()
	c := attributesOf(columns.Op())
	kernel := [2]int{c.int("h"), c.int("w")}
	o := &op.Conv2D{Stride: [2]int{c.int("strideH"), c.int("strideW")}, Pad: [2]int{c.int("padH"), c.int("padW")}}
	dilation := [2]int{c.int("dilationH"), c.int("dilationW")}
	if c.missing != nil || dilation != [2]int{1, 1} || w.Dims() != 4 || kernel != [2]int{w[2], w[3]} {
		return nil, nil
	}
	// Reshapes move nothing; their results must be the shapes that Conv2d gives them.
	y, err := o.InferShape(x.Shape(), w)
	if err != nil || !y.Eq(n.Shape()) || !product.Shape().Eq(tensor.Shape{y[0] * y[2] * y[3], y[1]}) {
		return nil, nil
	}
	return &rewrite{from: gorgonia.Nodes{x, filters}, build: func(x gorgonia.Nodes) (*gorgonia.Node, error) { return op.Apply(o, x...) }}, nil
}

// through goes down from n by its first child, through one op of each type; nil if there is another
// one.
func through(n *gorgonia.Node, types ...string) *gorgonia.Node {
	for _, t := range types {
		if opType(n) != t {
			return nil
		}
		n = op.Children(n)[0]
	}
	return n
}

func maxPool(_ *translator, n *gorgonia.Node) (*rewrite, error) {
	a := attributesOf(n.Op())
	north, south, west, east := a.int("padNorth"), a.int("padSouth"), a.int("padWest"), a.int("padEast")
	o := &op.MaxPool2D{Kernel: [2]int{a.int("h"), a.int("w")}, Stride: [2]int{a.int("strideH"), a.int("strideW")}, Pad: [2]int{north, west}}
	if a.missing != nil {
		return nil, nil
	}
	if north != south || west != east {
		return nil, errors.New("gorgonia.MaxPool2D pads the top by what was given for the bottom, and the left by what was given for the right: " +
			"use pads that are equal, or nn.MaxPool2D")
	}
	x := op.Children(n)[0]
	y, err := o.InferShape(x.Shape())
	if err != nil || !y.Eq(n.Shape()) || o.Kernel[0]*o.Kernel[1] > 256 || !isFloat(n) {
		// Such a case is a pad of more than half of the kernel.
		return nil, nil
	}
	return replace(n, o), nil
}

// averagePool is refused: gorgonia divides each sum by the width of the image, and its gradient is
// not that of anything.
func averagePool(*translator, *gorgonia.Node) (*rewrite, error) {
	return nil, errors.New("gorgonia.AveragePool2D divides by the width of the image in place of the size of the window, and its gradient is wrong: use nn.AvgPool2D")
}

// globalAveragePool keeps the two dimensions of size 1; gorgonia cannot differentiate its own.
func globalAveragePool(_ *translator, n *gorgonia.Node) (*rewrite, error) {
	return &rewrite{from: op.Children(n), build: func(x gorgonia.Nodes) (*gorgonia.Node, error) {
		y, err := op.Apply(&op.GlobalAvgPool2D{}, x...)
		if err != nil {
			return nil, err
		}
		return op.Apply(&op.Reshape{From: y.Shape(), To: n.Shape()}, y)
	}}, nil
}

func upsample(_ *translator, n *gorgonia.Node) (*rewrite, error) {
	a := attributesOf(n.Op())
	o := &op.Upsample2D{Scale: a.int("stride") + 1}
	if a.missing != nil || !isFloat(n) {
		return nil, nil
	}
	return replace(n, o), nil
}
