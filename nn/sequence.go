package nn

import (
	"fmt"
	"slices"

	"github.com/paragon-train/paragon/internal/compute/op"
	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// TiedLinear is y = x·Wᵀ, from x (...,C) to (...,V), where W (V,C) is a parameter that the graph has
// already: that of an Embedding called name has the name "name.weight". Language models compute
// their logits so ("tied" embeddings, Press and Wolf 2017): both gradients of W are added, the
// lookup's rows to the dense part.
func TiedLinear(x *gorgonia.Node, weight string) *gorgonia.Node {
	layer := fmt.Sprintf("TiedLinear %q", weight)
	w := parameterOf(layer, x, weight)
	rows := rowsOf(layer, x)
	y := apply(layer, &op.Linear{}, rows, w)
	s := x.Shape().Clone()
	s[len(s)-1] = w.Shape()[0]
	return shaped(layer, y, s)
}

// TiedCrossEntropy is SequenceCrossEntropy(TiedLinear(x, weight), labels, cfg), head and loss in
// one: logits of all positions are never in memory together, which with a large vocabulary is most
// of what a step needs, and in training both gradients are computed with the loss. x is (...,C) and
// the labels have x's shape without C. Weights of classes are refused. A program for evaluations
// that gives logits has TiedLinear. A GPU cannot take this loss.
func TiedCrossEntropy(x *gorgonia.Node, weight string, labels *gorgonia.Node, cfg CrossEntropyConfig) *gorgonia.Node {
	layer := fmt.Sprintf("TiedCrossEntropy %q", weight)
	if cfg.ClassWeights != nil {
		panic(fmt.Sprintf("nn: %s: got weights of %d classes, want none; SequenceCrossEntropy(TiedLinear(...)) takes them", layer, len(cfg.ClassWeights)))
	}
	w := parameterOf(layer, x, weight)
	s := x.Shape()
	checkLabels(layer, s, labels)
	return apply(layer, &op.LinearCrossEntropy{Smoothing: cfg.Smoothing, Mode: modeOf(x)}, rowsOf(layer, x), w, flatLabels(layer, labels))
}

// SequenceCrossEntropy is CrossEntropy of sequences: logits (B,T,V), or of more dimensions, and
// labels of the same shape without V, usually (B,T). It is the mean over all labels that are not
// −1, of all examples together, a scalar: that is what Program.LossWeight counts, so steps of
// several workers, and of several runs that are added up, weigh each label alike.
func SequenceCrossEntropy(logits, labels *gorgonia.Node, cfg CrossEntropyConfig) *gorgonia.Node {
	checkLabels("SequenceCrossEntropy", logits.Shape(), labels)
	return CrossEntropy(rowsOf("SequenceCrossEntropy", logits), flatLabels("SequenceCrossEntropy", labels), cfg)
}

// checkLabels panics unless labels have the shape s without its last dimension.
func checkLabels(layer string, s tensor.Shape, labels *gorgonia.Node) {
	if s.Dims() < 2 || !slices.Equal(s[:s.Dims()-1], labels.Shape()) {
		panic(fmt.Sprintf("nn: %s: x is %v and the labels are %v, want a label for each row, such as (B,T,V) and (B,T)", layer, s, labels.Shape()))
	}
}

// parameterOf finds a parameter of x's graph, a matrix as wide as x.
func parameterOf(layer string, x *gorgonia.Node, name string) *gorgonia.Node {
	for _, n := range Parameters(x.Graph()) {
		if n.Name() != name {
			continue
		}
		if s := n.Shape(); s.Dims() != 2 || x.Shape().Dims() < 2 || s[1] != x.Shape()[x.Shape().Dims()-1] {
			panic(fmt.Sprintf("nn: %s: x is %v and the parameter %v, want (...,C) and (V,C)", layer, x.Shape(), s))
		}
		return n
	}
	panic(fmt.Sprintf("nn: %s: the graph has no parameter of this name; make the Embedding first, whose parameter is its name with .weight", layer))
}

// rowsOf joins all dimensions of x but the last.
func rowsOf(layer string, x *gorgonia.Node) *gorgonia.Node {
	s := x.Shape()
	return shaped(layer, x, tensor.Shape{s.TotalSize() / s[s.Dims()-1], s[s.Dims()-1]})
}

// flatLabels makes labels one dimension.
func flatLabels(layer string, labels *gorgonia.Node) *gorgonia.Node {
	return shaped(layer, labels, tensor.Shape{labels.Shape().TotalSize()})
}

// shaped is x in another shape; x itself where it has it.
func shaped(layer string, x *gorgonia.Node, s tensor.Shape) *gorgonia.Node {
	if slices.Equal(x.Shape(), s) {
		return x
	}
	return apply(layer, &op.Reshape{From: x.Shape(), To: s}, x)
}

// PositionsConfig describes learned positions.
type PositionsConfig struct {
	// Rows is how many positions have a row: the longest sequence.
	Rows int
	// First is the position of a sequence's first element.
	First int
	// Firsts (B), integers such as IDs, are added to First for each example: for sampling, in
	// programs for inference. nil: none.
	Firsts *gorgonia.Node
	// Init is that of the weight; nil is Normal(0.02).
	Init Init
}

// Positions adds to each position of x (B,T,C) its learned row (learned absolute positions, as
// GPT-2's wpe): y[b,t] = x[b,t] + P[First+t]. Parameter: name.weight (Rows,C).
func Positions(x *gorgonia.Node, name string, cfg PositionsConfig) *gorgonia.Node {
	layer := fmt.Sprintf("Positions %q", name)
	want(layer, x, 3, "B,T,C")
	if t := x.Shape()[1]; cfg.First < 0 || cfg.First+t > cfg.Rows {
		panic(fmt.Sprintf("nn: %s: sequences of %d from position %d on, want at most the %d positions that there are", layer, t, cfg.First, cfg.Rows))
	}
	if cfg.Init == nil {
		cfg.Init = Normal(0.02)
	}
	p := newParameter(x, name+".weight", cfg.Init, cfg.Rows, x.Shape()[2])
	if cfg.Firsts != nil {
		return apply(layer, &op.Positions{First: cfg.First, Firsts: true}, x, p, cfg.Firsts)
	}
	return apply(layer, &op.Positions{First: cfg.First}, x, p)
}
