package nn_test

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/paragon-train/paragon/nn"
	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// everywhere are the executors, by name.
var everywhere = []struct {
	name  string
	ours  bool // runs the ops of nn alone
	build func(t *testing.T, m model) stepper
}{
	{"reference", false, referenceStepper},
	{"cpu", false, func(t *testing.T, m model) stepper { return programStepper(t, m, nn.Config{Threads: 2}) }},
	{"cpu bf16", false, func(t *testing.T, m model) stepper {
		return programStepper(t, m, nn.Config{Threads: 2, DType: nn.BFloat16})
	}},
	{"cuda", true, func(t *testing.T, m model) stepper {
		return programStepper(t, m, nn.Config{Device: "cuda:0", DType: nn.Float32})
	}},
	{"cuda bf16", true, func(t *testing.T, m model) stepper { return programStepper(t, m, nn.Config{Device: "cuda:0"}) }},
}

// The rows beyond the count are padding, whatever their labels are; −1 leaves out a row within the
// count.
func TestPaddingIsWhatStandsBeyondTheCount(t *testing.T) {
	onFakes(t)
	m := model{"logits", 3, func(g *gorgonia.ExprGraph) *gorgonia.Node {
		x := nn.Linear(nn.Input(g, "x", 4, 3), "fc", nn.LinearConfig{Out: 3})
		return nn.SoftmaxCrossEntropy(x, nn.Labels(g, "labels", 4))
	}}
	x := []float64{1, -2, 3, 2, 0, -1, -3, 1, 2, 4, 4, -4}
	for _, e := range everywhere {
		for _, test := range []struct {
			there  int
			labels []float64
			same   []float64 // labels of a whole batch with the same loss
		}{
			{2, []float64{-1, 1, 2, -1}, []float64{-1, 1, -1, -1}},
			{2, []float64{-1, -1, 2, 2}, []float64{-1, -1, -1, -1}},
			{3, []float64{0, -1, 2, 1}, []float64{0, -1, 2, -1}},
			{3, []float64{0, 1, 2, 77}, []float64{0, 1, 2, -1}},
			{1, []float64{2, -9, 3, 1 << 20}, []float64{2, -1, -1, -1}},
			{0, []float64{5, -9, 3, 1 << 20}, []float64{-1, -1, -1, -1}},
		} {
			t.Run(fmt.Sprintf("%s/%d of %v", e.name, test.there, test.labels), func(t *testing.T) {
				s, whole := e.build(t, m), e.build(t, m)
				for _, run := range []struct {
					s      stepper
					n      int
					labels []float64
				}{{s, test.there, test.labels}, {whole, 4, test.same}} {
					run.s.input("x", x)
					run.s.input("labels", run.labels)
					if err := run.s.set(run.n); err != nil {
						t.Fatal(err)
					}
					if err := run.s.step(); err != nil {
						t.Fatal(err)
					}
				}
				if got, want := s.loss(), whole.loss(); math.Abs(got-want) > 1e-6 {
					t.Errorf("the loss is %g, with -1 in place of the padding's labels %g", got, want)
				}
				for _, p := range s.params {
					if got, want := s.grad(p), whole.grad(p); test.there > 0 && offBy(got, want) > 1e-6 {
						t.Errorf("%s has the gradient %v, with -1 in place of the padding's labels %v", p, got, want)
					}
				}
			})
		}
	}
}

// oursAlone has all kinds of layers of nn, and both losses.
func oursAlone(batch int) model {
	return model{"layers of nn", 4, func(g *gorgonia.ExprGraph) *gorgonia.Node {
		x := nn.Input(g, "x", batch, 3, 6, 6)
		x = nn.ReLU(nn.BatchNorm2D(conv(x, "conv0", 8, 3, 1, 1), "bn0", nn.BatchNormConfig{}))
		y := nn.BatchNorm2D(conv(x, "conv1", 8, 3, 1, 1), "bn1", nn.BatchNormConfig{})
		x = nn.MaxPool2D(nn.ReLU(nn.Add(y, x)), nn.PoolConfig{Kernel: nn.Square(2)})
		x = nn.AvgPool2D(nn.Dropout(x, "drop", 0.2), nn.PoolConfig{Kernel: nn.Square(3)})
		x = nn.Linear(nn.Flatten(x), "fc", nn.LinearConfig{Out: 4})
		rows := nn.Linear(nn.Embedding(nn.IDs(g, "ids", batch), "table", nn.EmbeddingConfig{Rows: 9, Dim: 2}), "fc2", nn.LinearConfig{Out: 4})
		x = nn.Add(x, rows)
		return nn.Add(nn.SoftmaxCrossEntropy(x, nn.Labels(g, "labels", batch)), nn.MSE(nn.Softmax(x), nn.Input(g, "t", batch, 4)))
	}}
}

