package nn_test

import (
	"flag"
	"fmt"
	"io"
	"log"
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/paragon-train/paragon/internal/compute/op"
	"github.com/paragon-train/paragon/internal/compute/translate"
	"github.com/paragon-train/paragon/nn"
	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// A trial is a graph of one function with a loss that every number of its result moves, and every
// number of its arguments once more by another way, so that a function through which no gradient
// flows is seen.
type trial struct {
	leaves  G.Nodes // the arguments
	values  [][]float64
	result  *G.Node
	loss    *G.Node
	targets map[string][]float64
}

// try builds the trial of o; gorgonia's functions may panic.
func (o foreignOp) try(dt tensor.Dtype) (s *trial, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v", r)
		}
	}()
	g := G.NewGraph()
	nn.Configure(g, nn.GraphConfig{Float64: dt == tensor.Float64})
	rng := rand.New(rand.NewPCG(7, 11))
	s = &trial{targets: make(map[string][]float64)}
	var terms G.Nodes
	target := func(x *G.Node) {
		name := fmt.Sprintf("t%d", len(terms))
		shape := x.Shape()
		t := G.NewTensor(g, dt, shape.Dims(), G.WithShape(shape...), G.WithName(name))
		nn.DeclareInput(t)
		values := make([]float64, max(1, shape.TotalSize()))
		for i := range values {
			values[i] = rng.Float64()*2 - 1
		}
		s.targets[name] = values
		terms = append(terms, nn.MSE(x, t))
	}
	for i, in := range o.in {
		name := fmt.Sprintf("x%d", i)
		if in.ints != nil {
			n := G.NewTensor(g, tensor.Int, len(in.shape), G.WithShape(in.shape...), G.WithName(name),
				G.WithValue(tensor.New(tensor.WithShape(in.shape...), tensor.WithBacking(append([]int(nil), in.ints...)))))
			nn.DeclareInput(n)
			s.leaves, s.values = append(s.leaves, n), append(s.values, nil)
			continue
		}
		values := make([]float64, max(1, tensor.Shape(in.shape).TotalSize()))
		for i := range values {
			values[i] = in.low + rng.Float64()*(in.high-in.low)
		}
		n := G.NewTensor(g, dt, len(in.shape), G.WithShape(in.shape...), G.WithName(name), G.WithValue(numbersOf(dt, in.shape, values)))
		s.leaves, s.values = append(s.leaves, n), append(s.values, values)
	}
	if s.result, err = o.build(s.leaves); err != nil {
		return nil, err
	}
	target(s.result)
	for i, n := range s.leaves {
		if o.in[i].ints == nil {
			target(n)
		}
	}
	s.loss = terms[0]
	for _, t := range terms[1:] {
		s.loss = nn.Add(s.loss, t)
	}
	return s, nil
}

// numbersOf makes a value as gorgonia keeps it.
func numbersOf(dt tensor.Dtype, shape []int, values []float64) G.Value {
	if dt == tensor.Float32 {
		x := make([]float32, len(values))
		for i, v := range values {
			x[i] = float32(v)
		}
		if len(shape) == 0 {
			return G.NewF32(x[0])
		}
		return tensor.New(tensor.WithShape(shape...), tensor.WithBacking(x))
	}
	if len(shape) == 0 {
		return G.NewF64(values[0])
	}
	return tensor.New(tensor.WithShape(shape...), tensor.WithBacking(append([]float64(nil), values...)))
}

// compute gives nodes' numbers by nothing but the ops' Do, each on copies of its arguments.
func (s *trial) compute(nodes ...*G.Node) (out [][]float64, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v", r)
		}
	}()
	known := make(map[*G.Node]G.Value)
	for i, n := range s.leaves {
		if s.values[i] != nil {
			known[n] = numbersOf(tensor.Float64, n.Shape(), s.values[i])
		}
	}
	var eval func(n *G.Node) (G.Value, error)
	eval = func(n *G.Node) (G.Value, error) {
		if v, ok := known[n]; ok {
			return v, nil
		}
		if t, ok := s.targets[n.Name()]; ok {
			return numbersOf(tensor.Float64, n.Shape(), t), nil
		}
		if v := n.Value(); v != nil {
			return v, nil
		}
		var args []G.Value
		for _, c := range op.Children(n) {
			v, err := eval(c)
			if err != nil {
				return nil, err
			}
			if _, ok := v.(*op.Tuple); !ok {
				if v, err = G.CloneValue(v); err != nil {
					return nil, err
				}
			}
			if x := v.Data(); c.IsScalar() && v.Dtype() == tensor.Float64 { // gorgonia takes scalars, and gives tensors of one number
				if list, ok := x.([]float64); ok {
					x = list[0]
				}
				v = G.NewF64(x.(float64))
			}
			args = append(args, v)
		}
		v, err := n.Op().Do(args...)
		if err != nil {
			return nil, fmt.Errorf("do %v: %w", n.Op(), err)
		}
		known[n] = v
		return v, nil
	}
	for _, n := range nodes {
		v, err := eval(n)
		if err != nil {
			return nil, err
		}
		out = append(out, plain64(v))
	}
	return out, nil
}

