package nn

import (
	"fmt"
	"slices"

	"github.com/paragon-train/paragon/internal/compute/op"
	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// ExampleWeights makes the input of the examples' weights, of shape (batch): a program fills it before each run, with 1 for each example
// that is there and 0 for the rest of a short batch (see Program.SetExamples). A loss that is not of this package averages by it:
//
//	weights := nn.ExampleWeights(g, batch)
//	loss := Σ losses·weights / Σ weights // losses of shape (batch)
//
// It also says how large a batch is, where inputs differ in their first dimension. A graph has one such input, named example_weights; asked
// again for the same batch, it is the same node, and for another one it panics. gorgonia's own machines, which do not fill it, see ones.
func ExampleWeights(g *gorgonia.ExprGraph, batch int) *gorgonia.Node {
	const name = "example_weights"
	for _, l := range op.Leaves(g) {
		if l.Role != op.RoleWeights {
			continue
		}
		if size := l.Node.Shape()[0]; size != batch {
			panic(fmt.Sprintf("nn: ExampleWeights: got a batch of %d, the graph has weights for %d", batch, size))
		}
		return l.Node
	}
	r := op.RegistryOf(g)
	n := inputLeaf(g, "ExampleWeights", r.Dtype, op.RoleWeights, name, []int{batch})
	ones := tensor.Ones(r.Dtype, batch)
	if err := gorgonia.Let(n, ones); err != nil {
		panic(fmt.Sprintf("nn: ExampleWeights: %v", err))
	}
	return n
}

// Batch is the number of examples that a run has room for: the first dimension of the inputs, or of ExampleWeights. 0: it is not known, as inputs
// differ in it and there are no ExampleWeights, or Config.OwnMask is set.
func (p *Program) Batch() int { return p.examples.Batch }

// SetExamples says that later runs have n examples, the first ones of the batch. The rest of the inputs is padding, finite numbers that have no
// part in losses of this package, in gradients, and in the statistics of batch normalisations; in other losses by ExampleWeights. In
// SoftmaxCrossEntropy a label of −1 leaves out a row besides. Without SetExamples the batch is full.
//
// A run without examples has gradients of zero and moves no statistics. It is an error, and changes nothing, if n is more than Batch, or less in a graph
// in which padding would count.
func (p *Program) SetExamples(n int) error {
	if p.executor == nil {
		return errClosed
	}
	if err := p.examples.Check(n); err != nil {
		return fmt.Errorf("nn: set examples: %w", err)
	}
	p.executor.SetExamples(n)
	p.there = n
	p.fillWeights()
	return nil
}

// CheckExamples is the error of SetExamples, without setting anything.
func (p *Program) CheckExamples(n int) error { return p.examples.Check(n) }

// fillWeights makes the examples' weights those of the examples that are there: another program may have the same memory.
func (p *Program) fillWeights() {
	for i, v := range p.plan.Inputs {
		if v.Node != p.examples.Weights || v.Node == nil {
			continue
		}
		weights := p.host.Inputs[i].Data.([]float32)
		for k := range weights {
			weights[k] = 0
			if k < p.there {
				weights[k] = 1
			}
		}
	}
}

// modeOf is what a node's graph agrees on when it runs.
func modeOf(n *gorgonia.Node) *op.Mode { return op.RegistryOf(n.Graph()).Mode }

// batchMode is modeOf for a loss of some nodes; nil if they are made of parameters and constants alone, whose rows are no examples.
func batchMode(nodes ...*gorgonia.Node) *op.Mode {
	nodes = slices.DeleteFunc(slices.Clone(nodes), func(n *gorgonia.Node) bool { return n.Graph() == nil }) // a constant that no op has read yet
	if len(nodes) == 0 {
		return nil
	}
	roles := make(map[*gorgonia.Node]op.Role)
	for _, l := range op.Leaves(nodes[0].Graph()) {
		roles[l.Node] = l.Role
	}
	for n := range reachable(nodes) {
		if role, leaf := roles[n]; leaf && role != op.RoleParameter {
			return modeOf(n)
		}
	}
	return nil
}