// withTargets has the losses that have targets in place of labels.
func withTargets(batch int) model {
	return model{"targets", 4, func(g *gorgonia.ExprGraph) *gorgonia.Node {
		x := nn.Linear(nn.Input(g, "x", batch, 5), "fc", nn.LinearConfig{Out: 4})
		binary := nn.BinaryCrossEntropy(x, nn.Input(g, "t2", batch, 4), nn.BinaryCrossEntropyConfig{PosWeights: []float32{1, 2, 3, 4}})
		return nn.Add(nn.SoftCrossEntropy(x, nn.Input(g, "t", batch, 4)), binary)
	}}
}

// withGorgonias has ops of gorgonia's, which run by their Do, and whose derivatives are infinite or
// no numbers at 0.
func withGorgonias(batch int) model {
	G := gorgonia.Must
	return model{"ops of gorgonia's", 4, func(g *gorgonia.ExprGraph) *gorgonia.Node {
		x := nn.Input(g, "x", batch, 3, 6, 6)
		x = nn.GlobalAvgPool2D(nn.BatchNorm2D(conv(x, "conv", 4, 3, 1, 1), "bn", nn.BatchNormConfig{}))
		square := G(gorgonia.Square(nn.Linear(x, "fc", nn.LinearConfig{Out: 4})))
		x = G(gorgonia.Add(G(gorgonia.Log(square)), G(gorgonia.Sqrt(square))))
		x = G(gorgonia.Add(x, G(gorgonia.HadamardDiv(nn.Input(g, "t", batch, 4), square))))
		return nn.SoftmaxCrossEntropy(x, nn.Labels(g, "labels", batch))
	}}
}

// weighed averages by ExampleWeights over inputs with several rows for an example.
func weighed(batch int) model {
	G := gorgonia.Must
	return model{"example weights", 4, func(g *gorgonia.ExprGraph) *gorgonia.Node {
		weights := nn.ExampleWeights(g, batch)
		rows := nn.Embedding(nn.IDs(g, "ids", 3*batch), "table", nn.EmbeddingConfig{Rows: 9, Dim: 2})
		x := nn.Linear(G(gorgonia.Reshape(rows, tensor.Shape{batch, 6})), "fc", nn.LinearConfig{Out: 4})
		square := G(gorgonia.Square(G(gorgonia.Sub(x, nn.Input(g, "t", batch, 4)))))
		each := G(gorgonia.Log(G(gorgonia.Sum(square, 1))))
		return G(gorgonia.Div(G(gorgonia.Sum(G(gorgonia.HadamardProd(each, weights)))), G(gorgonia.Sum(weights))))
	}}
}

