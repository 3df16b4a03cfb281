package nn_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/paragon-train/paragon/internal/compute/op"
	"github.com/paragon-train/paragon/internal/compute/ref"
	"github.com/paragon-train/paragon/nn"
	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// everyNorm has batch normalisations in all surroundings, dropout, and both losses.
func everyNorm(batch int) model {
	return model{"every norm", 10, func(g *gorgonia.ExprGraph) *gorgonia.Node {
		x := nn.Input(g, "x", batch, 3, 4, 4)
		x = nn.ReLU(nn.BatchNorm2D(conv(x, "conv0", 8, 3, 1, 1), "bn0", nn.BatchNormConfig{}))
		y := nn.BatchNorm2D(conv(x, "conv1", 8, 3, 1, 1), "bn1", nn.BatchNormConfig{})
		x = nn.ReLU(nn.Add(y, x))
		x = nn.BatchNorm2D(conv(nn.Dropout(x, "drop", 0.2), "conv2", 16, 3, 2, 1), "bn2", nn.BatchNormConfig{})
		x = nn.GlobalAvgPool2D(nn.ReLU(nn.Add(conv(x, "conv3", 16, 1, 1, 0), x)))
		x = nn.Linear(x, "fc", nn.LinearConfig{Out: 10})
		square := nn.MSE(nn.Softmax(x), nn.Input(g, "t", batch, 10))
		return nn.Add(nn.SmoothedCrossEntropy(x, nn.Labels(g, "labels", batch), 0.1), square)
	}}
}

// A stepper is a program or a reference.
type stepper struct {
	set    func(n int) error
	step   func() error
	loss   func() float64
	grad   func(name string) []float64
	state  func() []float64
	input  func(name string, values []float64)
	params []string
}

func programStepper(t *testing.T, m model, cfg nn.Config) stepper {
	_, p := compile(t, m, cfg)
	return programStepperOf(t, p)
}

func programStepperOf(t *testing.T, p *nn.Program) stepper {
	s := stepper{set: p.SetExamples, step: func() error { return p.Step(t.Context(), nil) }, loss: p.Loss}
	for _, q := range p.Params() {
		s.params = append(s.params, q.Name)
	}
	s.grad = func(name string) []float64 {
		i := slices.Index(s.params, name)
		return doubles(p.Params()[i].Gradient)
	}
	s.state = func() (all []float64) {
		for _, q := range p.State() {
			all = append(all, doubles(q.Value)...)
		}
		return all
	}
	s.input = func(name string, values []float64) {
		x, err := p.InputTensor(name)
		if err != nil {
			t.Fatal(err)
		}
		switch to := x.Data().(type) {
		case []float32:
			for i := range to {
				to[i] = float32(values[i])
			}
		case []int32:
			for i := range to {
				to[i] = int32(values[i])
			}
		}
	}
	return s
}

func doubles(x []float32) []float64 {
	out := make([]float64, len(x))
	for i, v := range x {
		out[i] = float64(v)
	}
	return out
}

func referenceStepper(t *testing.T, m model) stepper {
	loss, r := reference(t, m)
	return stepper{set: r.SetExamples, step: r.Step, loss: r.Loss, grad: r.Grad, params: r.Params(),
		state: func() (all []float64) {
			for _, s := range op.States(loss.Graph()) {
				m, err := ref.Numbers(s.Value)
				if err != nil {
					t.Fatal(err)
				}
				all = append(all, m...)
			}
			return all
		},
		input: func(name string, values []float64) {
			for _, l := range op.Leaves(loss.Graph()) {
				if l.Node.Name() != name {
					continue
				}
				if err := r.Set(name, values[:l.Node.Shape().TotalSize()]); err != nil {
					t.Fatal(err)
				}
			}
		}}
}

