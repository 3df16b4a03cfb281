package nn_test

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/paragon-train/paragon/internal/compute/op"
	"github.com/paragon-train/paragon/internal/compute/ref"
	"github.com/paragon-train/paragon/nn"
	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// Recurrent models are among models.
func init() { models = append(models, recurrentModels...) }

var recurrentModels = []model{
	classifier("LSTM", 5, []int{7, 4}, func(x *gorgonia.Node) *gorgonia.Node {
		y, _, _ := nn.LSTM(x, "lstm", nn.RecurrentConfig{Hidden: 20, Layers: 2, Bidirectional: true, Dropout: 0.25})
		return end(y)
	}),
	classifier("GRU", 7, []int{9, 3}, func(x *gorgonia.Node) *gorgonia.Node {
		y, _ := nn.GRU(x, "gru", nn.RecurrentConfig{Hidden: 35, Bidirectional: true})
		y, _ = nn.GRU(y, "last", nn.RecurrentConfig{Hidden: 6, NoBias: true})
		return end(y)
	}),
	// Tiles of each height, and panels and parts of sums that are cut.
	classifier("wide LSTM", 29, []int{3, 4}, func(x *gorgonia.Node) *gorgonia.Node {
		y, _, _ := nn.LSTM(x, "lstm", nn.RecurrentConfig{Hidden: 300, NoBias: true})
		return end(nn.Slice(y, 1, 2, 3))
	}),
	{"LSTM classifier", 3, func(g *gorgonia.ExprGraph) *gorgonia.Node {
		y := nn.LSTMClassifier(nn.IDs(g, "ids", 6, 5), nn.LSTMClassifierConfig{Vocabulary: 3, Width: 8, Hidden: 10, Layers: 2, Bidirectional: true, Classes: 3})
		return nn.SoftmaxCrossEntropy(y, nn.Labels(g, "labels", 6))
	}},
}

type recurrentOracle struct {
	Name       string
	Attributes struct {
		Layers        int
		Bidirectional bool
		Lengths       []float64
	}
	Inputs          map[string]array
	Outputs         map[string]array
	OutputGradients map[string]array `json:"output_gradients"`
	InputGradients  map[string]array `json:"input_gradients"`
}

func recurrentOracles(t *testing.T, f func(t *testing.T, c *recurrentOracle)) {
	for i, c := range readOracles[recurrentOracle](t, "recurrent.json") {
		t.Run(fmt.Sprintf("%d %s", i, c.Name), func(t *testing.T) { f(t, &c) })
	}
}

// build makes the oracle's layer, called rnn, with the loss Σ y⊙dy + hT⊙dhT + cT⊙dcT. outs are the
// results by the oracle's names.
func (c *recurrentOracle) build(dt tensor.Dtype) (loss *gorgonia.Node, outs map[string]*gorgonia.Node) {
	g := gorgonia.NewGraph()
	op.RegistryOf(g).Dtype = dt
	leaf := func(name string) *gorgonia.Node {
		in, ok := c.Inputs[name]
		if !ok {
			return nil
		}
		return parameter(g, dt, name, in.numbers(), in.Shape...)
	}
	x := leaf("x")
	cfg := nn.RecurrentConfig{Layers: c.Attributes.Layers, Bidirectional: c.Attributes.Bidirectional, H0: leaf("h0"), C0: leaf("c0")}
	cfg.Hidden = c.Inputs["weight_hh_l0"].Shape[1]
	_, biased := c.Inputs["bias_hh_l0"]
	cfg.NoBias = !biased
	if c.Attributes.Lengths != nil {
		cfg.Lengths = nn.IDs(g, "lengths", len(c.Attributes.Lengths))
	}
	outs = make(map[string]*gorgonia.Node)
	if strings.HasPrefix(c.Name, "GRU") {
		outs["y"], outs["hT"] = nn.GRU(x, "rnn", cfg)
	} else {
		outs["y"], outs["hT"], outs["cT"] = nn.LSTM(x, "rnn", cfg)
	}
	for _, name := range slices.Sorted(maps.Keys(outs)) {
		d := gorgonia.NewTensor(g, dt, 3, gorgonia.WithShape(outs[name].Shape()...), gorgonia.WithName("d"+name))
		op.RegistryOf(g).SetRole(d, op.RoleInput)
		sum := gorgonia.Must(gorgonia.Sum(gorgonia.Must(gorgonia.HadamardProd(outs[name], d))))
		if loss == nil {
			loss = sum
		} else {
			loss = gorgonia.Must(gorgonia.Add(loss, sum))
		}
	}
	return loss, outs
}

