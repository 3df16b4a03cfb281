package nn_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/paragon-train/paragon/nn"
	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// weight is a parameter made by gorgonia's own functions.
func weight(g *G.ExprGraph, name string, shape ...int) *G.Node {
	values := noise32(tensor.Shape(shape).TotalSize())
	for i := range values {
		values[i] /= float32(math.Sqrt(float64(shape[0])))
	}
	return G.NewTensor(g, tensor.Float32, len(shape), G.WithShape(shape...), G.WithName(name),
		G.WithValue(tensor.New(tensor.WithShape(shape...), tensor.WithBacking(values))))
}

// mixed goes from our ops to gorgonia's and back, and ends in a loss of gorgonia's ops.
var mixed = model{"mixed", 5, func(g *G.ExprGraph) *G.Node {
	x := nn.Input(g, "x", 4, 2, 6, 6)
	y := nn.ReLU(nn.BatchNorm2D(conv(x, "conv1", 3, 3, 1, 1), "bn", nn.BatchNormConfig{}))
	y = G.Must(G.Tanh(y)) // on images: NCHW to gorgonia
	y = nn.MaxPool2D(y, nn.PoolConfig{Kernel: nn.Square(2)})
	h := G.Must(G.Mul(nn.Flatten(y), weight(g, "w1", 27, 8)))
	h = G.Must(G.Sigmoid(h))
	h = nn.Linear(nn.ReLU(h), "fc", nn.LinearConfig{Out: 3})
	e := G.Must(G.Sub(h, nn.Input(g, "t", 4, 3)))
	return G.Must(G.Mean(G.Must(G.Square(e))))
}}

// plain has no op of ours at all.
var plain = model{"plain", 5, func(g *G.ExprGraph) *G.Node {
	x, t := nn.Input(g, "x", 6, 5), nn.Input(g, "t", 6)
	h := G.Must(G.Tanh(G.Must(G.Mul(x, weight(g, "w1", 5, 7)))))
	y := G.Must(G.Mul(h, weight(g, "w2", 7)))
	penalty := G.Must(G.Mul(G.NewConstant(float32(0.01)), G.Must(G.Sum(G.Must(G.Square(h))))))
	return G.Must(G.Add(G.Must(G.Mean(G.Must(G.Square(G.Must(G.Sub(y, t)))))), penalty))
}}

func TestGraphsWithGorgoniasOpsEqualReferenceAndTrain(t *testing.T) {
	for _, m := range []model{mixed, plain} {
		t.Run(m.name, func(t *testing.T) {
			loss, p := compile(t, m, nn.Config{Threads: 2})
			_, r := reference(t, m)
			fillInputs(t, loss.Graph(), p, r, m.classes, 1)
			step(t, p, nil)
			if err := r.Step(); err != nil {
				t.Fatal(err)
			}
			near(t, "loss", []float32{float32(p.Loss())}, []float64{r.Loss()}, tolerance)
			for _, q := range p.Params() {
				near(t, "gradient of "+q.Name, q.Gradient, r.Grad(q.Name), tolerance)
			}
			if t.Failed() {
				t.Logf("plan:\n%s", p.Plan())
			}
			first := p.Loss()
			for range 60 {
				for _, q := range p.Params() {
					for i, g := range q.Gradient {
						q.Value[i] -= 0.1 * g
					}
				}
				step(t, p, nil)
			}
			if got := p.Loss(); !(got < 0.7*first) {
				t.Errorf("loss went from %g to %g in 60 steps, want a fall", first, got)
			}
		})
	}
}

func TestGorgoniasMatrixProductRunsOnOurKernel(t *testing.T) {
	_, p := compile(t, plain, nn.Config{})
	// x·w1 and, of the backward pass, xᵀ·dh; w2 is a vector.
	if got := strings.Count(p.Plan(), "= MatMul("); got != 2 {
		t.Errorf("got %d products of matrices, want 2:\n%s", got, p.Plan())
	}
}