// fillEveryNorm fills examples; those from there on are padding, far from the others.
func fillEveryNorm(s stepper, there int, seed float64) {
	const batch = 8
	fill := func(name string, of int, value func(k float64) float64, padding float64) {
		values := make([]float64, batch*of)
		for i := range values {
			if values[i] = padding; i/of < there {
				values[i] = value(float64(i) + seed)
			}
		}
		s.input(name, values)
	}
	fill("x", 3*4*4, func(k float64) float64 { return 2 * math.Sin(k*k) }, 1000)
	fill("t", 10, func(k float64) float64 { return math.Cos(k) / 3 }, -500)
	fill("labels", 1, func(k float64) float64 { return math.Mod(math.Floor(7*k), 10) }, 3)
}

// A short batch gives the loss, the gradients and the running statistics of a graph whose batch has
// that size, on all executors; the batch after it is a whole one again.
func TestAShortBatchEqualsASmallerGraph(t *testing.T) {
	onFakes(t)
	executors := []struct {
		name      string
		build     func(t *testing.T, m model) stepper
		tolerance float64
	}{
		{"reference", referenceStepper, 1e-5},
		{"cpu", func(t *testing.T, m model) stepper { return programStepper(t, m, nn.Config{Threads: 2}) }, 1e-5},
		{"cpu bf16", func(t *testing.T, m model) stepper {
			return programStepper(t, m, nn.Config{Threads: 1, DType: nn.BFloat16})
		}, 0.25},
		{"cuda", func(t *testing.T, m model) stepper {
			return programStepper(t, m, nn.Config{Device: "cuda:0", DType: nn.Float32})
		}, 1e-5},
		{"cuda bf16", func(t *testing.T, m model) stepper { return programStepper(t, m, nn.Config{Device: "cuda:0"}) }, 0.3},
	}
	for i, e := range executors {
		// One example is where the variance has no unbiased estimate: CPU and GPU have it
		// in float32.
		n := []int{5, 1}[i%2]
		t.Run(fmt.Sprintf("%s/%d", e.name, n), func(t *testing.T) {
			short, small, whole := e.build(t, everyNorm(8)), referenceStepper(t, everyNorm(n)), referenceStepper(t, everyNorm(8))
			done := map[int]int{}                           // steps of the references: Dropout goes by them
			for i, there := range []int{n, n, 8, 8, n, 8} { // the second whole run of a GPU is captured
				if err := short.set(there); err != nil {
					t.Fatal(err)
				}
				want := small
				if there == 8 {
					want = whole
				}
				for ; done[there] < i; done[there]++ {
					fillEveryNorm(want, there, 0)
					if err := want.step(); err != nil {
						t.Fatal(err)
					}
				}
				fillEveryNorm(short, there, float64(i))
				fillEveryNorm(want, there, float64(i))
				if err := short.step(); err != nil {
					t.Fatal(err)
				}
				if err := want.step(); err != nil {
					t.Fatal(err)
				}
				done[there]++
				same(t, fmt.Sprintf("loss of step %d", i), []float64{short.loss()}, []float64{want.loss()}, e.tolerance)
				var got, wanted []float64
				for _, name := range short.params {
					got, wanted = append(got, short.grad(name)...), append(wanted, want.grad(name)...)
				}
				same(t, fmt.Sprintf("gradients of step %d", i), got, wanted, e.tolerance)
				if i < 2 {
					same(t, fmt.Sprintf("statistics of step %d", i), short.state(), want.state(), e.tolerance)
				}
			}
			before := short.state()
			if err := short.set(0); err != nil {
				t.Fatal(err)
			}
			if err := short.step(); err != nil {
				t.Fatal(err)
			}
			if after := short.state(); !slices.Equal(before, after) {
				t.Error("a run without examples moved the running statistics")
			}
			for _, name := range short.params {
				if g := short.grad(name); slices.ContainsFunc(g, func(v float64) bool { return v != 0 }) {
					t.Errorf("a run without examples gave %s a gradient: %v", name, g[:min(len(g), 4)])
				}
			}
		})
	}
}

