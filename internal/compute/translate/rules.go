package translate

import (
	"errors"
	"fmt"

	"github.com/paragon-train/paragon/internal/compute/op"
	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// A rule gives the rewrite of a node; nil: the node stays as it is. An error says why it cannot be
// compiled, and what can.
type rule func(t *translator, n *gorgonia.Node) (*rewrite, error)

// rules has the rule for each type of op that has one.
var rules = map[string]rule{
	"gorgonia.transposeOp":          convolution,
	"*gorgonia.maxPoolOp":           maxPool,
	"*gorgonia.globalAveragePoolOp": globalAveragePool,
	"*gorgonia.upsampleOp":          upsample,
	"*gorgonia.BatchNormOp":         batchNorm,
	"gorgonia.elemBinOp":            scaledBatchNorm,
	"*gorgonia.dropoutOp":           dropout,
	"*gorgonia.softmaxOp":           softmax,
	"gorgonia.elemUnaryOp":          unary,
	"gorgonia.linAlgBinOp":          outerProduct,
	"gorgonia.atOp":                 at,
	"gorgonia.randomOp":             random,
	"*gorgonia.avgPoolOp":           averagePool,
}

// dropout becomes ours, whose masks follow from seed, name and step. gorgonia's gradient divides by
// the probability to drop in place of that to keep.
func dropout(t *translator, n *gorgonia.Node) (*rewrite, error) {
	a := attributesOf(n.Op())
	rate := a.float("probability")
	if a.missing != nil {
		return nil, fmt.Errorf("%w; use nn.Dropout", a.missing)
	}
	if !(rate >= 0 && rate < 1) {
		return nil, fmt.Errorf("gorgonia.Dropout with probability %g, want 0 ≤ probability < 1", rate)
	}
	return &rewrite{from: op.Children(n), build: func(x gorgonia.Nodes) (*gorgonia.Node, error) {
		name := t.name("dropout", n)
		if err := t.registry.Claim(name); err != nil {
			return nil, fmt.Errorf("gorgonia.Dropout: %w; use nn.Dropout, which takes a name", err)
		}
		return op.Apply(&op.Dropout{Rate: rate, Seed: t.registry.Seed, Name: name, Mode: t.registry.Mode}, x[0])
	}}, nil
}

// random is refused: the values come from the clock.
func random(*translator, *gorgonia.Node) (*rewrite, error) {
	return nil, errors.New("gorgonia's random nodes draw different numbers in each run and take no seed: make an input (nn.Input) and fill it before each step " +
		"from a random source of your own, or use nn.Dropout")
}

// softmax along an axis, and its logarithm, are ours.
func softmax(_ *translator, n *gorgonia.Node) (*rewrite, error) {
	a := attributesOf(n.Op())
	axis, isLog := a.int("axis"), a.bool("isLog")
	s := n.Shape()
	if a.missing != nil || axis < -1 || axis >= s.Dims() || s.Dims() == 0 || !isFloat(n) {
		return nil, nil
	}
	if axis == -1 {
		axis = s.Dims() - 1
		if s.IsColVec() {
			// gorgonia takes a column for a vector.
			axis = 0
		}
	}
	return replace(n, &op.Softmax{Axis: axis, Log: isLog}), nil
}

// replace makes n an op of ours over the same arguments.
func replace(n *gorgonia.Node, o gorgonia.Op) *rewrite {
	return &rewrite{from: op.Children(n), build: func(x gorgonia.Nodes) (*gorgonia.Node, error) { return op.Apply(o, x...) }}
}

func isFloat(n *gorgonia.Node) bool {
	return n.Dtype() == tensor.Float32 || n.Dtype() == tensor.Float64
}
