package op

import (
	"fmt"

	"gorgonia.org/gorgonia"
)

// A Translation is a user's graph as executors get it: a graph of its own, in which ops of this
// package stand for gorgonia's. Package translate makes it. Its leaves have the names, the values
// and the roles of the user's, and its state is the user's graph's.
type Translation struct {
	Graph *gorgonia.ExprGraph
	// Nodes has the translated node of each node of the user's graph, but for nodes in the
	// middle of several that became one.
	Nodes map[*gorgonia.Node]*gorgonia.Node
	// Fused are the ops with state that were translated together with the nodes around them.
	Fused map[gorgonia.Op]bool
}

// Translate makes r's Translation, or brings it up to date with what happened to the user's graph g
// since: mode, seed, state, and for each leaf its role and value.
func (r *Registry) Translate(g *gorgonia.ExprGraph) (*Translation, error) {
	if r.Translation == nil {
		r.Translation = &Translation{
			Graph: gorgonia.NewGraph(),
			Nodes: make(map[*gorgonia.Node]*gorgonia.Node),
			Fused: make(map[gorgonia.Op]bool),
		}
	}
	t := r.Translation
	to := RegistryOf(t.Graph)
	if to.origin == nil {
		to.origin = make(map[*gorgonia.Node]*gorgonia.Node)
	}
	to.Mode, to.Dtype, to.Seed, to.Blocks, to.inUse, to.Slow, to.states = r.Mode, r.Dtype, r.Seed, r.Blocks, r.inUse, r.Slow, r.states
	for _, l := range Leaves(g) {
		n, known := t.Nodes[l.Node]
		if !known {
			n = gorgonia.NewUniqueNode(gorgonia.WithType(l.Node.Type()), gorgonia.In(t.Graph), gorgonia.WithShape(l.Node.Shape()...), gorgonia.WithName(l.Node.Name()))
			if of := to.origin[n]; of != nil {
				return nil, fmt.Errorf("op: two leaves of the graph are called %q, of the shape %v: give each a name of its own", l.Node.Name(), l.Node.Shape())
			}
			t.Nodes[l.Node], to.origin[n] = n, l.Node
		}
		to.SetRole(n, l.Role)
		if v := l.Node.Value(); v != nil && v != n.Value() {
			if err := gorgonia.Let(n, v); err != nil {
				return nil, fmt.Errorf("op: leaf %q: %w", l.Node.Name(), err)
			}
		}
	}
	return t, nil
}

// AddTranslatedState lists s among the state of the user's graph and of its Translation.
func (r *Registry) AddTranslatedState(s *BatchNormState) {
	r.AddState(s)
	RegistryOf(r.Translation.Graph).states = r.states
}

// Let gives a leaf a value, as gorgonia.Let does; where the leaf is of a Translation, the user's
// leaf gets the same one.
func Let(n *gorgonia.Node, value any) error {
	if err := gorgonia.Let(n, value); err != nil {
		return err
	}
	if r := lookup(n.Graph()); r != nil && r.origin[n] != nil {
		return gorgonia.Let(r.origin[n], n.Value())
	}
	return nil
}

// IsUnset reports whether n is a leaf without a value that was not declared to be an input: an
// input that its user has still to fill, or a parameter whose value was forgotten.
func IsUnset(n *gorgonia.Node) bool {
	if !n.IsVar() || n.Value() != nil {
		return false
	}
	r := lookup(n.Graph())
	if r != nil && r.origin[n] != nil {
		n = r.origin[n]
		r = lookup(n.Graph())
	}
	return r == nil || r.roles[n.ID()] == 0
}