// A run without examples has no gradients and moves no statistics where the batch size is not
// known, too, and whatever the loss is made of.
func TestARunWithoutExamplesHasNoGradients(t *testing.T) {
	onFakes(t)
	m := model{"two inputs and a decay", 10, func(g *gorgonia.ExprGraph) *gorgonia.Node {
		x := nn.BatchNorm2D(nn.Input(g, "x", 4, 6, 2, 2), "bn", nn.BatchNormConfig{})
		x = nn.Linear(nn.GlobalAvgPool2D(x), "fc", nn.LinearConfig{Out: 10})
		y := nn.Linear(nn.Input(g, "y", 3, 6), "fc2", nn.LinearConfig{Out: 10})
		w := slices.DeleteFunc(nn.Parameters(g), func(n *gorgonia.Node) bool { return n.Shape().Dims() != 2 })
		loss := nn.Add(nn.SoftmaxCrossEntropy(x, nn.Labels(g, "labels", 4)), nn.SoftmaxCrossEntropy(y, nn.Labels(g, "labels2", 3)))
		return nn.Add(loss, nn.MSE(w[0], w[1]))
	}}
	for name, s := range map[string]stepper{
		"reference": referenceStepper(t, m),
		"cpu":       programStepper(t, m, nn.Config{Threads: 1}),
		"own mask":  programStepper(t, m, nn.Config{Threads: 1, OwnMask: true}),
		"cuda":      programStepper(t, m, nn.Config{Device: "cuda:0", DType: nn.Float32}),
	} {
		t.Run(name, func(t *testing.T) {
			for input, n := range map[string]int{"x": 4 * 6 * 2 * 2, "y": 3 * 6, "labels": 4, "labels2": 3} {
				values := make([]float64, n)
				for i := range values {
					values[i] = float64(i % 5)
				}
				s.input(input, values)
			}
			before := s.state()
			if err := s.set(0); err != nil {
				t.Fatal(err)
			}
			if err := s.step(); err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(s.state(), before) {
				t.Error("it moved the running statistics")
			}
			for _, p := range s.params {
				if g := s.grad(p); slices.ContainsFunc(g, func(v float64) bool { return v != 0 }) {
					t.Errorf("%s has the gradient %v, want zeros", p, g[:min(len(g), 4)])
				}
			}
		})
	}
}

// same compares two vectors by the length of their difference.
func same(t *testing.T, what string, got, want []float64, tolerance float64) {
	t.Helper()
	var off, size float64
	for i, w := range want {
		off += (got[i] - w) * (got[i] - w)
		size += w * w
	}
	if d := math.Sqrt(off / size); !(d <= tolerance) {
		t.Errorf("%s: off by %.3g of its length, want at most %g", what, d, tolerance)
	}
}

// Labels of −1 leave out rows among the examples, too; the count says which rows are examples.
func TestLabelsMayMarkRowsThatAreNotTheLastOnes(t *testing.T) {
	m := tenClasses("mlp", 6, []int{5}, func(x *gorgonia.Node) *gorgonia.Node { return nn.Linear(x, "fc", nn.LinearConfig{Out: 10}) })
	loss, p := compile(t, m, nn.Config{Threads: 1})
	fillInputs(t, loss.Graph(), p, nil, 10, 1)
	labels, err := p.Labels("labels")
	if err != nil {
		t.Fatal(err)
	}
	labels.Set([]int32{3, -1, 4, -1, 2})
	step(t, p, nil)
	want := slices.Clone(p.Params()[0].Gradient)
	labels.Set([]int32{3, -1, 4, -1, 2, 1})
	copy(labelsOf(t, p)[5:], []int32{0})
	if err := p.SetExamples(5); err != nil {
		t.Fatal(err)
	}
	step(t, p, nil)
	if !slices.Equal(p.Params()[0].Gradient, want) {
		t.Error("another gradient with 5 examples, of which 3 have a label, than with the 3 labels")
	}
}

func labelsOf(t *testing.T, p *nn.Program) []int32 {
	x, err := p.InputTensor("labels")
	if err != nil {
		t.Fatal(err)
	}
	return x.Data().([]int32)
}

