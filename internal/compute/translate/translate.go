package translate

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/paragon-train/paragon/internal/compute/op"
	"gorgonia.org/gorgonia"
)

// A Graph is the translation of a user's graph.
type Graph struct {
	graph *gorgonia.ExprGraph

	// nodes is nil if the user's graph is its own translation.
	nodes map[*gorgonia.Node]*gorgonia.Node
}

// ExprGraph is the graph that executors get.
func (g *Graph) ExprGraph() *gorgonia.ExprGraph { return g.graph }

// Node is what stands for node n of the user's graph; nil if n is neither a leaf nor one of the
// roots nor below them, or if it was joined with the nodes around it.
func (g *Graph) Node(n *gorgonia.Node) *gorgonia.Node {
	if g.nodes == nil {
		return n
	}
	return g.nodes[n]
}

// Of translates what the roots, nodes of one graph, are computed from. training says that gradients
// of the first root are wanted. The graph keeps its translation: a later call adds to it.
func Of(training bool, roots ...*gorgonia.Node) (*Graph, error) {
	g := roots[0].Graph()
	t := &translator{graph: g, registry: op.RegistryOf(g), rewrites: make(map[*gorgonia.Node]*rewrite), uses: make(map[*gorgonia.Node]int)}
	if err := t.statements(); err != nil {
		return nil, err
	}
	if training {
		below, err := t.reach(roots[:1])
		if err == nil {
			err = t.gradients(below)
		}
		if err != nil {
			return nil, err
		}
		clear(t.uses)
	}
	if _, err := t.reach(roots); err != nil {
		return nil, err
	}
	live, changed, err := t.live(roots)
	if err != nil {
		return nil, err
	}
	if !changed && t.registry.Translation == nil {
		return &Graph{graph: g}, nil
	}
	if t.to, err = t.registry.Translate(g); err != nil {
		return nil, err
	}
	for _, n := range live {
		if err := t.translate(n); err != nil {
			return nil, fmt.Errorf("translate: node %q: %w", n.Name(), err)
		}
	}
	return &Graph{graph: t.to.Graph, nodes: t.to.Nodes}, nil
}

type translator struct {
	graph    *gorgonia.ExprGraph
	registry *op.Registry
	to       *op.Translation

	// uses counts those of each reached node by others and as a root.
	uses map[*gorgonia.Node]int

	rewrites map[*gorgonia.Node]*rewrite
	ordinal  map[*gorgonia.Node]int
}

// A rewrite says that a node is made of other nodes than its children, or of them in another way.
type rewrite struct {
	from gorgonia.Nodes

	// build gets the translations of from.
	build func(from gorgonia.Nodes) (*gorgonia.Node, error)

	// fuses is an op with state that is in the middle.
	fuses gorgonia.Op
}

// reach lists what the roots are computed from, children first.
func (t *translator) reach(roots gorgonia.Nodes) (gorgonia.Nodes, error) {
	there := make(map[*gorgonia.Node]bool)
	for _, n := range t.graph.AllNodes() {
		there[n] = true
	}
	var out gorgonia.Nodes
	todo := slices.Clone(roots)
	for _, n := range roots {
		t.uses[n]++
	}
	seen := make(map[*gorgonia.Node]bool)
	for len(todo) > 0 {
		n := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if seen[n] {
			continue
		}
		seen[n] = true
		gone := !there[n]
		for _, c := range op.Children(n) {
			// Its memory is another node's by now.
			gone = gone || c.ID() >= n.ID()
		}
		if gone {
			return nil, errors.New("translate: the graph uses a node that gorgonia has removed from it: Log(a+1) and Log(1-a) remove a+1 and 1-a, which cannot be used " +
				"elsewhere then; compute Log of a separate sum, or call Log1p")
		}
		out = append(out, n)
		for _, c := range op.Children(n) {
			// A broadcast asks for the size of a node, which is no use of its value.
			if opType(n) != "gorgonia.sizeOp" {
				t.uses[c]++
			}
			todo = append(todo, c)
		}
	}
	inOrder(out)
	return out, nil
}

// inOrder sorts nodes as they were made: children first.
func inOrder(nodes gorgonia.Nodes) {
	slices.SortFunc(nodes, func(a, b *gorgonia.Node) int { return int(a.ID() - b.ID()) })
}

