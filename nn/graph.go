package nn

import (
	"fmt"

	"github.com/paragon-train/paragon/internal/compute/op"
	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// GraphConfig holds what the layers of one graph have in common.
type GraphConfig struct {
	// Float64 makes inputs and parameters float64; false is float32, the type
	// that trains.
	Float64 bool
	// Seed is the seed of initial values and dropout masks.
	Seed uint64
}

// Configure sets g's configuration; without it a graph has the zero GraphConfig.
// It comes before the first Input and panics after one.
func Configure(g *gorgonia.ExprGraph, cfg GraphConfig) {
	r := op.RegistryOf(g)
	if len(op.Leaves(g)) > 0 {
		panic("nn: Configure: the graph has leaves already; configure it first")
	}
	r.Seed = cfg.Seed
	if cfg.Float64 {
		r.Dtype = tensor.Float64
	}
}

// Input makes a leaf for numbers that are set before each step, such as images
// (N, C, H, W). Its name must be new in the graph.
func Input(g *gorgonia.ExprGraph, name string, shape ...int) *gorgonia.Node {
	return inputLeaf(g, "Input", op.RegistryOf(g).Dtype, op.RoleInput, name, shape)
}

// Labels makes an int32 leaf for class labels, 0 to classes−1, or −1 for a row of
// the batch that is not there. Its shape is (N).
func Labels(g *gorgonia.ExprGraph, name string, shape ...int) *gorgonia.Node {
	return inputLeaf(g, "Labels", tensor.Int32, op.RoleLabels, name, shape)
}

// IDs makes an int32 leaf for the row numbers that Embedding looks up.
func IDs(g *gorgonia.ExprGraph, name string, shape ...int) *gorgonia.Node {
	return inputLeaf(g, "IDs", tensor.Int32, op.RoleInput, name, shape)
}

func inputLeaf(g *gorgonia.ExprGraph, kind string, dt tensor.Dtype, role op.Role, name string, shape []int) *gorgonia.Node {
	for _, d := range shape {
		if d < 1 {
			panic(fmt.Sprintf("nn: %s %q: shape is %v, want sizes of at least 1", kind, name, shape))
		}
	}
	if len(shape) == 0 {
		panic(fmt.Sprintf("nn: %s %q: no shape given", kind, name))
	}
	r := op.RegistryOf(g)
	if err := r.Claim(name); err != nil {
		panic(fmt.Sprintf("nn: %s: %v", kind, err))
	}
	n := gorgonia.NewTensor(g, dt, len(shape), gorgonia.WithShape(shape...), gorgonia.WithName(name))
	r.SetRole(n, role)
	return n
}

// DeclareInput marks leaves made by gorgonia's functions as inputs. Without it a
// leaf that has a value when its graph is compiled counts as a parameter.
func DeclareInput(leaves ...*gorgonia.Node) {
	for _, n := range leaves {
		op.RegistryOf(n.Graph()).SetRole(n, op.RoleInput)
	}
}

// Parameters lists the leaves of g that are trained, in the order they were made.
func Parameters(g *gorgonia.ExprGraph) gorgonia.Nodes {
	var out gorgonia.Nodes
	for _, l := range op.Leaves(g) {
		if l.Role == op.RoleParameter {
			out = append(out, l.Node)
		}
	}
	return out
}

// ParameterCount is the number of trained numbers in g.
func ParameterCount(g *gorgonia.ExprGraph) int {
	count := 0
	for _, n := range Parameters(g) {
		count += n.Shape().TotalSize()
	}
	return count
}

// newParameter makes a trained leaf with its initial value.
func newParameter(like *gorgonia.Node, name string, init Init, shape ...int) *gorgonia.Node {
	g := like.Graph()
	r := op.RegistryOf(g)
	if err := r.Claim(name); err != nil {
		panic(fmt.Sprintf("nn: parameter: %v", err))
	}
	value := initial(init, r.Seed, name, floatType(like), shape)
	n := gorgonia.NewTensor(g, value.Dtype(), len(shape), gorgonia.WithShape(shape...), gorgonia.WithName(name), gorgonia.WithValue(value))
	r.SetRole(n, op.RoleParameter)
	return n
}

// floatType is the float type of the numbers around n; for ids it is the graph's.
func floatType(n *gorgonia.Node) tensor.Dtype {
	if dt := n.Dtype(); dt == tensor.Float32 || dt == tensor.Float64 {
		return dt
	}
	return op.RegistryOf(n.Graph()).Dtype
}

// apply is op.Apply; an error is the caller's mistake and panics.
func apply(layer string, o gorgonia.Op, children ...*gorgonia.Node) *gorgonia.Node {
	n, err := op.Apply(o, children...)
	if err != nil {
		panic(fmt.Sprintf("nn: %s: %v", layer, err))
	}
	return n
}

// want panics unless x has the number of dimensions that pattern, such as
// "N,C,H,W", names.
func want(layer string, x *gorgonia.Node, dims int, pattern string) {
	if x.Shape().Dims() != dims {
		panic(fmt.Sprintf("nn: %s: x is %v, want (%s)", layer, x.Shape(), pattern))
	}
}
