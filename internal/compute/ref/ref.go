// Package ref runs a model's graph in the plainest way there is: gorgonia's
// TapeMachine over the Do loops of the ops. It is slow and is the judge: an
// executor is right if its loss, gradients and running statistics agree with a
// Runner's on the same graph and inputs, and a Runner is right if its gradients
// agree with finite differences.
//
//	r, err := ref.New(loss)
//	err = r.Set("images", images)
//	err = r.Set("labels", labels)
//	err = r.Step()               // loss and gradients in training mode
//	loss, dw := r.Loss(), r.Grad("conv1.weight")
//	logits, err := r.Eval(logits) // in evaluation mode
//
// The element type is that of the graph: float64 for finite differences, float32
// to compare with what trains. Numbers go in and out as float64, row-major.
//
// It runs what executors get: gorgonia's own ops are translated first (package
// translate).
//
// A Runner shares the leaves' values and the state with its graph: Set of a parameter
// changes the graph's parameter, Step moves the graph's running statistics. One
// goroutine at a time may use a graph through its Runners.
package ref

import (
	"errors"
	"fmt"

	"github.com/paragon-train/paragon/internal/compute/op"
	"github.com/paragon-train/paragon/internal/compute/plan"
	"github.com/paragon-train/paragon/internal/compute/translate"
	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// Runner computes one loss and its gradients.
type Runner struct {
	loss   *gorgonia.Node
	leaves map[string]*gorgonia.Node
	params gorgonia.Nodes
	grads  map[string]*gorgonia.Node
	mode   *op.Mode
	batch  plan.Examples
	there  int // examples of later runs

	// empty says that later runs have no examples, also where the batch size is not known:
	// gradients are zero.
	empty bool

	// stepEmpty is true if the last Step had no examples.
	stepEmpty bool

	// step computes loss and gradients, and only the loss alone.
	step gorgonia.VM
	only gorgonia.VM // loss alone
}

// New prepares loss, a scalar node, and differentiates its graph unless that
// was done already.
func New(loss *gorgonia.Node) (*Runner, error) {
	graph, err := translate.Of(true, loss)
	if err != nil {
		return nil, fmt.Errorf("ref: new runner: %w", err)
	}
	loss = graph.Node(loss)
	params, grads, err := op.Gradients(loss)
	if err != nil {
		return nil, fmt.Errorf("ref: new runner: %w", err)
	}
	g := loss.Graph()
	r := &Runner{
		loss:   loss,
		leaves: make(map[string]*gorgonia.Node),
		params: params,
		grads:  make(map[string]*gorgonia.Node),
		mode:   op.RegistryOf(g).Mode,
		step:   gorgonia.NewTapeMachine(g.ExactSubgraphRoots(append(gorgonia.Nodes{loss}, grads...)...)),
		only:   gorgonia.NewTapeMachine(g.ExactSubgraphRoots(loss)),
	}
	r.batch = plan.FindExamples(loss, nil, false)
	r.there = r.batch.Batch
	for _, l := range op.Leaves(g) {
		r.leaves[l.Node.Name()] = l.Node
	}
	for i, p := range params {
		r.grads[p.Name()] = grads[i]
	}
	return r, nil
}

// Close releases the machines.
func (r *Runner) Close() error {
	err := r.step.Close()
	if e := r.only.Close(); err == nil {
		err = e
	}
	return err
}

// Set gives the leaf (input, labels or parameter) of this name its numbers.
func (r *Runner) Set(name string, values []float64) error {
	n, ok := r.leaves[name]
	if !ok {
		return fmt.Errorf("ref: set %q: the graph has no such leaf", name)
	}
	shape := n.Shape()
	if len(values) != shape.TotalSize() {
		return fmt.Errorf("ref: set %q: got %d values, want %d for %v", name, len(values), shape.TotalSize(), shape)
	}
	backing, err := convert(values, n.Dtype())
	if err != nil {
		return fmt.Errorf("ref: set %q: %w", name, err)
	}
	if n.IsScalar() {
		return op.Let(n, first(backing))
	}
	t := tensor.New(tensor.WithShape(shape...), tensor.WithBacking(backing))
	if old, ok := n.Value().(*tensor.Dense); ok {
		return tensor.Copy(old, t)
	}
	return op.Let(n, t)
}

// Step computes loss and gradients in training mode, moves the running
// statistics and raises the graph's step by one.
func (r *Runner) Step() error {
	r.mode.Inference = false
	if err := r.run(r.step); err != nil {
		return err
	}
	r.mode.Step++
	r.stepEmpty = r.empty
	return nil
}

// Forward computes the loss alone, in training mode and without raising the step.
func (r *Runner) Forward() error {
	r.mode.Inference = false
	return r.run(r.only)
}

// SetExamples says that later steps have n examples, the first ones of the batch: see
// nn.Program.SetExamples.
func (r *Runner) SetExamples(n int) error {
	if err := r.batch.Check(n); err != nil {
		return fmt.Errorf("ref: set examples: %w", err)
	}
	r.there, r.empty = n, n == 0
	return nil
}

// run runs a machine on the examples that are there. After an error the running statistics are as
// before.
func (r *Runner) run(m gorgonia.VM) (err error) {
	r.mode.Batch, r.mode.Examples = r.batch.Batch, r.there
	if r.empty {
		// Any number of rows is a multiple of 1, and none counts.
		r.mode.Batch = 1
	}
	defer func() { r.mode.Batch, r.mode.Examples = 0, 0 }()
	if w := r.batch.Weights; w != nil {
		weights := make([]float64, r.batch.Batch)
		for i := range min(r.there, len(weights)) {
			weights[i] = 1
		}
		if err := r.Set(w.Name(), weights); err != nil {
			return err
		}
	}
	var inputs []any
	for _, n := range r.batch.Rows {
		if v, ok := n.Value().(*tensor.Dense); ok {
			inputs = append(inputs, v.Data())
		}
	}
	padding := plan.NewPadding(r.batch.Batch, inputs)
	padding.Fill(r.there)
	defer padding.Restore()
	for _, s := range op.States(r.loss.Graph()) {
		before := s.Value.Clone().(*tensor.Dense)
		defer func() {
			if err != nil {
				err = errors.Join(err, tensor.Copy(s.Value, before))
			}
		}()
	}
	return run(m)
}

// Eval computes a node in evaluation mode and returns its numbers. Labels that
// the node does not depend on need no value.
func (r *Runner) Eval(n *gorgonia.Node) ([]float64, error) {
	graph, err := translate.Of(false, n)
	if err != nil {
		return nil, fmt.Errorf("ref: evaluate %q: %w", n.Name(), err)
	}
	n = graph.Node(n)
	m := gorgonia.NewTapeMachine(n.Graph().ExactSubgraphRoots(n))
	defer m.Close()
	r.mode.Inference = true
	defer func() { r.mode.Inference = false }()
	if err := r.run(m); err != nil {
		return nil, err
	}
	return Numbers(n.Value())
}

func run(m gorgonia.VM) error {
	m.Reset()
	if err := m.RunAll(); err != nil {
		return fmt.Errorf("ref: run: %w", err)
	}
	return nil
}

// Loss is the loss of the last Step or Forward.
func (r *Runner) Loss() float64 { return mustNumbers(r.loss.Value())[0] }

// Params lists the names of the parameters that the loss depends on, in the
// order they were made.
func (r *Runner) Params() []string {
	out := make([]string, len(r.params))
	for i, p := range r.params {
		out[i] = p.Name()
	}
	return out
}

// Param returns a parameter's numbers; it panics if there is none of this name.
func (r *Runner) Param(name string) []float64 { return mustNumbers(r.leaf(name).Value()) }

// Grad returns the gradient of the last Step for a parameter; it panics if there
// is none of this name.
func (r *Runner) Grad(name string) []float64 {
	n, ok := r.grads[name]
	if !ok {
		panic(fmt.Sprintf("ref: Grad: the loss depends on no parameter %q", name))
	}
	g := mustNumbers(n.Value())
	if r.stepEmpty {
		clear(g)
	}
	return g
}

func (r *Runner) leaf(name string) *gorgonia.Node {
	n, ok := r.leaves[name]
	if !ok {
		panic(fmt.Sprintf("ref: the graph has no leaf %q", name))
	}
	return n
}
