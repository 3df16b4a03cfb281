package plan

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/paragon-train/paragon/internal/compute/op"
	"gorgonia.org/gorgonia"
)

// Examples says how many examples a graph's batch has room for, and whether it may be short: filled
// with fewer.
type Examples struct {
	// Batch is the number of examples that the inputs have room for, their first dimension, or
	// the size of the graph's leaf of weights; 0: there is none, and inputs differ in it.
	Batch int
	// Weights is the leaf of the examples' weights that the graph reads; nil without.
	Weights *gorgonia.Node
	// Whole says why padding would count in the root; nil: it does not, and the batch may be
	// short.
	Whole error
	// Rows are the inputs whose rows are those of examples: see Padding.
	Rows gorgonia.Nodes

	sizes []int // first dimensions of the inputs
}

// FindExamples looks at the graph of a root, a loss or in inference any node, and of further
// outputs.
//
// Padding does not count if every path from an input to the root goes through a loss of ours, and
// no op below mixes examples; in training batch normalisations of ours do, and leave it out. Where
// the root reads the leaf of weights, the graph says itself what counts.
func FindExamples(root *gorgonia.Node, outputs gorgonia.Nodes, inference bool) Examples {
	var e Examples
	below := reachable(gorgonia.Nodes{root})
	reached := reachable(append(gorgonia.Nodes{root}, outputs...))
	var data gorgonia.Nodes
	for _, l := range op.Leaves(root.Graph()) {
		switch {
		case l.Role == op.RoleWeights:
			e.Batch = l.Node.Shape()[0]
			if reached[l.Node] {
				e.Weights = l.Node
			}
		case !reached[l.Node]:
		case l.Role != op.RoleParameter && l.Node.Shape().Dims() > 0:
			data = append(data, l.Node)
			e.sizes = append(e.sizes, l.Node.Shape()[0])
		}
	}
	slices.Sort(e.sizes)
	e.sizes = slices.Compact(e.sizes)
	if e.Batch == 0 && len(e.sizes) == 1 {
		e.Batch = e.sizes[0]
	}
	e.Rows = rowsOfExamples(e.Batch, append(gorgonia.Nodes{root}, outputs...))
	if !below[e.Weights] && root.Shape().IsScalar() {
		s := examplesSearch{batch: e.Batch, inference: inference, padded: make(map[*gorgonia.Node]bool), fine: make(map[*gorgonia.Node]bool), seen: make(map[*gorgonia.Node]bool)}
		for _, n := range data {
			s.padded[n] = e.Batch == 0 || n.Shape()[0]%e.Batch == 0
		}
		e.Whole = s.counts(root)
	}
	return e
}

// reachable is the set of nodes that the given ones are computed from, themselves included.
func reachable(nodes gorgonia.Nodes) map[*gorgonia.Node]bool {
	reached := make(map[*gorgonia.Node]bool)
	for todo := slices.Clone(nodes); len(todo) > 0; {
		n := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if !reached[n] {
			reached[n] = true
			todo = append(todo, op.Children(n)...)
		}
	}
	return reached
}

// Check is an error if a batch cannot have n examples.
func (e *Examples) Check(n int) error {
	switch {
	case n < 0:
		return fmt.Errorf("got %d examples, want at least 0", n)
	case n == 0:
		// The row counts for nothing, whatever the loss is.
		return nil
	case e.Batch > 0 && n > e.Batch:
		return fmt.Errorf("got %d examples, want at most %d, the size of the batch", n, e.Batch)
	case e.Whole == nil || n == e.Batch || e.Batch == 0 && slices.Contains(e.sizes, n):
		return nil
	case e.Batch == 0:
		return fmt.Errorf("got %d examples, and the inputs have first dimensions %v: %w", n, e.sizes, e.Whole)
	}
	return fmt.Errorf("got %d examples in a batch of %d: %w", n, e.Batch, e.Whole)
}

// Rows is how many of some rows belong to the first n examples: op.Mode's rule.
func (p *Plan) Rows(rows, n int) int {
	return (&op.Mode{Batch: p.Batch, Examples: n}).Rows(rows)
}

// examplesSearch looks for a path on which padding counts.
type examplesSearch struct {
	// batch is 0 if it is not known.
	batch int

	inference bool

	// padded says that it has rows of examples, for the nodes of which that is known.
	padded map[*gorgonia.Node]bool

	// fine has the nodes in which counts found no error.
	fine map[*gorgonia.Node]bool

	// seen has the nodes that joins has visited.
	seen map[*gorgonia.Node]bool
}