// No number, label or id of padding reaches loss, gradients or running statistics: they are those
// of any other padding, bit for bit. The inputs are afterwards as they were.
func TestPaddingReachesNoArithmetic(t *testing.T) {
	onFakes(t)
	const batch = 4
	inf := math.Inf(1)
	for k, m := range []struct {
		name   string
		ours   bool
		build  func(batch int) model
		inputs map[string]int // numbers of an example
	}{
		{"layers of nn", true, oursAlone, map[string]int{"x": 3 * 6 * 6, "t": 4, "ids": 1, "labels": 1}},
		{"ops of gorgonia's", false, withGorgonias, map[string]int{"x": 3 * 6 * 6, "t": 4, "labels": 1}},
		{"targets", false, withTargets, map[string]int{"x": 5, "t": 4, "t2": 4}},
		{"example weights", false, weighed, map[string]int{"ids": 3, "t": 4}},
	} {
		for i, e := range everywhere {
			if e.ours && !m.ours {
				continue
			}
			// Each executor has both counts, with another model.
			for _, there := range [][]int{{3}, {1}}[(i+k)%2] {
				t.Run(fmt.Sprintf("%s/%s/%d", m.name, e.name, there), func(t *testing.T) {
					run := func(number float64, index float64) (all []float64) {
						s := e.build(t, m.build(batch))
						for name, n := range m.inputs {
							values := make([]float64, batch*n)
							for i := range values {
								switch integer := name == "ids" || name == "labels"; {
								case i/n < there && integer:
									values[i] = float64(i % 4)
								case i/n < there:
									values[i] = math.Sin(float64(i*i + 1))
								case integer:
									values[i] = index
								default:
									values[i] = number
								}
							}
							s.input(name, values)
						}
						if err := s.set(there); err != nil {
							t.Fatal(err)
						}
						if err := s.step(); err != nil {
							t.Fatal(err)
						}
						all = append(all, s.loss())
						for _, p := range s.params {
							all = append(all, s.grad(p)...)
						}
						return append(all, s.state()...)
					}
					want := run(0.5, 2)
					if i := slices.IndexFunc(want, func(x float64) bool { return math.IsNaN(x) || math.IsInf(x, 0) }); i >= 0 {
						t.Fatalf("number %d of loss, gradients and statistics is %g", i, want[i])
					}
					for _, padding := range []struct{ number, index float64 }{{3e38, 8}, {math.NaN(), -1}, {-inf, 9}, {0, 1 << 30}} {
						got := run(padding.number, padding.index)
						if i := firstDifference(got, want); i >= 0 {
							t.Errorf("with %g and %g in the padding, number %d of loss, gradients and statistics is %g, with others %g", padding.number, padding.index, i, got[i], want[i])
						}
					}
				})
			}
		}
	}
}

func firstDifference(a, b []float64) int {
	for i := range a {
		if math.Float64bits(a[i]) != math.Float64bits(b[i]) {
			return i
		}
	}
	return -1
}

// A run leaves the inputs as they are: what padding holds is there again when a later run has more
// examples.
func TestARunLeavesPaddingAsItIs(t *testing.T) {
	_, p := compile(t, oursAlone(4), nn.Config{Threads: 1})
	x, err := p.Input("x")
	if err != nil {
		t.Fatal(err)
	}
	ids, err := p.InputTensor("ids")
	if err != nil {
		t.Fatal(err)
	}
	for i := range x {
		x[i] = float32(i)
	}
	for i := range ids.Data().([]int32) {
		ids.Data().([]int32)[i] = int32(2 * i)
	}
	before, idsBefore := slices.Clone(x), slices.Clone(ids.Data().([]int32))
	for _, n := range []int{2, 0, 4} {
		if err := p.SetExamples(n); err != nil {
			t.Fatal(err)
		}
		for _, run := range []func() error{func() error { return p.Step(t.Context(), nil) }, func() error { return p.Forward(t.Context()) }} {
			if err := run(); err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(x, before) || !slices.Equal(ids.Data().([]int32), idsBefore) {
				t.Fatalf("a run of %d examples changed the inputs", n)
			}
		}
	}
}

// An input whose rows are not those of examples stays whole, though their number is a multiple of
// the batch.
func TestRowsThatAreNoExamplesAreNoPadding(t *testing.T) {
	G := gorgonia.Must
	g := gorgonia.NewGraph()
	weights := nn.ExampleWeights(g, 2)
	x := nn.Linear(nn.Input(g, "x", 2, 3), "fc", nn.LinearConfig{Out: 4})
	mixed := G(gorgonia.Mul(x, nn.Input(g, "mix", 4, 4)))
	class := G(gorgonia.Reshape(nn.Input(g, "class", 4), tensor.Shape{1, 4}))
	each := G(gorgonia.Sum(G(gorgonia.BroadcastHadamardProd(mixed, class, nil, []byte{0})), 1))
	loss := G(gorgonia.Sum(G(gorgonia.HadamardProd(each, weights))))
	p, err := nn.Compile(loss, nn.Config{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	for _, name := range []string{"x", "mix", "class"} {
		in, err := p.Input(name)
		if err != nil {
			t.Fatal(err)
		}
		for i := range in {
			in[i] = float32(math.Sin(float64(i + len(name))))
			if name == "x" && i >= 3 {
				in[i] = 0 // an example of zeros: bias 0 makes its loss 0
			}
		}
	}
	step(t, p, nil)
	want := p.Loss()
	if err := p.SetExamples(1); err != nil {
		t.Fatal(err)
	}
	step(t, p, nil)
	if got := p.Loss(); math.Abs(got-want) > 1e-6 {
		t.Errorf("the loss of the first example is %g, want %g", got, want)
	}
}
