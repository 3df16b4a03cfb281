package plan

import (
	"fmt"
	"slices"
	"strings"

	"github.com/paragon-train/paragon/internal/compute/op"
	"gorgonia.org/gorgonia"
)

// A Padding is the rows of inputs beyond the examples of a short batch. In a run they hold the
// first example's numbers, row by row: so no op meets numbers that no example has, and what padding
// holds reaches no arithmetic. Zeros would not do: ops of gorgonia's such as a logarithm have
// infinite derivatives there, and 0·∞ in a gradient is no number. After the run the rows are as
// they were.
//
// It belongs to one program or runner, and fills and restores in turn. A whole batch costs nothing.
type Padding struct {
	batch  int
	inputs []paddedInput

	// from is the first row of an example that is padding; batch: there is none.
	from int
}

// A paddedInput is the memory of an input whose rows are those of examples.
type paddedInput interface {
	fill(n, batch int)
	restore(n, batch int)
}

// NewPadding is for inputs whose memory is given, slices of numbers each with some rows for each of
// batch examples; a batch of 0 has no padding.
func NewPadding(batch int, inputs []any) *Padding {
	p := &Padding{batch: batch, from: batch}
	for _, m := range inputs {
		switch m := m.(type) {
		case []float32:
			p.inputs = append(p.inputs, &paddedRows[float32]{memory: m})
		case []float64:
			p.inputs = append(p.inputs, &paddedRows[float64]{memory: m})
		case []int32:
			p.inputs = append(p.inputs, &paddedRows[int32]{memory: m})
		case []int64:
			p.inputs = append(p.inputs, &paddedRows[int64]{memory: m})
		case []int:
			p.inputs = append(p.inputs, &paddedRows[int]{memory: m})
		case []bool:
			p.inputs = append(p.inputs, &paddedRows[bool]{memory: m})
		}
	}
	return p
}

// Padding is that of a program with this plan and memory.
func (p *Plan) Padding(host *Host, e *Examples) *Padding {
	var inputs []any
	for i, v := range p.Inputs {
		if slices.Contains(e.Rows, v.Node) {
			inputs = append(inputs, host.Inputs[i].Data)
		}
	}
	return NewPadding(p.Batch, inputs)
}

// Fill gives the padding of a batch of n examples the first example's numbers, or zeros if there is
// no example.
func (p *Padding) Fill(n int) {
	if p.from = min(n, p.batch); p.from == p.batch {
		return
	}
	for _, in := range p.inputs {
		in.fill(p.from, p.batch)
	}
}

// Restore gives the padding back what it held before Fill.
func (p *Padding) Restore() {
	if p.from == p.batch {
		return
	}
	for _, in := range p.inputs {
		in.restore(p.from, p.batch)
	}
	p.from = p.batch
}

type paddedRows[T any] struct {
	memory []T

	// saved is what the padding holds, during a run. Its memory is used again.
	saved []T
}

func (r *paddedRows[T]) fill(n, batch int) {
	// size is that of an example.
	size := len(r.memory) / batch
	rest := r.memory[size*n:]
	r.saved = append(r.saved[:0], rest...)
	if n == 0 {
		clear(rest)
		return
	}
	for len(rest) > 0 {
		rest = rest[copy(rest, r.memory[:size]):]
	}
}

func (r *paddedRows[T]) restore(n, batch int) {
	copy(r.memory[len(r.memory)/batch*n:], r.saved)
}

// rowsOfExamples lists the inputs that a graph's roots are computed from and whose rows are those
// of examples: their number is a multiple of the batch, and the ops between input and root keep
// them in order. An input that is reshaped so that its rows are no longer those of examples, such
// as a number for each class, or that is the second argument of a matrix product, is none.
func rowsOfExamples(batch int, roots gorgonia.Nodes) gorgonia.Nodes {
	if batch == 0 || len(roots) == 0 {
		return nil
	}
	inputs := make(map[*gorgonia.Node]bool)
	for _, l := range op.Leaves(roots[0].Graph()) {
		if l.Role == op.RoleInput || l.Role == op.RoleLabels {
			inputs[l.Node] = true
		}
	}
	multiple := func(n *gorgonia.Node) bool { return n.Shape().Dims() > 0 && n.Shape()[0]%batch == 0 }
	var found gorgonia.Nodes
	seen := make(map[*gorgonia.Node]bool)
	for todo := slices.Clone(roots); len(todo) > 0; {
		n := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if seen[n] {
			continue
		}
		seen[n] = true
		if inputs[n] && multiple(n) {
			found = append(found, n)
		}
		for i, c := range op.Children(n) {
			if keepsRows(n, i, multiple) {
				todo = append(todo, c)
			}
		}
	}
	return found
}

// keepsRows reports whether rows of argument i of node n, if they are those of examples, are so in
// n, too. gorgonia's types of ops are not exported: they are recognised by the type's name.
func keepsRows(n *gorgonia.Node, i int, multiple func(n *gorgonia.Node) bool) bool {
	switch o := n.Op().(type) {
	case *op.Conv2D, *op.ConvTranspose2D, *op.Linear, *op.BatchNorm2D, *op.BiasAdd, *op.ClassToken, *op.RowNorm, *op.GroupNorm:
		return i == 0
	case *op.Positions:
		return i != 1
	case *op.Embedding:
		return i == 1
	case *op.Reshape:
		return multiple(n)
	case *op.Recurrent:
		bias, _, _, _ := o.Places()
		return i != 1 && i != bias
	case *op.Attention:
		// A bias may be that of all examples.
		_, _, bias := o.Places()
		return i != bias || op.Children(n)[i].Shape()[0] == n.Shape()[0]
	}
	if keeps, ok := shapeKeepsRows(n, i); ok {
		return keeps
	}
	switch strings.TrimPrefix(fmt.Sprintf("%T", n.Op()), "*") {
	case "gorgonia.reshapeOp":
		return multiple(n)
	case "gorgonia.linAlgBinOp":
		return n.Shape().Dims() > 2 || i == 0
	}
	return true
}