// What a batch is, and where padding would count.
func TestSetExamplesKnowsWherePaddingWouldCount(t *testing.T) {
	G := gorgonia.Must
	linear := func(x *gorgonia.Node) *gorgonia.Node { return nn.Linear(x, "fc", nn.LinearConfig{Out: 3}) }
	for _, test := range []struct {
		name  string
		batch int
		err   string // of 2 examples; empty: none
		build func(g *gorgonia.ExprGraph) *gorgonia.Node
	}{
		{"MSE", 4, "", func(g *gorgonia.ExprGraph) *gorgonia.Node {
			return nn.MSE(linear(nn.Input(g, "x", 4, 2)), nn.Input(g, "t", 4, 3))
		}},
		{"MSE of sequences", 4, "", func(g *gorgonia.ExprGraph) *gorgonia.Node {
			x := G(gorgonia.Reshape(nn.Input(g, "x", 4, 5, 2), tensor.Shape{20, 2}))
			return nn.MSE(linear(x), G(gorgonia.Reshape(nn.Input(g, "t", 4, 5, 3), tensor.Shape{20, 3})))
		}},
		{"MSE of rows that are no examples", 4, "rows are not those of examples", func(g *gorgonia.ExprGraph) *gorgonia.Node {
			x := G(gorgonia.Transpose(linear(nn.Input(g, "x", 4, 2)), 1, 0))
			return nn.MSE(x, G(gorgonia.Transpose(nn.Input(g, "t", 4, 3), 1, 0)))
		}},
		{"decay by MSE of parameters", 4, "", func(g *gorgonia.ExprGraph) *gorgonia.Node {
			y := linear(nn.Input(g, "x", 4, 2))
			w := nn.Parameters(g)[0]
			zero := gorgonia.NewConstant(tensor.New(tensor.WithShape(3, 2), tensor.Of(tensor.Float32)))
			return nn.Add(nn.MSE(y, nn.Input(g, "t", 4, 3)), nn.MSE(w, zero))
		}},
		{"soft targets", 4, "", func(g *gorgonia.ExprGraph) *gorgonia.Node {
			return nn.SoftCrossEntropy(linear(nn.Input(g, "x", 4, 2)), nn.Input(g, "t", 4, 3))
		}},
		{"soft targets of rows that are no examples", 4, "rows are not those of examples", func(g *gorgonia.ExprGraph) *gorgonia.Node {
			x := G(gorgonia.Transpose(linear(nn.Input(g, "x", 4, 2)), 1, 0))
			return nn.SoftCrossEntropy(x, G(gorgonia.Transpose(nn.Input(g, "t", 4, 3), 1, 0)))
		}},
		{"several labels of softened examples", 4, "padding would count in Softmax{axis 0 log false} over examples", func(g *gorgonia.ExprGraph) *gorgonia.Node {
			t := G(gorgonia.SoftMax(nn.Input(g, "t", 4, 3), 0))
			return nn.BinaryCrossEntropy(linear(nn.Input(g, "x", 4, 2)), t, nn.BinaryCrossEntropyConfig{})
		}},
		{"a sum of gorgonia's", 4, `padding of "x" would count`, func(g *gorgonia.ExprGraph) *gorgonia.Node {
			return G(gorgonia.Sum(linear(nn.Input(g, "x", 4, 2))))
		}},
		{"softmax over examples' means", 4, "padding would count in Σ[0] over examples", func(g *gorgonia.ExprGraph) *gorgonia.Node {
			y := linear(nn.Input(g, "x", 4, 2))
			y = G(gorgonia.BroadcastSub(y, G(gorgonia.Reshape(G(gorgonia.Mean(y, 0)), tensor.Shape{1, 3})), nil, []byte{0}))
			return nn.SoftmaxCrossEntropy(y, nn.Labels(g, "labels", 4))
		}},
		{"means of features", 4, "", func(g *gorgonia.ExprGraph) *gorgonia.Node {
			y := linear(nn.Input(g, "x", 4, 2))
			return nn.MSE(G(gorgonia.Mean(y, 1)), nn.Input(g, "t", 4))
		}},
		{"weights", 4, "", func(g *gorgonia.ExprGraph) *gorgonia.Node {
			w := nn.ExampleWeights(g, 4)
			if nn.ExampleWeights(g, 4) != w {
				t.Error("asked again for the weights, it is another node")
			}
			return G(gorgonia.Sum(G(gorgonia.HadamardProd(G(gorgonia.Mean(linear(nn.Input(g, "x", 4, 2)), 1)), w))))
		}},
		{"inputs that differ, with a loss of ours", 0, "the batch size is not known", func(g *gorgonia.ExprGraph) *gorgonia.Node {
			ids := nn.Flatten(nn.Embedding(nn.IDs(g, "ids", 12), "table", nn.EmbeddingConfig{Rows: 9, Dim: 2}))
			y := linear(G(gorgonia.Reshape(ids, tensor.Shape{4, 6})))
			return nn.MSE(nn.Add(y, nn.Linear(nn.Input(g, "x", 4, 2), "fc2", nn.LinearConfig{Out: 3})), nn.Input(g, "t", 4, 3))
		}},
		{"inputs that differ, with weights that say what a batch is", 4, "", func(g *gorgonia.ExprGraph) *gorgonia.Node {
			nn.ExampleWeights(g, 4)
			ids := nn.Flatten(nn.Embedding(nn.IDs(g, "ids", 12), "table", nn.EmbeddingConfig{Rows: 9, Dim: 2}))
			return nn.MSE(linear(G(gorgonia.Reshape(ids, tensor.Shape{4, 6}))), nn.Input(g, "t", 4, 3))
		}},
		{"inputs that differ, with labels", 0, "the batch size is not known", func(g *gorgonia.ExprGraph) *gorgonia.Node {
			ids := nn.Flatten(nn.Embedding(nn.IDs(g, "ids", 12), "table", nn.EmbeddingConfig{Rows: 9, Dim: 2}))
			return nn.SoftmaxCrossEntropy(linear(G(gorgonia.Reshape(ids, tensor.Shape{4, 6}))), nn.Labels(g, "labels", 4))
		}},
		{"inputs that differ, with a batch normalisation", 0, "the batch size is not known", func(g *gorgonia.ExprGraph) *gorgonia.Node {
			y := nn.BatchNorm2D(nn.Input(g, "x", 4, 3, 2, 2), "bn", nn.BatchNormConfig{})
			y = G(gorgonia.Reshape(G(gorgonia.Transpose(y, 0, 2, 3, 1)), tensor.Shape{16, 3}))
			return nn.SoftmaxCrossEntropy(y, nn.Labels(g, "labels", 16)) // a class for each pixel
		}},
		{"a batch normalisation of rows that are no examples", 4, "rows are not those of examples", func(g *gorgonia.ExprGraph) *gorgonia.Node {
			y := nn.BatchNorm2D(G(gorgonia.Transpose(nn.Input(g, "x", 4, 3, 2, 2), 1, 0, 2, 3)), "bn", nn.BatchNormConfig{})
			y = nn.Flatten(G(gorgonia.Transpose(y, 1, 0, 2, 3)))
			return nn.SoftmaxCrossEntropy(linear(y), nn.Labels(g, "labels", 4))
		}},
		{"each example with each other", 4, "padding would count in A × B over examples", func(g *gorgonia.ExprGraph) *gorgonia.Node {
			y := linear(nn.Input(g, "x", 4, 2))
			return nn.SoftmaxCrossEntropy(G(gorgonia.Mul(y, G(gorgonia.Transpose(nn.Input(g, "other", 4, 3), 1, 0)))), nn.Labels(g, "labels", 4))
		}},
		{"two batches as one", 4, "padding would count in Concat(axis=0) over examples", func(g *gorgonia.ExprGraph) *gorgonia.Node {
			y := linear(G(gorgonia.Concat(0, nn.Input(g, "x", 4, 2), nn.Input(g, "other", 4, 2))))
			return nn.MSE(y, G(gorgonia.Concat(0, nn.Input(g, "t", 4, 3), nn.Input(g, "u", 4, 3))))
		}},
		{"softmax over examples", 4, "padding would count in Softmax{axis 0 log false} over examples", func(g *gorgonia.ExprGraph) *gorgonia.Node {
			return nn.MSE(G(gorgonia.SoftMax(linear(nn.Input(g, "x", 4, 2)), 0)), nn.Input(g, "t", 4, 3))
		}},
		{"a loss of losses in many ways", 4, "", func(g *gorgonia.ExprGraph) *gorgonia.Node {
			loss := nn.MSE(linear(nn.Input(g, "x", 4, 2)), nn.Input(g, "t", 4, 3))
			for range 50 {
				loss = G(gorgonia.Add(loss, G(gorgonia.Neg(loss))))
			}
			return loss
		}},
		{"inputs that differ, with another loss", 0, "first dimensions [4 12]", func(g *gorgonia.ExprGraph) *gorgonia.Node {
			ids := nn.Embedding(nn.IDs(g, "ids", 12), "table", nn.EmbeddingConfig{Rows: 9, Dim: 2})
			return nn.Add(G(gorgonia.Mean(ids)), G(gorgonia.Mean(linear(nn.Input(g, "x", 4, 2)))))
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, p := compile(t, model{test.name, 3, test.build}, nn.Config{Threads: 1})
			if p.Batch() != test.batch {
				t.Errorf("the batch is %d, want %d", p.Batch(), test.batch)
			}
			switch err := p.SetExamples(2); {
			case test.err == "" && err != nil:
				t.Errorf("two examples: got error %v, want none", err)
			case test.err != "" && (err == nil || !strings.Contains(err.Error(), test.err) || !strings.Contains(err.Error(), "nn.ExampleWeights")):
				t.Errorf("two examples: got error %v, want one with %q", err, test.err)
			}
			for _, n := range []int{0, 4} {
				if err := p.SetExamples(n); err != nil {
					t.Errorf("%d examples: got error %v, want none", n, err)
				}
			}
			_, own := compile(t, model{test.name, 3, test.build}, nn.Config{Threads: 1, OwnMask: true})
			if err := own.SetExamples(2); err != nil || own.Batch() != 0 {
				t.Errorf("with OwnMask the batch is %d, and two examples give error %v, want 0 and none", own.Batch(), err)
			}
		})
	}
}

