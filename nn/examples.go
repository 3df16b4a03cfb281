package nn

import (
	"fmt"
	"slices"

	"github.com/paragon-train/paragon/internal/compute/op"
	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// ExampleWeights makes an input of shape (batch) that a program fills before each run: with 1 for
// each example and 0 for the padding of a short batch (see Program.SetExamples). A loss that is not
// of this package averages with it:
//
//	weights := nn.ExampleWeights(g, batch)
//	loss := Σ losses·weights / Σ weights // losses of shape (batch)
//
// It also defines the size of a batch when inputs differ in their first dimension. A graph has one
// such input, named example_weights: a second call with the same batch returns the same node, and
// with another batch it panics. gorgonia's own machines, which do not fill it, read ones.
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

// Batch is the most examples of a run: the first dimension of the inputs, or of ExampleWeights. 0:
// not known, because inputs differ in it and there are no ExampleWeights, or because Config.OwnMask
// is set.
func (p *Program) Batch() int { return p.examples.Batch }

// SetExamples says that later runs have n examples, the first ones of the batch. The rest of the
// inputs is padding, whatever it holds: numbers that are infinite or none, labels and ids that are
// out of range. Losses of this package, gradients, and statistics of batch normalisations leave it
// out; other losses do so with ExampleWeights. In SoftmaxCrossEntropy a label of −1 among the
// examples leaves out a row, too. Without SetExamples the batch is full.
//
// In a run the rows of padding hold the first example's numbers, so that what they held reaches no
// arithmetic; then they are as before. Rows are those of inputs whose first dimension is a multiple
// of Batch, unless they are no examples by what the graph does with them. With Config.OwnMask there
// is no padding but what the graph itself leaves out.
//
// A run without examples computes nothing: loss and gradients are zero, and no statistics change. n
// above Batch, or below it in a graph in which padding would count, is an error and changes
// nothing.
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

// CheckExamples returns the error of SetExamples and sets nothing.
func (p *Program) CheckExamples(n int) error { return p.examples.Check(n) }

// fillWeights fills the examples' weights before each run, because another program may share their
// memory.
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

// modeOf returns the run-time settings that the ops of a node's graph share.
func modeOf(n *gorgonia.Node) *op.Mode { return op.RegistryOf(n.Graph()).Mode }

// batchMode is modeOf for a loss over nodes; nil if they depend only on parameters and constants,
// whose rows are not examples.
func batchMode(nodes ...*gorgonia.Node) *op.Mode {
	// A constant that no op has read yet has no graph.
	nodes = slices.DeleteFunc(slices.Clone(nodes), func(n *gorgonia.Node) bool { return n.Graph() == nil })
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