// plain64 are a value's numbers in row-major order.
func plain64(v G.Value) []float64 {
	if d, ok := v.(*tensor.Dense); ok && !d.IsScalar() && (d.RequiresIterator() || d.DataOrder().IsColMajor() || d.IsMaterializable()) {
		v = d.Materialize().(*tensor.Dense)
	}
	switch d := v.Data().(type) {
	case []float64:
		return append([]float64(nil), d...)
	case float64:
		return []float64{d}
	}
	panic(fmt.Sprintf("value is %v", v.Dtype()))
}

// differences is the gradient of the loss in each argument, by central differences.
func (s *trial) differences() ([][]float64, error) {
	const h = 1e-5
	out := make([][]float64, len(s.values))
	for k, values := range s.values {
		for i, x := range values {
			var at [2]float64
			for side, d := range []float64{h, -h} {
				values[i] = x + d
				loss, err := s.compute(s.loss)
				if values[i] = x; err != nil {
					return nil, err
				}
				at[side] = loss[0][0]
			}
			out[k] = append(out[k], (at[0]-at[1])/(2*h))
		}
	}
	return out, nil
}

// offBy is the largest difference, as a part of the largest number.
func offBy(got, want []float64) float64 {
	if len(got) != len(want) {
		return math.Inf(1)
	}
	scale, worst := 0.1, 0.0
	for _, v := range want {
		scale = max(scale, math.Abs(v))
	}
	for i := range got {
		if d := math.Abs(got[i]-want[i]) / scale; !(d <= worst) {
			worst = d
		}
	}
	return worst
}

// gradients is what gorgonia's own symbolic differentiation makes, computed by the ops' Do.
func (s *trial) gradients() (out [][]float64, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v", r)
		}
	}()
	var params G.Nodes
	for i, n := range s.leaves {
		if s.values[i] != nil {
			params = append(params, n)
		}
	}
	grads, err := G.Grad(s.loss, params...)
	if err != nil {
		return nil, err
	}
	got, err := s.compute(grads...)
	if err != nil {
		return nil, err
	}
	for i := range s.leaves {
		if s.values[i] == nil {
			out = append(out, nil)
			continue
		}
		out, got = append(out, got[0]), got[1:]
	}
	return out, nil
}

// step compiles the trial and takes a step.
func (s *trial) step(t *testing.T) (loss float64, gradients [][]float64, err error) {
	p, err := nn.Compile(s.loss, nn.Config{Threads: 1})
	if err != nil {
		return 0, nil, err
	}
	defer p.Close()
	for name, values := range s.targets {
		in, err := p.InputTensor(name)
		if err != nil {
			return 0, nil, err
		}
		for i, v := range values {
			in.Float32s()[i] = float32(v)
		}
	}
	if err := p.Step(t.Context(), nil); err != nil {
		return 0, nil, err
	}
	gradients = make([][]float64, len(s.leaves))
	for _, q := range p.Params() {
		for i, n := range s.leaves {
			if n.Name() != q.Name {
				continue
			}
			for _, x := range q.Gradient {
				gradients[i] = append(gradients[i], float64(x))
			}
		}
	}
	return p.Loss(), gradients, nil
}

// worst is the largest offBy of all arguments.
func worst(got, want [][]float64) float64 {
	most := 0.0
	for i := range want {
		if want[i] != nil {
			most = max(most, offBy(got[i], want[i]))
		}
	}
	return most
}

var update = flag.Bool("update", false, "write docs/design/measured/0026-gorgonia-ops.md anew")

const sweepNote = "../docs/design/measured/0026-gorgonia-ops.md"