// oracleName is the oracle's name of a parameter.
func oracleName(name string) string { return strings.TrimPrefix(name, "rnn.") }

func TestRecurrentLoopsGiveWhatTorchGives(t *testing.T) {
	recurrentOracles(t, func(t *testing.T, c *recurrentOracle) {
		loss, outs := c.build(tensor.Float64)
		r, err := ref.New(loss)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		set := func(name string, x []float64) {
			if err := r.Set(name, x); err != nil {
				t.Fatal(err)
			}
		}
		for name, d := range c.OutputGradients {
			set(name, d.numbers())
		}
		if c.Attributes.Lengths != nil {
			set("lengths", c.Attributes.Lengths)
		}
		for _, name := range r.Params() {
			set(name, c.Inputs[oracleName(name)].numbers())
		}
		if err := r.Step(); err != nil {
			t.Fatal(err)
		}
		for name, n := range outs {
			got, err := r.Eval(n)
			if err != nil {
				t.Fatal(err)
			}
			near(t, name, converted[float32](got), c.Outputs[name].numbers(), 1e-6)
		}
		if got, want := len(r.Params()), len(c.InputGradients); got != want {
			t.Errorf("the graph has %d parameters, want %d", got, want)
		}
		for _, name := range r.Params() {
			near(t, "gradient of "+name, converted[float32](r.Grad(name)), c.InputGradients["d"+oracleName(name)].numbers(), 1e-6)
		}
	})
}

// Outputs that are apart from one array, and those in it, when something else reads them, are the
// same; and so on any number of threads.
func TestRecurrentGivesWhatTorchGives(t *testing.T) {
	recurrentOracles(t, func(t *testing.T, c *recurrentOracle) {
		var first *nn.Program
		for _, threads := range []int{1, 2, 5} {
			loss, outs := c.build(tensor.Float32)
			ints, inputs := make(map[string][]float64), make(map[string][]float64)
			if c.Attributes.Lengths != nil {
				ints["lengths"] = c.Attributes.Lengths
			}
			for name, d := range c.OutputGradients {
				inputs[name] = d.numbers()
			}
			p, err := nn.Compile(loss, nn.Config{Threads: threads, Outputs: slices.Collect(maps.Values(outs))})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { p.Close() })
			for _, q := range p.Params() {
				copy(q.Value, converted[float32](c.Inputs[oracleName(q.Name)].numbers()))
			}
			feed(t, p, ints, inputs)
			for name, n := range outs {
				got, err := p.Output(n)
				if err != nil {
					t.Fatal(err)
				}
				near(t, name, got, c.Outputs[name].numbers(), 1e-5)
			}
			for _, q := range p.Params() {
				near(t, "gradient of "+q.Name, q.Gradient, c.InputGradients["d"+oracleName(q.Name)].numbers(), 1e-5)
			}
			if first == nil {
				first = p
			} else {
				sameGradients(t, first, p)
			}
		}
	})
}

