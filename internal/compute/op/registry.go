package op

import (
	"fmt"
	"maps"
	"slices"

	"github.com/chewxy/hm"
	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// Role says what a leaf of a graph is for.
type Role uint8

const (
	// RoleParameter leaves hold a trained value.
	RoleParameter Role = iota + 1
	// RoleInput leaves are set before each step.
	RoleInput
	// RoleLabels leaves are set before each step, and nothing but a loss reads them.
	RoleLabels
	// RoleWeights is the leaf that the executor fills with 1 for each example and with 0 for
	// padding.
	RoleWeights
)

func (r Role) String() string {
	switch r {
	case RoleParameter:
		return "parameter"
	case RoleInput:
		return "input"
	case RoleLabels:
		return "labels"
	case RoleWeights:
		return "example weights"
	}
	return fmt.Sprintf("role %d", uint8(r))
}

// Registry is what is known about a graph beyond its nodes: the role of each
// leaf, state, and what builders need to agree on.
//
// It lives in the graph: a leaf named registryName, which nothing reads, has the
// Registry as its value. So it needs no table outside, goes when the graph goes,
// and gorgonia's machines pass it by. A graph without one, built by gorgonia's
// own functions alone, works too; see Leaves.
//
// A clone of the graph (gorgonia's Clone) has a Registry with the same roles. As
// the clone's nodes have the same ops, its Mode and its state are the original's.
//
// It is built by one goroutine, as a graph is.
type Registry struct {
	// Mode is that of all stateful ops of the graph.
	Mode *Mode

	// Dtype is that of new leaves, float32 by default.
	Dtype tensor.Dtype

	// Seed is that of initial values and dropout.
	Seed uint64

	// Blocks are pieces of memory to which values of leaves were moved, so that a device can
	// copy from them. A graph and its Translation have one list.
	Blocks *[][]float32

	inUse *bool // see Use

	// Translation is the graph as executors get it; nil: it needs none so far, or it is one
	// itself.
	Translation *Translation
	// Slow has the kinds of gorgonia's slow ops that package nn has logged.
	Slow map[string]bool

	// roles are by node ID.
	roles map[int64]Role

	names  map[string]bool
	states []*BatchNormState

	// origin has, for each leaf of a translated graph, the user's leaf.
	origin map[*gorgonia.Node]*gorgonia.Node

	// loss is what Gradients was asked for, with its answer.
	loss *gorgonia.Node

	params, grads gorgonia.Nodes
}

const registryName = "paragon.registry"

// RegistryOf returns g's Registry, and makes it if there is none.
func RegistryOf(g *gorgonia.ExprGraph) *Registry {
	if r := lookup(g); r != nil {
		return r
	}
	r := &Registry{Mode: &Mode{}, Dtype: tensor.Float32, Blocks: new([][]float32), inUse: new(bool), Slow: make(map[string]bool), roles: make(map[int64]Role), names: make(map[string]bool)}
	gorgonia.NewScalar(g, tensor.Float64, gorgonia.WithName(registryName), func(n *gorgonia.Node) {
		if err := gorgonia.UnsafeLet(n, registryValue{r}); err != nil {
			panic(fmt.Sprintf("op: keep registry: %v", err))
		}
	})
	return r
}

func lookup(g *gorgonia.ExprGraph) *Registry {
	for _, n := range g.ByName(registryName) {
		if v, ok := n.Value().(registryValue); ok {
			return v.Registry
		}
	}
	return nil
}

// Use notes that an executor uses the memory of the values of the graph's leaves, or of its
// Translation's, which must stay theirs then.
func (r *Registry) Use() { *r.inUse = true }

// InUse reports whether Use was called.
func (r *Registry) InUse() bool { return *r.inUse }

// Claim reserves a name for a parameter or a state; it is an error if the graph
// has it already.
func (r *Registry) Claim(name string) error {
	if name == "" || r.names[name] {
		return fmt.Errorf("op: name %q is empty or in use in this graph", name)
	}
	r.names[name] = true
	return nil
}

// SetRole declares a leaf's role.
func (r *Registry) SetRole(n *gorgonia.Node, role Role) { r.roles[n.ID()] = role }

// AddState lists s among the graph's state.
func (r *Registry) AddState(s *BatchNormState) { r.states = append(r.states, s) }

// Leaf is one leaf of a graph.
type Leaf struct {
	Node *gorgonia.Node
	Role Role
}

// Leaves lists g's leaves with their roles, in the order they were made. A leaf
// whose role was never declared, as in a graph built by gorgonia's functions
// alone, is a parameter if it has a value by now and an input if it has none;
// once the graph is differentiated, it is a parameter if it has a gradient.
// Constants and random nodes are not leaves.
func Leaves(g *gorgonia.ExprGraph) []Leaf {
	r := lookup(g)
	var out []Leaf
	differentiated := false
	for _, n := range g.AllNodes() {
		if n.IsVar() && !isRegistry(n) {
			out = append(out, Leaf{Node: n})
			differentiated = differentiated || r.hasGradient(n)
		}
	}
	for i, l := range out {
		switch {
		case r != nil && r.roles[l.Node.ID()] != 0:
			out[i].Role = r.roles[l.Node.ID()]
		case l.Node.Value() == nil, differentiated && !r.hasGradient(l.Node):
			out[i].Role = RoleInput
		default:
			out[i].Role = RoleParameter
		}
	}
	return out
}

// hasGradient reports whether the graph, or its Translation in its place, was differentiated for a
// leaf.
func (r *Registry) hasGradient(leaf *gorgonia.Node) bool {
	if leaf.Deriv() != nil || r == nil || r.Translation == nil {
		return leaf.Deriv() != nil
	}
	n := r.Translation.Nodes[leaf]
	return n != nil && n.Deriv() != nil
}

func isRegistry(n *gorgonia.Node) bool {
	_, ok := n.Value().(registryValue)
	return ok
}

// State is one tensor that a step changes and no gradient reaches.
type State struct {
	Name  string // "layer1.0.bn1.running_mean"
	Value *tensor.Dense
}

// States lists g's state, in the order the layers were made: the running mean
// and variance of each batch normalisation, as <name>.running_mean and
// <name>.running_var.
func States(g *gorgonia.ExprGraph) []State {
	r := lookup(g)
	if r == nil {
		return nil
	}
	out := make([]State, 0, 2*len(r.states))
	for _, s := range r.states {
		out = append(out, State{s.Name + ".running_mean", s.Mean}, State{s.Name + ".running_var", s.Var})
	}
	return out
}

// registryValue makes a Registry the value of a scalar float64 node.
type registryValue struct{ *Registry }

func (registryValue) Shape() tensor.Shape        { return tensor.ScalarShape() }
func (registryValue) Size() int                  { return 0 }
func (registryValue) Data() interface{}          { return float64(0) }
func (registryValue) Dtype() tensor.Dtype        { return tensor.Float64 }
func (registryValue) Uintptr() uintptr           { return 0 }
func (registryValue) MemSize() uintptr           { return 0 }
func (registryValue) Type() hm.Type              { return tensor.Float64 }
func (registryValue) Format(s fmt.State, _ rune) { fmt.Fprint(s, "registry") }

// Clone is called when gorgonia copies the graph.
func (v registryValue) Clone() (interface{}, error) {
	c := *v.Registry
	c.roles, c.names, c.states = maps.Clone(c.roles), maps.Clone(c.names), slices.Clone(c.states)
	c.loss, c.params, c.grads, c.Translation, c.Blocks, c.inUse, c.Slow = nil, nil, nil, nil, new([][]float32), new(bool), make(map[string]bool)
	return registryValue{&c}, nil
}
