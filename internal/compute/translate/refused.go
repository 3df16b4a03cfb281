package translate

import (
	"errors"
	"fmt"

	"github.com/paragon-train/paragon/internal/compute/op"
	"gorgonia.org/gorgonia"
)

// statements is an error if the graph has statements that do something when gorgonia's machines run
// it.
func (t *translator) statements() error {
	for _, n := range t.graph.AllNodes() {
		if opType(n) == "gorgonia.letOp" {
			return fmt.Errorf("translate: node %q: gorgonia.Set gives a node a new value while the graph runs, which a compiled program does not do: "+
				"write to Program.Params or Program.Input between steps", n.Name())
		}
	}
	return nil
}

// keepsMode returns an error if n's op is not ours and keeps its mode, training or evaluation, in
// itself: programs for both share one graph's ops, and may run in turns.
func keepsMode(n *gorgonia.Node) error {
	_, ours := n.Op().(op.Stateful)
	if _, switched := n.Op().(gorgonia.TrainModeOp); !switched || ours {
		return nil
	}
	return fmt.Errorf("%v is switched between training and evaluation by SetTraining, which a compiled program does not call: use nn.Dropout or nn.BatchNorm2D, or give "+
		"the op an input that says which it is", n.Op())
}

// wrongGradient has the types of ops whose value is right and whose gradient is not.
var wrongGradient = map[string]func(n *gorgonia.Node) error{
	"gorgonia.diagFlatOp": func(*gorgonia.Node) error {
		return errors.New("no gradient flows through gorgonia.DiagFlat: use a constant matrix of zeros and ones and gorgonia.HadamardProd")
	},
	"*gorgonia.byIndicesOp": func(n *gorgonia.Node) error {
		if a := attributesOf(n.Op()); a.int("axis") == 0 && a.missing == nil {
			return nil
		}
		return errors.New("the gradient of gorgonia.ByIndices is wrong along other axes than 0: transpose the argument and the result and take axis 0, or use nn.Embedding")
	},
	"*gorgonia.ctcLossOp": ctcLoss,
}

// ctcLoss lets through what gorgonia computes rightly: the sum over the batch, of LogSoftMax along
// the classes. Its gradient is the one in the arguments of that LogSoftMax, which the LogSoftMax
// leaves as it is.
func ctcLoss(n *gorgonia.Node) error {
	const reductionSum = uint64(gorgonia.ReductionSum)
	x := op.Children(n)[0]
	a := attributesOf(n.Op())
	if reduction := a.uint("reduction"); a.missing != nil || reduction != reductionSum {
		return errors.New("the gradient of gorgonia.CTCLoss with ReductionMean is wrong: use ReductionSum, over LogSoftMax along the classes, and divide")
	}
	if opType(x) == "*gorgonia.softmaxOp" {
		s := attributesOf(x.Op())
		axis, isLog := s.int("axis"), s.bool("isLog")
		if last := x.Shape().Dims() - 1; s.missing == nil && isLog && (axis == last || axis == -1) {
			return nil
		}
	}
	return errors.New("the gradient of gorgonia.CTCLoss is right for probabilities from gorgonia.LogSoftMax along the classes (the last axis) alone: give it those")
}

// gradients is an error if a gradient has to flow through an op whose gradient is wrong.
func (t *translator) gradients(reached gorgonia.Nodes) error {
	moves := make(map[*gorgonia.Node]bool)
	for _, l := range op.Leaves(t.graph) {
		moves[l.Node] = l.Role == op.RoleParameter
	}
	for _, n := range reached {
		children := op.Children(n)
		for _, c := range children {
			moves[n] = moves[n] || moves[c]
		}
		if _, ok := n.Op().(gorgonia.SDOp); moves[n] && !ok && len(children) > 0 && rules[opType(n)] == nil {
			return fmt.Errorf("translate: node %q: %v has no gradient (it is no gorgonia.SDOp), and the loss depends on a parameter through it", n.Name(), n.Op())
		}
		if f := wrongGradient[opType(n)]; f != nil && len(children) > 0 && moves[children[0]] {
			if err := f(n); err != nil {
				return fmt.Errorf("translate: node %q: %w", n.Name(), err)
			}
		}
	}
	return nil
}