// feed gives a program its inputs and takes a step.
func feed(t *testing.T, p *nn.Program, ints, inputs map[string][]float64) {
	t.Helper()
	for name, x := range ints {
		ids, err := p.IDs(name)
		if err != nil {
			t.Fatal(err)
		}
		ids.Set(converted[int32](x))
	}
	for name, x := range inputs {
		in, err := p.Input(name)
		if err != nil {
			t.Fatal(err)
		}
		copy(in, converted[float32](x))
	}
	if err := p.Step(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
}

// sameGradients compares the bits of two programs' gradients.
func sameGradients(t *testing.T, p, q *nn.Program) {
	t.Helper()
	for i, a := range p.Params() {
		for j, d := range q.Params()[i].Gradient {
			if math.Float32bits(d) != math.Float32bits(a.Gradient[j]) {
				t.Fatalf("gradient of %s at %d: %g and %g", a.Name, j, a.Gradient[j], d)
			}
		}
	}
}

// lengthsGraph is an LSTM and a GRU of both directions over examples of which some have few steps or
// none.
func lengthsGraph(batch int) *gorgonia.Node {
	g := gorgonia.NewGraph()
	x, lengths := weight(g, "x", batch, 11, 5), nn.IDs(g, "lengths", batch)
	y, h, c := nn.LSTM(x, "lstm", nn.RecurrentConfig{Hidden: 40, Bidirectional: true, Lengths: lengths})
	z, s := nn.GRU(y, "gru", nn.RecurrentConfig{Hidden: 33, Lengths: lengths})
	var loss *gorgonia.Node
	for _, n := range []*gorgonia.Node{y, h, c, z, s} {
		sum := gorgonia.Must(gorgonia.Sum(gorgonia.Must(gorgonia.HadamardProd(n, weight(g, fmt.Sprintf("weight %d", n.ID()), n.Shape()...)))))
		if loss == nil {
			loss = sum
		} else {
			loss = gorgonia.Must(gorgonia.Add(loss, sum))
		}
	}
	return loss
}

func TestRecurrentKernelsAreTheLoopsAtAnyLength(t *testing.T) {
	const batch = 50
	lengths := make([]float64, batch)
	r := rand.New(rand.NewPCG(3, 4))
	for i := range lengths {
		lengths[i] = float64(r.IntN(12))
	}
	lengths[1], lengths[2] = 0, 11
	loops, err := ref.New(lengthsGraph(batch))
	if err != nil {
		t.Fatal(err)
	}
	defer loops.Close()
	if err := loops.Set("lengths", lengths); err != nil {
		t.Fatal(err)
	}
	if err := loops.Step(); err != nil {
		t.Fatal(err)
	}
	var first *nn.Program
	for _, threads := range []int{1, 2, 3, 7} {
		p, err := nn.Compile(lengthsGraph(batch), nn.Config{Threads: threads})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { p.Close() })
		// What memory held before has no part in it.
		for range 2 {
			feed(t, p, map[string][]float64{"lengths": lengths}, nil)
		}
		if first == nil {
			first = p
			for _, q := range p.Params() {
				near(t, "gradient of "+q.Name, q.Gradient, loops.Grad(q.Name), 1e-5)
			}
			continue
		}
		sameGradients(t, first, p)
	}
	ids, err := first.IDs("lengths")
	if err != nil {
		t.Fatal(err)
	}
	lengths[4] = 12
	ids.Set(converted[int32](lengths))
	if err := first.Step(t.Context(), nil); err == nil || !strings.Contains(err.Error(), "length 12 of example 4, want 0 to 11") {
		t.Errorf("a length beyond the steps: error %v, want one that names it", err)
	}
}

