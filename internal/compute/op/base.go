package op

import (
	"fmt"
	"hash"
	"hash/fnv"
	"reflect"
	"slices"

	"github.com/chewxy/hm"
	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// traits are the answers that all ops of this package share.
type traits struct{}

// ReturnsPtr is true: results are tensors of their own.
func (traits) ReturnsPtr() bool { return true }

// CallsExtern is false: Do is plain Go.
func (traits) CallsExtern() bool { return false }

// OverwritesInput is -1: Do never writes to its arguments.
func (traits) OverwritesInput() int { return -1 }

// gradient is traits for an op that cannot be differentiated further.
type gradient struct{ traits }

// DiffWRT says yes for every argument, so that a loss made of gradients meets
// SymDiff's error and is not taken for a constant.
func (gradient) DiffWRT(inputs int) []bool {
	d := make([]bool, inputs)
	for i := range d {
		d[i] = true
	}
	return d
}

// SymDiff is an error: there are no second derivatives.
func (gradient) SymDiff(inputs gorgonia.Nodes, output, grad *gorgonia.Node) (gorgonia.Nodes, error) {
	return nil, fmt.Errorf("op: differentiate %v: gradient ops have no gradient of their own", output.Op())
}

// writeHash writes the op's kind and attributes, which String prints in full.
func writeHash(h hash.Hash, o fmt.Stringer) { fmt.Fprintf(h, "paragon.%s", o) }

func hashcode(o gorgonia.Op) uint32 {
	h := fnv.New32a()
	o.WriteHash(h)
	return h.Sum32()
}

// tensorType is the type of a tensor of dims dimensions over the element type
// variable v; 0 dimensions is a scalar.
func tensorType(dims int, v rune) hm.Type {
	if dims == 0 {
		return hm.TypeVariable(v)
	}
	return gorgonia.TensorType{Dims: dims, Of: hm.TypeVariable(v)}
}

// fn is the type of an op whose arguments and result (last) are float tensors
// of the given numbers of dimensions.
func fn(dims ...int) hm.Type {
	ts := make([]hm.Type, len(dims))
	for i, d := range dims {
		ts[i] = tensorType(d, 'a')
	}
	return hm.NewFnType(ts...)
}

// same is the type of an op whose n arguments and result have one type.
func same(n int) hm.Type {
	ts := make([]hm.Type, n+1)
	for i := range ts {
		ts[i] = hm.TypeVariable('a')
	}
	return hm.NewFnType(ts...)
}

// argShapes turns InferShape's argument into shapes and checks how many and of
// how many dimensions they are; a negative number of dimensions is any.
func argShapes(o gorgonia.Op, ds []gorgonia.DimSizer, dims ...int) ([]tensor.Shape, error) {
	s, err := gorgonia.DimSizersToShapes(ds)
	if err != nil {
		return nil, fmt.Errorf("op: %v: %w", o, err)
	}
	if len(s) != len(dims) {
		return nil, fmt.Errorf("op: %v: got %d arguments, want %d", o, len(s), len(dims))
	}
	for i, d := range dims {
		if d >= 0 && s[i].Dims() != d && !(d == 0 && s[i].IsScalarEquiv()) {
			return nil, fmt.Errorf("op: %v: argument %d has shape %v, want %d dimensions", o, i, s[i], d)
		}
	}
	return s, nil
}

// Apply makes the node of o over children. It is gorgonia.ApplyOp with a check
// that gorgonia did not hand back another node whose 32-bit hash happens to be
// the same. Applying an equal op to the same children again gives the same node,
// except for ops with state, where it is an error.
func Apply(o gorgonia.Op, children ...*gorgonia.Node) (*gorgonia.Node, error) {
	n, err := gorgonia.ApplyOp(o, children...)
	if err != nil {
		return nil, fmt.Errorf("op: apply %v: %w", o, err)
	}
	got := n.Op()
	if got == nil || got.String() != o.String() || !slices.Equal(Children(n), children) {
		return nil, fmt.Errorf("op: apply %v to %v: hash %08x collides with node %v; rename one of its leaves", o, names(children), n.Hashcode(), n)
	}
	if s, ok := o.(Stateful); ok && s.StateName() != "" && got != gorgonia.Op(s) {
		return nil, fmt.Errorf("op: apply %v: the graph has a node of this name already; give each state a name of its own", o)
	}
	return n, nil
}

// Stateful is an op that must not be joined with an equal one, since each has
// state or randomness of its own under a name. One whose name is empty has none.
type Stateful interface {
	gorgonia.Op
	StateName() string
}

// Children returns the arguments of n in order.
//
// They are read from the node itself: the graph finds a node by an index that is wrong for all
// later nodes once gorgonia has taken one out, as its Log does with 1+a to make log1p(a) of it.
func Children(n *gorgonia.Node) gorgonia.Nodes {
	v := reflect.ValueOf(n).Elem().FieldByIndex(childrenField)
	out := make(gorgonia.Nodes, v.Len())
	for i := range out {
		out[i] = (*gorgonia.Node)(v.Index(i).UnsafePointer())
	}
	return out
}

// childrenField is where a node keeps its arguments.
var childrenField = func() []int {
	f, ok := reflect.TypeFor[gorgonia.Node]().FieldByName("children")
	if !ok || f.Type != reflect.TypeFor[gorgonia.Nodes]() {
		panic("op: nodes of this version of gorgonia have no field children of type Nodes; v0.9.18 has")
	}
	return f.Index
}()

func names(ns gorgonia.Nodes) []string {
	out := make([]string, len(ns))
	for i, n := range ns {
		out[i] = n.Name()
	}
	return out
}

// CheckCollisions is an error if two different nodes of g have one hash:
// gorgonia's machines, and its own graph when more nodes are added, would take
// one for the other. Equal ops over equal arguments are no different nodes; that
// gorgonia sometimes keeps both is harmless. Gradients calls it.
func CheckCollisions(g *gorgonia.ExprGraph) error {
	seen := make(map[uint32]*gorgonia.Node)

	// first is that of a node and its equals.
	first := make(map[*gorgonia.Node]*gorgonia.Node)
	for _, n := range g.AllNodes() {
		h := n.Hashcode()
		m, ok := seen[h]
		if !ok {
			m, seen[h] = n, n
		}
		if m != n && !equal(m, n, first) {
			return fmt.Errorf("op: check graph: nodes %d %q and %d %q have one hash %08x; rename one of their leaves", m.ID(), m.Name(), n.ID(), n.Name(), h)
		}
		first[n] = m
	}
	return nil
}

// equal reports whether a and b, which are not leaves, compute the same.
func equal(a, b *gorgonia.Node, first map[*gorgonia.Node]*gorgonia.Node) bool {
	oa, ob := a.Op(), b.Op()
	if oa == nil || ob == nil || oa.Hashcode() != ob.Hashcode() || oa.String() != ob.String() || !slices.Equal(a.Shape(), b.Shape()) {
		return false
	}
	return slices.EqualFunc(Children(a), Children(b), func(x, y *gorgonia.Node) bool { return first[x] == first[y] })
}
