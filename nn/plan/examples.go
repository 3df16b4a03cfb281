package plan

import (
	"fmt"
	"slices"
	"strings"

	"github.com/paragon-train/paragon/nn/op"
	"gorgonia.org/gorgonia"
)

// Examples is what a graph's batch is, and whether it may be short: filled with fewer examples than it has room for.
type Examples struct {
	// Batch is the number of examples that the inputs have room for, their first dimension, or the size of the graph's leaf of weights; 0: there
	// is none, and inputs differ in it.
	Batch int
	// Weights is the leaf of the examples' weights that the graph reads; nil without.
	Weights *gorgonia.Node
	// Whole says why padding would count in the root; nil: it does not, and the batch may be short.
	Whole error

	sizes []int // first dimensions of the inputs
}

// FindExamples looks at the graph of a root, a loss or in inference any node, and of further outputs.
//
// Padding does not count if every way from an input to the root goes through a loss of ours, and no op below adds up over examples; ours
// that do, batch normalisations, leave it out. With a leaf of weights the graph says itself what counts.
func FindExamples(root *gorgonia.Node, outputs gorgonia.Nodes) Examples {
	var e Examples
	reached := make(map[*gorgonia.Node]bool)
	for todo := append(gorgonia.Nodes{root}, outputs...); len(todo) > 0; {
		n := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if !reached[n] {
			reached[n] = true
			todo = append(todo, op.Children(n)...)
		}
	}
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
	if e.Weights == nil && root.Shape().IsScalar() {
		s := examplesSearch{batch: e.Batch, padded: make(map[*gorgonia.Node]bool), seen: make(map[*gorgonia.Node]bool)}
		for _, n := range data {
			s.padded[n] = e.Batch == 0 || n.Shape()[0]%e.Batch == 0
		}
		e.Whole = s.counts(root)
	}
	return e
}

// Check is an error if a batch cannot have n examples.
func (e *Examples) Check(n int) error {
	switch {
	case n < 0:
		return fmt.Errorf("got %d examples, want at least 0", n)
	case n == 0: // counts for nothing, whatever the loss is
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

// examplesSearch looks for a way on which padding counts.
type examplesSearch struct {
	batch  int
	padded map[*gorgonia.Node]bool // has rows of examples; known of nodes that are in it
	seen   map[*gorgonia.Node]bool // below a loss of ours
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

// counts is an error if padding counts in n, which is made of losses.
func (s *examplesSearch) counts(n *gorgonia.Node) error {
	if !s.depends(n) {
		return nil
	}
	switch o := n.Op().(type) {
	case *op.SoftmaxCrossEntropy:
		return s.joins(op.Children(n)[0])
	case *op.MSE:
		rows := op.Children(n)[0].Shape()
		if s.batch == 0 {
			return fmt.Errorf("what a batch is, is not known; nn.ExampleWeights(graph, batch) says it")
		}
		if o.Mode == nil || rows.Dims() == 0 || rows[0]%s.batch != 0 {
			return fmt.Errorf("padding would count in %v of %v, whose rows are not those of examples; %s", o, rows, whatToDo)
		}
		for _, c := range op.Children(n) {
			if err := s.joins(c); err != nil {
				return err
			}
		}
		return nil
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

// joins is an error if n, or what it is made of, is a sum over examples or the largest of them. Ops are told as foreign tells them.
func (s *examplesSearch) joins(n *gorgonia.Node) error {
	if s.seen[n] || !s.depends(n) {
		return nil
	}
	s.seen[n] = true
	switch o := n.Op(); fmt.Sprintf("%T", o) {
	case "*gorgonia.sumOp", "*gorgonia.maxOp", "gorgonia.sumOp", "gorgonia.maxOp":
		axes := strings.FieldsFunc(fmt.Sprint(o), func(r rune) bool { return strings.ContainsRune(" []", r) })
		if len(axes) == 1 || slices.Contains(axes[1:], "0") {
			return fmt.Errorf("padding would count in %v over examples; %s", o, whatToDo)
		}
	}
	for _, c := range op.Children(n) {
		if err := s.joins(c); err != nil {
			return err
		}
	}
	return nil
}