func TestAGraphDifferentiatedByItsUserCompiles(t *testing.T) {
	g := G.NewGraph()
	x := G.NewMatrix(g, tensor.Float32, G.WithShape(3, 2), G.WithName("x"), G.WithValue(tensor.New(tensor.WithShape(3, 2), tensor.WithBacking(noise32(6)))))
	w := weight(g, "w", 2, 1)
	loss := G.Must(G.Mean(G.Must(G.Square(G.Must(G.Mul(x, w))))))
	if _, err := G.Grad(loss, w); err != nil {
		t.Fatal(err)
	}
	nn.DeclareInput(x)
	p, err := nn.Compile(loss, nn.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	step(t, p, nil)
	values, wv := x.Value().Data().([]float32), w.Value().Data().([]float32)
	var want [2]float64
	for b := range 3 {
		y := float64(values[2*b])*float64(wv[0]) + float64(values[2*b+1])*float64(wv[1])
		for k := range want {
			want[k] += 2 * y * float64(values[2*b+k]) / 3
		}
	}
	near(t, "gradient of w", p.Params()[0].Gradient, want[:], 1e-5)
}

func TestCompileErrorsNameWhatIsWrong(t *testing.T) {
	good := func() *G.Node { return plain.build(G.NewGraph()) }
	float64s := func() *G.Node {
		g := G.NewGraph()
		nn.Configure(g, nn.GraphConfig{Float64: true})
		return joins.build(g)
	}
	_, other := compile(t, plain, nn.Config{})
	cases := []struct {
		name string
		root *G.Node
		cfg  nn.Config
		want []string
	}{
		{"no root", nil, nn.Config{}, []string{"root is nil"}},
		{"no such GPU", good(), nn.Config{Device: "cuda:99"}, []string{"open cuda:99"}},
		{"type of GPUs", good(), nn.Config{DType: nn.TF32}, []string{"tf32", "float32 or bf16"}},
		{"unknown device", good(), nn.Config{Device: "tpu"}, []string{`"tpu"`, "want cpu:0"}},
		{"device number", good(), nn.Config{Device: "cpu:x"}, []string{`"cpu:x"`, "want cpu:0"}},
		{"threads", good(), nn.Config{Threads: -1}, []string{"Config.Threads is -1"}},
		{"float64", float64s(), nn.Config{}, []string{"Conv2D", "float64", "float32"}},
		{"share", joins.build(G.NewGraph()), nn.Config{Inference: true, Share: other}, []string{`"conv0.weight"`, "none of this name"}},
		{"no parameter", nn.ReLU(nn.Input(G.NewGraph(), "x", 1)), nn.Config{}, []string{"want a scalar"}},
		{"output elsewhere", good(), nn.Config{Outputs: G.Nodes{good()}}, []string{"output 0"}},
		{"params", good(), nn.Config{Params: G.Nodes{nn.Input(G.NewGraph(), "z", 1)}}, []string{"Config.Params", `"z"`}},
	}
	for _, c := range cases {
		p, err := nn.Compile(c.root, c.cfg)
		if err == nil {
			p.Close()
			t.Errorf("%s: compiled, want an error", c.name)
			continue
		}
		for _, w := range c.want {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%s: error is %q, want it to say %q", c.name, err, w)
			}
		}
	}
}

func TestRunErrorsNameNodeOpAndNumber(t *testing.T) {
	_, p := compile(t, joins, nn.Config{})
	labels, err := p.Labels("labels")
	if err != nil {
		t.Fatal(err)
	}
	labels.Set([]int32{0, 1, 10, 2, 3, 4})
	err = p.Step(t.Context(), nil)
	if want := "label of example 2 is 10, want -1 to 9"; err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "CrossEntropy") {
		t.Errorf("got error %v, want CrossEntropy and %q", err, want)
	}
	for _, name := range []string{"labels", "nothing"} {
		if _, err := p.Input(name); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("%q", name)) {
			t.Errorf("Input(%q): got error %v, want one that names it", name, err)
		}
	}
	p.Close()
	if err := p.Step(t.Context(), nil); err == nil || !strings.Contains(err.Error(), "closed") {
		t.Errorf("Step after Close: got error %v", err)
	}
}