// Results are written where they are wanted, and their gradients read where they are: no array is
// put together or cut.
func TestPlansOfRecurrentLayersMoveNothing(t *testing.T) {
	g := gorgonia.NewGraph()
	y, h, c := nn.LSTM(nn.Input(g, "x", 4, 6, 3), "lstm", nn.RecurrentConfig{Hidden: 8})
	sum := nn.Add(nn.Add(nn.Reshape(h, 4, 1, 8), nn.Reshape(c, 4, 1, 8)), y)
	p, err := nn.Compile(nn.SoftmaxCrossEntropy(end(sum), nn.Labels(g, "labels", 4)), nn.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	plan := fmt.Sprint(p.Plan())
	for kind, want := range map[string]int{" = Recurrent(": 1, " = RecurrentGrad(": 1, " = Join(": 0, " = Slice(": 0} {
		if got := strings.Count(plan, kind); got != want {
			t.Errorf("the plan has %d of %q, want %d:\n%s", got, kind, want, plan)
		}
	}
}

func TestRecurrentLayersStartAsPyTorchs(t *testing.T) {
	g := gorgonia.NewGraph()
	nn.LSTM(nn.Input(g, "x", 2, 3, 4), "lstm", nn.RecurrentConfig{Hidden: 25, Layers: 2, Bidirectional: true})
	n := 0
	for _, p := range nn.Parameters(g) {
		most := 0.0
		for _, v := range p.Value().Data().([]float32) {
			most = max(most, math.Abs(float64(v)))
			n++
		}
		if most > 0.2 || most < 0.19 {
			t.Errorf("%s is at most %g, want nearly 0.2", p.Name(), most)
		}
	}
	if want := 2*100*(4+25+2) + 2*100*(50+25+2); n != want {
		t.Errorf("got %d numbers, want %d", n, want)
	}
}

func TestRecurrentLayersThatCannotBeAreRefused(t *testing.T) {
	x := func() *gorgonia.Node { return nn.Input(gorgonia.NewGraph(), "x", 2, 3, 4) }
	cases := []struct {
		want  string
		build func()
	}{
		{"Hidden is 0", func() { nn.LSTM(x(), "lstm", nn.RecurrentConfig{}) }},
		{"x is (2, 3), want (B,T,I)", func() { nn.GRU(nn.Input(gorgonia.NewGraph(), "x", 2, 3), "gru", nn.RecurrentConfig{Hidden: 2}) }},
		{"a GRU has no cells", func() {
			x := x()
			nn.GRU(x, "gru", nn.RecurrentConfig{Hidden: 2, C0: nn.Input(x.Graph(), "c0", 1, 2, 2)})
		}},
		{"first states are (1, 2, 3), want (layers·directions,B,Hidden) = (2, 2, 3)", func() {
			x := x()
			nn.LSTM(x, "lstm", nn.RecurrentConfig{Hidden: 3, Layers: 2, H0: nn.Input(x.Graph(), "h0", 1, 2, 3)})
		}},
		{"Lengths are (3), want (2)", func() {
			x := x()
			nn.LSTM(x, "lstm", nn.RecurrentConfig{Hidden: 3, Lengths: nn.IDs(x.Graph(), "lengths", 3)})
		}},
		{"0 classes", func() {
			nn.LSTMClassifier(nn.IDs(gorgonia.NewGraph(), "ids", 2, 3), nn.LSTMClassifierConfig{Vocabulary: 2, Width: 2, Hidden: 2})
		}},
	}
	for _, c := range cases {
		func() {
			defer func() {
				if got := fmt.Sprint(recover()); !strings.Contains(got, c.want) {
					t.Errorf("got %q, want %q in it", got, c.want)
				}
			}()
			c.build()
		}()
	}
}

// An LSTM finds out whether a sequence's first token comes again: it has to remember it.
func TestLSTMClassifierLearns(t *testing.T) {
	const batch, steps, vocabulary = 32, 8, 4
	g := gorgonia.NewGraph()
	cfg := nn.LSTMClassifierConfig{Vocabulary: vocabulary, Width: 8, Hidden: 16, Classes: vocabulary, Lengths: nn.IDs(g, "lengths", batch)}
	loss := nn.SoftmaxCrossEntropy(nn.LSTMClassifier(nn.IDs(g, "ids", batch, steps), cfg), nn.Labels(g, "labels", batch))
	p, err := nn.Compile(loss, nn.Config{Threads: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	n := 0
	for _, q := range p.Params() {
		n += len(q.Value)
	}
	if want := cfg.Parameters(); n != want {
		t.Errorf("the model has %d parameters, want %d", n, want)
	}
	inputs := make(map[string]interface{ Set([]int32) })
	for _, name := range []string{"ids", "lengths"} {
		if inputs[name], err = p.IDs(name); err != nil {
			t.Fatal(err)
		}
	}
	if inputs["labels"], err = p.Labels("labels"); err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(1, 2))
	ids, lengths, labels := make([]int32, batch*steps), make([]int32, batch), make([]int32, batch)
	moments := make([][2][]float64, len(p.Params()))
	var mean float64
	const taken = 300
	for k := range taken {
		for b := range batch {
			for i := range steps {
				ids[b*steps+i] = int32(r.IntN(vocabulary))
			}
			lengths[b], labels[b] = int32(4+r.IntN(5)), ids[b*steps]
		}
		inputs["ids"].Set(ids)
		inputs["lengths"].Set(lengths)
		inputs["labels"].Set(labels)
		if err := p.Step(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		for i, q := range p.Params() {
			adam(q, &moments[i], k+1)
		}
		if k >= taken-20 {
			mean += p.Loss() / 20
		}
	}
	if n := testing.AllocsPerRun(3, func() { step(t, p, nil) }); n != 0 {
		t.Errorf("a step allocates %g times", n)
	}
	if !(mean < 0.1) {
		t.Errorf("the loss is %g at the end, and %g by chance; want below 0.1", mean, math.Log(vocabulary))
	}
}

// adam changes a parameter by Adam's rule at a rate of 0.01.
func adam(p nn.Param, moments *[2][]float64, step int) {
	if moments[0] == nil {
		moments[0], moments[1] = make([]float64, len(p.Value)), make([]float64, len(p.Value))
	}
	for i, d := range p.Gradient {
		d := float64(d)
		m, v := &moments[0][i], &moments[1][i]
		*m, *v = 0.9**m+0.1*d, 0.999**v+0.001*d*d
		p.Value[i] -= float32(0.01 * *m / (1 - math.Pow(0.9, float64(step))) / (math.Sqrt(*v/(1-math.Pow(0.999, float64(step)))) + 1e-8))
	}
}