// live lists the nodes that have to be translated, children first, and finds the rewrites of those
// that have some.
func (t *translator) live(roots gorgonia.Nodes) (live gorgonia.Nodes, changed bool, err error) {
	for i, n := range t.graph.AllNodes() {
		// A node was taken out, and gorgonia finds wrong ones since.
		changed = changed || n.ID() != int64(i)
	}
	todo := slices.Clone(roots)
	seen := make(map[*gorgonia.Node]bool)
	for len(todo) > 0 {
		n := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if seen[n] {
			continue
		}
		seen[n] = true
		if to := t.registry.Translation; to != nil && to.Nodes[n] != nil {
			// An earlier call has done it.
			continue
		}
		live = append(live, n)
		from := op.Children(n)
		if r := rules[opType(n)]; r != nil {
			w, err := r(t, n)
			if err != nil {
				return nil, false, fmt.Errorf("translate: node %q: %w", n.Name(), err)
			}
			if w != nil {
				t.rewrites[n], from, changed = w, w.from, true
			}
		} else if err := keepsMode(n); err != nil {
			return nil, false, fmt.Errorf("translate: node %q: %w", n.Name(), err)
		}
		todo = append(todo, from...)
	}
	inOrder(live)
	return live, changed, nil
}

// translate makes the translation of n, whose arguments have theirs.
func (t *translator) translate(n *gorgonia.Node) error {
	if t.to.Nodes[n] != nil {
		return nil
	}
	m, err := t.build(n)
	if err != nil {
		return err
	}
	if !m.Shape().Eq(n.Shape()) && !(m.Shape().TotalSize() == 1 && n.Shape().TotalSize() == 1) {
		return fmt.Errorf("%v: its translation %v has the shape %v, want %v", n.Op(), m.Op(), m.Shape(), n.Shape())
	}
	t.to.Nodes[n] = m
	return nil
}

func (t *translator) build(n *gorgonia.Node) (*gorgonia.Node, error) {
	w := t.rewrites[n]
	from := op.Children(n)
	if w != nil {
		from = w.from
	}
	args := make(gorgonia.Nodes, len(from))
	for i, c := range from {
		if args[i] = t.to.Nodes[c]; args[i] == nil {
			return nil, fmt.Errorf("argument %q has no translation", c.Name())
		}
	}
	switch {
	case w != nil:
		if w.fuses != nil && t.to.Fused[w.fuses] {
			return nil, fmt.Errorf("an earlier program of this graph compiled %v together with its scale and bias, or without them, and this one would do otherwise: name the same Config.Outputs in both", w.fuses)
		}
		m, err := w.build(args)
		if err == nil && w.fuses != nil {
			t.to.Fused[w.fuses] = true
		}
		return m, err
	case len(from) == 0 && n.Value() != nil:
		return t.to.Graph.AddNode(gorgonia.NewConstant(n.Value(), gorgonia.WithName(n.Name()))), nil
	case len(from) == 0:
		return nil, fmt.Errorf("%v: an op without arguments", n.Op())
	case len(n.DerivOf()) > 0:
		return nil, errors.New("it is a gradient, of ops that are replaced; take it from Program.Params")
	}
	m, err := op.Apply(n.Op(), args...)
	if err == nil && !strings.HasPrefix(n.Name(), fmt.Sprint(n.Op())+"(") {
		gorgonia.WithName(n.Name())(m)
	}
	return m, err
}

// name makes a name for an op with state or randomness of gorgonia's: its number among those of its
// kind in the user's graph, which is the same in each process that builds the graph.
func (t *translator) name(kind string, n *gorgonia.Node) string {
	if t.ordinal == nil {
		t.ordinal = make(map[*gorgonia.Node]int)
		count := make(map[string]int)
		for _, m := range t.graph.AllNodes() {
			k := opType(m)
			t.ordinal[m] = count[k]
			count[k]++
		}
	}
	return fmt.Sprintf("%s%d", kind, t.ordinal[n])
}

// opType is the name of the Go type of n's op; "" of a leaf.
func opType(n *gorgonia.Node) string {
	if n.Op() == nil {
		return ""
	}
	return fmt.Sprintf("%T", n.Op())
}