// Each of gorgonia's functions has, in a compiled program, the value that it is documented to have
// and the gradient that finite differences give; if not, Compile refuses it. The note says which is
// which.
func TestGorgoniasFunctionsAreRightInAProgramOrRefused(t *testing.T) {
	log.SetOutput(io.Discard) // GroupNorm prints each gradient
	t.Cleanup(func() { log.SetOutput(os.Stderr) })
	var plain []string
	var rows [][4]string
	for _, o := range foreignOps() {
		row, asItIs := o.judge(t)
		if asItIs {
			plain = append(plain, o.name)
		} else {
			rows = append(rows, row)
		}
	}
	if t.Failed() {
		return
	}
	note, err := os.ReadFile(sweepNote)
	if err != nil {
		t.Fatal(err)
	}
	const begin, end = "<!-- begin of what the test writes -->\n", "<!-- end of what the test writes -->\n"
	before, rest, found := strings.Cut(string(note), begin)
	_, after, found2 := strings.Cut(rest, end)
	if !found || !found2 {
		t.Fatalf("%s has not the two marks %q and %q", sweepNote, begin, end)
	}
	var b strings.Builder
	b.WriteString("| function | gorgonia's value | gorgonia's gradient | in a program |\n| --- | --- | --- | --- |\n")
	for _, r := range rows {
		fmt.Fprintf(&b, "| %s |\n", strings.Join(r[:], " | "))
	}
	fmt.Fprintf(&b, "\nThe other %d are right, and run by gorgonia's `Do` or on a kernel for just that op: %s.\n", len(plain), strings.Join(plain, "; "))
	now := before + begin + b.String() + end + after
	if now == string(note) {
		return
	}
	if !*update {
		t.Errorf("%s is not what the sweep gives; run go test ./nn -run %s -update. It would be:\n%s", sweepNote, t.Name(), b.String())
		return
	}
	if err := os.WriteFile(sweepNote, []byte(now), 0o644); err != nil {
		t.Fatal(err)
	}
}

// judge compares and gives the note's row: function, gorgonia's value, its gradient, what a program
// does.
func (o foreignOp) judge(t *testing.T) (row [4]string, asItIs bool) {
	t.Helper()
	row[0], row[1], row[2] = o.name, "right", "right"
	s, err := o.try(tensor.Float64)
	if err != nil {
		if o.broken == "" {
			t.Errorf("%s: gorgonia cannot build it: %v", o.name, err)
		}
		return [4]string{o.name, "none", "none", o.broken}, false
	}
	values, err := s.compute(s.result, s.loss)
	if err != nil {
		t.Errorf("%s: gorgonia cannot compute it: %v", o.name, err)
		return row, false
	}
	if o.formula != nil {
		if off := offBy(values[0], o.formula(s.values)); off > 1e-9 {
			row[1] = fmt.Sprintf("wrong by %.0f %%", 100*off)
		}
	}
	want, err := s.differences()
	if err != nil {
		t.Errorf("%s: %v", o.name, err)
		return row, false
	}
	if got, err := s.gradients(); err != nil {
		row[2] = "none: an error"
	} else if off := worst(got, want); off > 1e-6 {
		row[2] = fmt.Sprintf("wrong by %.0f %%", 100*off)
	}
	c, err := o.try(tensor.Float32)
	if err != nil {
		t.Errorf("%s: %v", o.name, err)
		return row, false
	}
	loss, gradients, err := c.step(t)
	if o.refused != "" {
		if err == nil || !strings.Contains(err.Error(), o.refused) {
			t.Errorf("%s: Compile gives %v, want an error with %q", o.name, err, o.refused)
		}
		row[3] = "refused: " + o.refused
		return row, false
	}
	if err != nil {
		t.Errorf("%s: %v", o.name, err)
		return row, false
	}
	if d := math.Abs(loss - values[1][0]); !(d <= 1e-5*max(1, math.Abs(values[1][0]))) {
		t.Errorf("%s: the loss is %g in a program, %g by gorgonia's ops", o.name, loss, values[1][0])
	}
	if off := worst(gradients, want); !(off <= 1e-4) {
		t.Errorf("%s: the gradient in a program is off by %.2g of its largest number from finite differences", o.name, off)
	}
	if row[1] != "right" && o.known == "" {
		t.Errorf("%s: its value is %s, and Compile takes it", o.name, row[1])
	}
	row[3] = "translated: " + translated(t, c)
	if o.known != "" {
		row[3] = o.known
	} else if row[3] == "translated: " {
		return row, true
	}
	return row, false
}

// translated says what stands for the first op below the result, from the top, that is another one;
// "" if all are gorgonia's own.
func translated(t *testing.T, s *trial) string {
	graph, err := translate.Of(true, s.loss)
	if err != nil {
		t.Fatal(err)
	}
	todo := G.Nodes{s.result}
	for len(todo) > 0 {
		n := todo[0]
		todo = append(todo[1:], op.Children(n)...)
		m := graph.Node(n)
		if m == nil || n.Op() == nil || fmt.Sprintf("%T %v", m.Op(), m.Op()) == fmt.Sprintf("%T %v", n.Op(), n.Op()) {
			continue
		}
		for {
			switch o := m.Op().(type) {
			case *op.Take, *op.Reshape:
				m = op.Children(m)[0]
				continue
			default:
				if is := fmt.Sprintf("%T", o); is != "translate.corrected" {
					return strings.TrimPrefix(is, "*")
				}
				return "the gradient is ours"
			}
		}
	}
	return ""
}
