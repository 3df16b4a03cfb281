package plan

import (
	"fmt"
	"slices"
	"strings"

	"github.com/paragon-train/paragon/internal/compute/op"
	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// A Request says what a plan is to compute.
type Request struct {
	// Root is the loss, or in inference any node.
	Root *gorgonia.Node

	Outputs gorgonia.Nodes // further nodes whose values are wanted

	// Params are leaves that are parameters. Other leaves are inputs.
	Params gorgonia.Nodes

	// Grads has the gradient of each parameter; nil: none is wanted.
	Grads gorgonia.Nodes

	// Seed is the constant 1 at which the gradients begin. It is nil without Grads.
	Seed *gorgonia.Node

	// Batch is the number of examples that the inputs have room for, 0 if nothing is ever left
	// out: see Examples.
	Batch int

	// Inference means running statistics in batch normalisation and no dropout.
	Inference bool

	// Frozen are the names of batch normalisations that use their running statistics in
	// training, too, and leave them as they are.
	Frozen map[string]bool

	// BFloat16 stores images between ops as bfloat16 where every op that meets them can take
	// it: see Value.Bytes.
	BFloat16 bool

	// Tables lets EmbeddingGrad add to the rest of a table's gradient, and the gradient of a head
	// with its loss be computed together with the loss: see Op.
	Tables bool

	// Residuals lets BatchNormGrad make the gradient behind the ReLU as a result of its own
	// where others read it, too: see Op.
	Residuals bool

	// Recompute lets the backward pass compute normalised rows and activations again, where it
	// would have to keep them.
	Recompute bool
}

// A Plan is what an executor runs.
type Plan struct {
	Ops    []*Op
	Inputs []*Value // leaves that the user sets

	// Params are in the order of Request.Params.
	Params []*Value

	// Grads has the gradient of each parameter, row-major. It is nil without gradients.
	Grads []*Value

	Consts []*Value

	// Seed is nil if the gradients do not begin at ops that can be told it.
	Seed *Value

	Loss *Value // the root
	// Outputs are the values of Request.Outputs, row-major.
	Outputs   []*Value
	Inference bool
	Batch     int // Request.Batch

	// ScaleGrads says that Seed could not be used: who wants gradients multiplied must do it
	// himself. Executors do it as each gradient becomes ready.
	ScaleGrads bool

	// Ready says that after op i these parameters' gradients are final, and no later op reads the
	// parameters.
	Ready [][]int

	// FirstUse says that op i is the first to read these parameters.
	FirstUse [][]int

	// Forward says that op i is needed for the loss or an output.
	Forward []bool

	// Place fills these in.
	Memory Memory

	values int
}

// Build makes the plan of a request.
func Build(req Request) (*Plan, error) {
	if req.Root == nil {
		return nil, fmt.Errorf("plan: build: there is no root node")
	}
	if req.Grads != nil && len(req.Grads) != len(req.Params) {
		return nil, fmt.Errorf("plan: build: got %d gradients for %d parameters", len(req.Grads), len(req.Params))
	}
	if err := op.CheckCollisions(req.Root.Graph()); err != nil {
		return nil, fmt.Errorf("plan: build: %w", err)
	}
	b := &builder{
		req:   req,
		plan:  &Plan{Inference: req.Inference, Batch: req.Batch},
		nodes: make(map[*gorgonia.Node][]*Value),
		other: make(map[*Value]*Value),
		param: make(map[*gorgonia.Node]int),
	}
	for i, p := range req.Params {
		b.param[p] = i
		b.plan.Params = append(b.plan.Params, b.leaf(p))
	}
	order := needed(req)
	b.chooseSeed(order)
	for _, n := range order {
		if err := b.lower(n); err != nil {
			return nil, err
		}
	}
	if err := b.finish(); err != nil {
		return nil, err
	}
	p := b.plan
	p.fuse()
	if req.Tables {
		p.fuseTables()
		p.fuseHeads()
	}
	if req.Residuals {
		p.fuseResiduals()
	}
	p.dropUnused()
	p.gradientsEarly()
	if req.Recompute {
		p.recompute()
	}
	p.hooks()
	p.markForward()
	if req.BFloat16 {
		p.halve()
	}
	return p, nil
}

type builder struct {
	req  Request
	plan *Plan

	// nodes has the results of each node lowered so far.
	nodes map[*gorgonia.Node][]*Value

	// other has the same value in the other layout.
	other map[*Value]*Value

	param map[*gorgonia.Node]int
	pools map[poolKey]*Op
}

// needed lists the nodes that the request needs, in the order in which they were made: children
// first.
func needed(req Request) gorgonia.Nodes {
	seen := make(map[*gorgonia.Node]bool)
	var out gorgonia.Nodes
	todo := append(gorgonia.Nodes{req.Root}, req.Outputs...)
	todo = append(todo, req.Grads...)
	for len(todo) > 0 {
		n := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if seen[n] {
			continue
		}
		seen[n] = true
		out = append(out, n)
		todo = append(todo, op.Children(n)...)
	}
	slices.SortFunc(out, func(a, b *gorgonia.Node) int { return int(a.ID() - b.ID()) })
	return out
}

// chooseSeed makes the seed a value of its own if only loss gradients of ours read it. gorgonia
// joins equal constants, so that the seed's node, the constant 1, may be read by anything; then
// gradients are multiplied at their end.
func (b *builder) chooseSeed(order gorgonia.Nodes) {
	if b.req.Grads == nil || b.req.Seed == nil {
		return
	}
	users := 0
	for _, n := range order {
		for i, c := range op.Children(n) {
			if c != b.req.Seed {
				continue
			}
			users++
			switch n.Op().(type) {
			case *op.SoftmaxCrossEntropyGrad, *op.SoftCrossEntropyGrad, *op.BinaryCrossEntropyGrad, *op.MSEGrad:
				if i == 2 {
					continue
				}
			case *op.LinearCrossEntropyGrad:
				if i == 3 {
					continue
				}
			}
			b.plan.ScaleGrads = true
			return
		}
	}
	if users == 0 {
		b.plan.ScaleGrads = true
		return
	}
	b.plan.Seed = b.newValue(b.req.Seed.Name(), tensor.ScalarShape(), tensor.Float32)
	b.plan.Seed.Source = Seed
	b.nodes[b.req.Seed] = []*Value{b.plan.Seed}
}

func (b *builder) newValue(name string, shape tensor.Shape, dt tensor.Dtype) *Value {
	v := &Value{ID: b.plan.values, Name: name, Shape: shape.Clone(), Dtype: dt, Bytes: 4, Boxed: dt != tensor.Float32}
	b.plan.values++
	return v
}

// leaf makes the value of a leaf or constant, once.
func (b *builder) leaf(n *gorgonia.Node) *Value {
	if v, ok := b.nodes[n]; ok {
		return v[0]
	}
	v := b.newValue(n.Name(), n.Shape(), n.Dtype())
	v.Node, v.Source = n, Input
	if i, ok := b.param[n]; ok {
		v.Source, v.Index = Parameter, i
	} else if n.Op() != nil {
		v.Source = Constant
		b.plan.Consts = append(b.plan.Consts, v)
	} else {
		b.plan.Inputs = append(b.plan.Inputs, v)
	}
	b.nodes[n] = []*Value{v}
	return v
}

// finish makes loss, outputs and gradients outlive the step.
func (b *builder) finish() error {
	p := b.plan
	keep := func(n *gorgonia.Node) *Value {
		v := b.as(b.nodes[n][0], RowMajor, n.Name())
		if r := v.Root(); r.Source == Temporary {
			r.Source = Output
		}
		return v
	}
	for i, n := range b.req.Grads {
		v := b.as(b.nodes[n][0], RowMajor, n.Name())
		param := p.Params[i]
		if v.Boxed {
			return fmt.Errorf("plan: build: gradient of %q is %v, want float32", param.Name, v.Dtype)
		}
		if v.Len() != param.Len() {
			return fmt.Errorf("plan: build: gradient of %q has shape %v, want %v", param.Name, v.Shape, param.Shape)
		}
		r := v.Root()
		if r.Source != Temporary {
			c := b.newValue("gradient of "+param.Name, param.Shape, tensor.Float32)
			p.Ops = append(p.Ops, &Op{Kind: Copy, Node: n.Name(), In: []*Value{v}, Out: []*Value{c}})
			v, r = c, c
		}
		r.Source, r.Index = Gradient, i
		p.Grads = append(p.Grads, v)
	}
	p.Loss = keep(b.req.Root)
	for _, n := range b.req.Outputs {
		p.Outputs = append(p.Outputs, keep(n))
	}
	return nil
}

// String lists the ops, one a line.
func (p *Plan) String() string {
	var b strings.Builder
	for i, o := range p.Ops {
		fmt.Fprintf(&b, "%3d %v\n", i, o)
	}
	return b.String()
}