// depends is true of nodes that are made of rows of examples.
func (s *examplesSearch) depends(n *gorgonia.Node) bool {
	d, known := s.padded[n]
	if known {
		return d
	}
	s.padded[n] = false
	for _, c := range op.Children(n) {
		if s.depends(c) {
			d = true
		}
	}
	s.padded[n] = d
	return d
}

const whatToDo = "only whole batches are taken: use a loss of nn, or average over examples by nn.ExampleWeights, or set Config.OwnMask if the graph leaves padding out itself"

const unknownBatch = "the batch size is not known, as inputs differ in their first dimension; nn.ExampleWeights(graph, batch) says it"

// counts is an error if padding counts in n, which is made of losses.
func (s *examplesSearch) counts(n *gorgonia.Node) error {
	if s.fine[n] || !s.depends(n) {
		return nil
	}
	err := s.countsIn(n)
	s.fine[n] = err == nil
	return err
}

func (s *examplesSearch) countsIn(n *gorgonia.Node) error {
	switch o := n.Op().(type) {
	case *op.SoftmaxCrossEntropy, *op.LinearCrossEntropy:
		rows := op.Children(n)[0].Shape()
		switch {
		case s.batch == 0:
			return errors.New(unknownBatch)
		case rows[0]%s.batch != 0:
			return fmt.Errorf("padding would count in %v of %v, whose rows are not those of examples; %s", o, rows, whatToDo)
		}
		return s.joins(op.Children(n)[0])
	case *op.SoftCrossEntropy:
		return s.countsInRows(n, o.Mode)
	case *op.BinaryCrossEntropy:
		return s.countsInRows(n, o.Mode)
	case *op.MSE:
		return s.countsInRows(n, o.Mode)
	}
	children := op.Children(n)
	if len(children) == 0 {
		return fmt.Errorf("padding of %q would count in the loss; %s", n.Name(), whatToDo)
	}
	for _, c := range children {
		if err := s.counts(c); err != nil {
			return err
		}
	}
	return nil
}

// countsInRows is counts of a loss of ours over arguments whose rows are all those of examples.
func (s *examplesSearch) countsInRows(n *gorgonia.Node, mode *op.Mode) error {
	rows := op.Children(n)[0].Shape()
	if s.batch == 0 {
		return errors.New(unknownBatch)
	}
	if mode == nil || rows.Dims() == 0 || rows[0]%s.batch != 0 {
		return fmt.Errorf("padding would count in %v of %v, whose rows are not those of examples; %s", n.Op(), rows, whatToDo)
	}
	for _, c := range op.Children(n) {
		if err := s.joins(c); err != nil {
			return err
		}
	}
	return nil
}

// joins is an error if n, or what it is made of, mixes examples. gorgonia's types of ops are not
// exported: they are recognised by the type's name and the op's text.
func (s *examplesSearch) joins(n *gorgonia.Node) error {
	if s.seen[n] || !s.depends(n) {
		return nil
	}
	s.seen[n] = true
	children := op.Children(n)
	if o, ok := n.Op().(*op.BatchNorm2D); ok && !s.inference {
		rows := children[0].Shape()
		switch {
		case s.batch == 0:
			return fmt.Errorf("padding would count in the statistics of %v: %s", o, unknownBatch)
		case rows[0]%s.batch != 0:
			return fmt.Errorf("padding would count in the statistics of %v of %v, whose rows are not those of examples; %s", o, rows, whatToDo)
		}
	}
	if s.mixes(n, children) {
		return fmt.Errorf("padding would count in %v over examples; %s", n.Op(), whatToDo)
	}
	for _, c := range children {
		if err := s.joins(c); err != nil {
			return err
		}
	}
	return nil
}

// mixes reports whether n's op makes numbers of several examples, or puts their rows in another
// order than one example after the other.
func (s *examplesSearch) mixes(n *gorgonia.Node, children gorgonia.Nodes) bool {
	if o, ok := n.Op().(*op.Softmax); ok {
		return o.Axis == 0
	}
	for i, c := range children {
		if keeps, ok := shapeKeepsRows(n, i); ok && !keeps && s.depends(c) {
			return true
		}
	}
	text := fmt.Sprint(n.Op())
	switch strings.TrimPrefix(fmt.Sprintf("%T", n.Op()), "*") {
	case "gorgonia.sumOp", "gorgonia.maxOp":
		axes := strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(" []", r) })
		return len(axes) == 1 || slices.Contains(axes[1:], "0")
	case "gorgonia.concatOp":
		return text == "Concat(axis=0)"
	case "gorgonia.linAlgBinOp":
		// Each example is combined with each other. A batched product, of 3 dimensions, is of one
		// example each.
		return n.Shape().Dims() < 3 && s.depends(children[0]) && s.depends(children[1])
	}
	return false
}