// Weights that only an output reads say nothing of the loss.
func TestWeightsOfAnOutputAreNotThoseOfTheLoss(t *testing.T) {
	G := gorgonia.Must
	g := gorgonia.NewGraph()
	y := nn.Linear(nn.Input(g, "x", 4, 2), "fc", nn.LinearConfig{Out: 1})
	hits := G(gorgonia.Sum(G(gorgonia.HadamardProd(G(gorgonia.Sum(y, 1)), nn.ExampleWeights(g, 4)))))
	p, err := nn.Compile(G(gorgonia.Mean(G(gorgonia.Square(y)))), nn.Config{Threads: 1, Outputs: gorgonia.Nodes{hits}})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if err := p.SetExamples(2); err == nil || !strings.Contains(err.Error(), "would count in the loss") {
		t.Errorf("two examples: got error %v, want one that says that padding would count in the loss", err)
	}
}

// Programs of one graph have one memory of weights; each run has its own program's.
func TestProgramsThatShareExampleWeightsHaveTheirOwn(t *testing.T) {
	G := gorgonia.Must
	g := gorgonia.NewGraph()
	y := nn.Linear(nn.Input(g, "x", 4, 2), "fc", nn.LinearConfig{Out: 1})
	w := nn.ExampleWeights(g, 4)
	loss := G(gorgonia.Sum(G(gorgonia.HadamardProd(G(gorgonia.Sum(G(gorgonia.Sub(y, y)), 1)), w)))) // zero
	count := G(gorgonia.Sum(w))
	root := G(gorgonia.Add(loss, count))
	var programs []*nn.Program
	for _, inference := range []bool{false, true} {
		p, err := nn.Compile(root, nn.Config{Threads: 1, Inference: inference})
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		programs = append(programs, p)
	}
	if err := programs[1].SetExamples(2); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		step(t, programs[0], nil)
		if got := programs[0].Loss(); got != 4 {
			t.Errorf("the weights of the one that trains add up to %g, want 4", got)
		}
		if err := programs[1].Forward(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := programs[1].Loss(); got != 2 {
			t.Errorf("the weights of the one that evaluates add up to %g, want 2", got)
		}
	}
}
