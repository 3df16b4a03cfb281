package nn_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/paragon-train/paragon/internal/compute/op"
	"github.com/paragon-train/paragon/nn"
	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// foreignNet is a convolutional net of gorgonia's functions alone, as its users write it.
func foreignNet(g *G.ExprGraph) (logits, loss *G.Node) {
	x := G.NewTensor(g, tensor.Float32, 4, G.WithShape(4, 2, 8, 8), G.WithName("x"))
	y := G.NewMatrix(g, tensor.Float32, G.WithShape(4, 5), G.WithName("y"))
	nn.DeclareInput(x, y)
	h := G.Must(G.Conv2d(x, weight(g, "conv.weight", 4, 2, 3, 3), tensor.Shape{3, 3}, []int{1, 1}, []int{1, 1}, []int{1, 1}))
	h, _, _, _, err := G.BatchNorm(h, weight(g, "bn.weight", 1, 4, 1, 1), weight(g, "bn.bias", 1, 4, 1, 1), 0.1, 1e-5)
	if err != nil {
		panic(err)
	}
	h = G.Must(G.Rectify(h))
	h = G.Must(G.MaxPool2D(h, tensor.Shape{2, 2}, []int{0, 0}, []int{2, 2}))
	h = G.Must(G.Upsample2D(h, 2))
	h = G.Must(G.Dropout(h, 0.4))
	h = G.Must(G.Reshape(G.Must(G.GlobalAveragePool2D(h)), tensor.Shape{4, 4}))
	logits = G.Must(G.Mul(h, weight(g, "fc", 4, 5)))
	return logits, G.Must(G.Mean(G.Must(G.Square(G.Must(G.Sub(logits, y))))))
}

var foreignModel = model{"gorgonia's layers", 5, func(g *G.ExprGraph) *G.Node {
	_, loss := foreignNet(g)
	return loss
}}

func TestGorgoniasLayersRunOnOurKernelsAndEqualTheReference(t *testing.T) {
	loss, p := compile(t, foreignModel, nn.Config{Threads: 2})
	_, r := reference(t, foreignModel)
	for step := range 3 {
		fillInputs(t, loss.Graph(), p, r, 5, uint64(step))
		if err := p.Step(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		if err := r.Step(); err != nil {
			t.Fatal(err)
		}
		near(t, "loss", []float32{float32(p.Loss())}, []float64{r.Loss()}, tolerance)
		nearGradients(t, "", p, r, 1e-3)
	}
	for _, kind := range []string{"Conv2D(", "ConvBackwardWeight(", "BatchNorm(", "BatchNormGrad(", "MaxPool(", "MaxPoolGrad(", "Upsample(", "UpsampleGrad(",
		"Dropout(", "GlobalAvgPool(", "GlobalAvgPoolGrad(", "MatMul("} {
		if !strings.Contains(p.Plan(), "= "+kind) {
			t.Errorf("the plan has no %s):\n%s", kind, p.Plan())
		}
	}
	for _, kind := range []string{"im2col", "atchnorm-", "MaxPool{", "Upsample{", "Dropout{t", "GlobalAveragePool"} {
		if strings.Contains(p.Plan(), kind) {
			t.Errorf("the plan still has gorgonia's %s:\n%s", kind, p.Plan())
		}
	}
}

// A translated program is trained and evaluated as one of our layers: no mask and no batch
// statistics in an evaluation, masks that follow from the seed, statistics that are saved.
func TestGorgoniasDropoutAndBatchNormKnowTrainingAndEvaluation(t *testing.T) {
	train := func() (*nn.Program, *G.Node) {
		g := G.NewGraph()
		nn.Configure(g, nn.GraphConfig{Seed: 3})
		logits, loss := foreignNet(g)
		p, err := nn.Compile(loss, nn.Config{Threads: 1})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { p.Close() })
		for i := range 4 {
			fillInputs(t, g, p, nil, 5, uint64(i))
			step(t, p, nil)
			for _, q := range p.Params() {
				for k, d := range q.Gradient {
					q.Value[k] -= 0.1 * d
				}
			}
		}
		return p, logits
	}
	p, logits := train()
	q, _ := train()
	for i, a := range p.Params() {
		if b := q.Params()[i]; !slices.Equal(a.Value, b.Value) {
			t.Errorf("%s is another one after the same training: %v and %v", a.Name, a.Value, b.Value)
		}
	}
	var names []string
	for i, s := range p.State() {
		names = append(names, s.Name)
		if !slices.Equal(s.Value, q.State()[i].Value) || slices.Equal(s.Value, make([]float32, len(s.Value))) {
			t.Errorf("%s is %v and %v after the same training, want the same, and not zeros", s.Name, s.Value, q.State()[i].Value)
		}
	}
	if want := []string{"bn.running_mean", "bn.running_var"}; !slices.Equal(names, want) {
		t.Errorf("state is %q, want %q", names, want)
	}

	e, err := nn.Compile(logits, nn.Config{Inference: true, Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	evaluate := func(change bool) []float32 {
		x, err := e.Input("x")
		if err != nil {
			t.Fatal(err)
		}
		for i := range x {
			x[i] = float32(math.Sin(float64(i)))
			if change && i >= len(x)/4 { // all but the first image
				x[i] *= 7
			}
		}
		if err := e.Forward(t.Context()); err != nil {
			t.Fatal(err)
		}
		out, err := e.Output(logits)
		if err != nil {
			t.Fatal(err)
		}
		return slices.Clone(out)
	}
	first := evaluate(false)
	if again := evaluate(false); !slices.Equal(again, first) {
		t.Errorf("the same images give %v, then %v", first, again)
	}
	if other := evaluate(true); !slices.Equal(other[:5], first[:5]) {
		t.Errorf("the first image gives %v, among other images %v: it is normalised by the batch", first[:5], other[:5])
	}
}

func TestGorgoniasDropoutDropsAtItsRate(t *testing.T) {
	var masks [][]float32
	for seed := range uint64(2) {
		g := G.NewGraph()
		nn.Configure(g, nn.GraphConfig{Seed: seed})
		p, err := nn.Compile(G.Must(G.Sum(G.Must(G.Dropout(weight(g, "x", 100, 100), 0.2)))), nn.Config{})
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		step(t, p, nil)
		mask, dropped := p.Params()[0].Gradient, 0
		for i, d := range mask {
			switch d {
			case 0:
				dropped++
			case 1.25:
			default:
				t.Fatalf("gradient %d is %g, want 0 or 1/0.8", i, d)
			}
		}
		if dropped < 1800 || dropped > 2200 {
			t.Errorf("%d of 10000 were dropped, want a fifth", dropped)
		}
		masks = append(masks, mask)
	}
	if slices.Equal(masks[0], masks[1]) {
		t.Error("two seeds drop the same")
	}
}

func TestAUsersGraphShowsWhatItsTranslationLearned(t *testing.T) {
	g := G.NewGraph()
	x := nn.Input(g, "x", 6, 3)
	y, scale, _, bn, err := G.BatchNorm(x, weight(g, "scale", 1, 3), weight(g, "bias", 1, 3), 0.25, 1e-5)
	if err != nil {
		t.Fatal(err)
	}
	loss := G.Must(G.Mean(G.Must(G.Square(y))))
	// The evaluation is compiled first: what is shared must not depend on the order.
	e, err := nn.Compile(y, nn.Config{Inference: true})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	p, err := nn.Compile(loss, nn.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	in, err := p.Input("x")
	if err != nil {
		t.Fatal(err)
	}
	for i := range in {
		in[i] = float32(i%3) + 1 + float32(i%2)
	}
	step(t, p, nil)
	p.Params()[0].Value[1] = 42
	if got := scale.Value().Data().([]float32)[1]; got != 42 {
		t.Errorf("the graph's scale is %g, want the program's 42", got)
	}
	// The first column is 1 and 2 in turns.
	mean, variance := bn.Stats()
	near(t, "gorgonia's running mean", mean.Data().([]float32)[:1], []float64{0.25 * 1.5}, 1e-6)
	near(t, "gorgonia's running variance", variance.Data().([]float32)[:1], []float64{0.75 + 0.25*0.3}, 1e-6)
	near(t, "the evaluation's running mean", e.State()[0].Value[:1], []float64{0.25 * 1.5}, 1e-6)
	if got := []string{e.State()[0].Name, e.State()[1].Name}; !slices.Equal(got, []string{"batchnorm0.running_mean", "batchnorm0.running_var"}) {
		t.Errorf("the state is called %q", got)
	}
}

// An evaluation on a graph of its own, for another batch size, finds the statistics of the trained
// program by their names.
func TestAnEvaluationWithAnotherBatchSharesGorgoniasStatistics(t *testing.T) {
	build := func(batch int) (y *G.Node) {
		x := nn.Input(G.NewGraph(), "x", batch, 3)
		for i := range 2 {
			var err error
			if x, _, _, _, err = G.BatchNorm(x, weight(x.Graph(), fmt.Sprintf("scale%d", i), 1, 3), weight(x.Graph(), fmt.Sprintf("bias%d", i), 1, 3), 0.5, 1e-5); err != nil {
				t.Fatal(err)
			}
		}
		return x
	}
	p, err := nn.Compile(G.Must(G.Mean(build(6))), nn.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	e, err := nn.Compile(build(2), nn.Config{Inference: true, Share: p})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	in, err := p.Input("x")
	if err != nil {
		t.Fatal(err)
	}
	for i := range in {
		in[i] = float32(i % 5)
	}
	step(t, p, nil)
	for i, s := range p.State() {
		if got := e.State()[i]; got.Name != s.Name || &got.Value[0] != &s.Value[0] {
			t.Errorf("state %d is %q of its own, want %q of the trained program", i, got.Name, s.Name)
		}
	}
	if len(p.State()) != 4 {
		t.Errorf("got %d states, want 4", len(p.State()))
	}
}

// A normalisation whose result is read before it is scaled is not joined with the scale, and still
// moves its statistics once.
func TestANormalisationThatIsReadUnscaledIsOne(t *testing.T) {
	build := func() (loss, unscaled *G.Node, bn *G.BatchNormOp) {
		g := G.NewGraph()
		y, _, _, bn, err := G.BatchNorm(weight(g, "x", 4, 3), weight(g, "scale", 1, 3), weight(g, "bias", 1, 3), 0.25, 1e-5)
		if err == nil {
			err = bn.SetStats(tensor.New(tensor.WithBacking([]float32{8, 8, 8})), tensor.Ones(tensor.Float32, 3))
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range g.AllNodes() {
			if n.Op() == G.Op(bn) {
				unscaled = n
			}
		}
		return G.Must(G.Mean(G.Must(G.Square(y)))), unscaled, bn
	}
	loss, unscaled, bn := build()
	p, err := nn.Compile(loss, nn.Config{Outputs: G.Nodes{unscaled}})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	step(t, p, nil)
	out, err := p.Output(unscaled)
	if err != nil {
		t.Fatal(err)
	}
	near(t, "sum of a normalised column", []float32{out[0] + out[3] + out[6] + out[9] + 1}, []float64{1}, 1e-4)
	// weight gives x's first column.
	x, column := unscaled.Graph().ByName("x")[0].Value().Data().([]float32), 0.0
	for i := range 4 {
		column += float64(x[3*i]) / 4
	}
	mean, _ := bn.Stats()
	near(t, "running mean that was 8", mean.Data().([]float32)[:1], []float64{0.75*8 + 0.25*column}, 1e-5)

	// The same if what reads it is the scaled one.
	loss, unscaled, _ = build()
	scaled := unscaled.Graph().To(unscaled.ID())
	for scaled.Next() && fmt.Sprint(scaled.Node().(*G.Node).Op()) != "⊙ false" {
	}
	o, err := nn.Compile(loss, nn.Config{Outputs: G.Nodes{scaled.Node().(*G.Node)}})
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()

	loss, unscaled, _ = build()
	q, err := nn.Compile(loss, nn.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	if _, err := nn.Compile(loss, nn.Config{Outputs: G.Nodes{unscaled}}); err == nil || !strings.Contains(err.Error(), "name the same Config.Outputs in both") {
		t.Errorf("asked for after it was joined: got error %v, want one that says to name the same outputs", err)
	}
}

// What was an input when the gradients were taken is one in later programs, too, when it has a
// value by then.
func TestAnInputOfATranslatedGraphStaysOne(t *testing.T) {
	g := G.NewGraph()
	x := G.NewMatrix(g, tensor.Float32, G.WithShape(4, 2), G.WithName("x"))
	y := G.Must(G.Dropout(G.Must(G.Mul(x, weight(g, "w", 2, 3))), 0.5))
	loss := G.Must(G.Mean(G.Must(G.Square(y))))
	for i := range 2 {
		p, err := nn.Compile(loss, nn.Config{Threads: 1, Inference: i > 0})
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		if len(p.Params()) != 1 || p.Params()[0].Name != "w" {
			t.Errorf("program %d: got %d parameters, want w alone", i, len(p.Params()))
		}
		if err := G.Let(x, tensor.New(tensor.Of(tensor.Float32), tensor.WithShape(4, 2))); err != nil {
			t.Fatal(err)
		}
	}
}

func TestAGraphDifferentiatedByItsUserIsCorrected(t *testing.T) {
	g := G.NewGraph()
	x := G.NewVector(g, tensor.Float32, G.WithShape(2), G.WithName("x"), G.WithValue(tensor.New(tensor.WithBacking([]float32{4, 16}))))
	w := G.NewVector(g, tensor.Float32, G.WithShape(2), G.WithName("fixed"), G.WithValue(tensor.New(tensor.WithBacking([]float32{1, 2}))))
	loss := G.Must(G.Sum(G.Must(G.HadamardProd(w, G.Must(G.InverseSqrt(x))))))
	grads, err := G.Grad(loss, x)
	if err != nil {
		t.Fatal(err)
	}
	p, err := nn.Compile(loss, nn.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	step(t, p, nil)
	if len(p.Params()) != 1 || p.Params()[0].Name != "x" {
		t.Fatalf("parameters are %v, want x alone, for which Grad was called", p.Params())
	}
	near(t, "gradient", p.Params()[0].Gradient, []float64{-1.0 / 16, -2.0 / 128}, 1e-6)
	if _, err := nn.Compile(loss, nn.Config{Outputs: grads}); err == nil || !strings.Contains(err.Error(), "take it from Program.Params") {
		t.Errorf("gorgonia's own gradient as an output: error %v, want one that says to take it from Program.Params", err)
	}
}

// Log takes 1−a out of the graph to make log1p(−a) of it, after which gorgonia finds wrong nodes by
// their numbers.
func TestAGraphThatGorgoniaHasTakenANodeOutOfIsComputedRightly(t *testing.T) {
	g := G.NewGraph()
	x := weight(g, "x", 3, 4)
	probability := G.Must(G.Sigmoid(nn.Linear(x, "fc", nn.LinearConfig{Out: 1})))
	loss := G.Must(G.Mean(G.Must(G.BinaryXent(probability, nn.Input(g, "y", 3, 1)))))
	p, err := nn.Compile(loss, nn.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	y, err := p.Input("y")
	if err != nil {
		t.Fatal(err)
	}
	copy(y, []float32{1, 0, 1})
	step(t, p, nil)
	w := p.Params()[1].Value
	want := 0.0
	for b := range 3 {
		z := 0.0
		for k, v := range x.Value().Data().([]float32)[4*b:][:4] {
			z += float64(v * w[k])
		}
		if b == 1 {
			z = -z
		}
		want += math.Log1p(math.Exp(-z)) / 3
	}
	if math.Abs(p.Loss()-want) > 1e-5 {
		t.Errorf("loss is %g, want %g", p.Loss(), want)
	}
}

func TestWhatCannotBeCompiledIsRefusedWithWhatToUse(t *testing.T) {
	loss := func(x *G.Node) *G.Node { return G.Must(G.Sum(x)) }
	for _, c := range []struct {
		name  string
		build func(g *G.ExprGraph, w *G.Node) *G.Node
		want  []string
	}{
		{"Gaussian", func(g *G.ExprGraph, w *G.Node) *G.Node {
			return loss(G.Must(G.Add(w, G.GaussianRandomNode(g, tensor.Float32, 0, 1, 3, 4))))
		}, []string{"take no seed", "nn.Input"}},
		{"uniform", func(g *G.ExprGraph, w *G.Node) *G.Node {
			return loss(G.Must(G.Add(w, G.UniformRandomNode(g, tensor.Float32, 0, 1, 3, 4))))
		}, []string{"take no seed", "nn.Input"}},
		{"binomial", func(g *G.ExprGraph, w *G.Node) *G.Node {
			return loss(G.Must(G.HadamardProd(w, G.BinomialRandomNode(g, tensor.Float32, 1, 0.5, 3, 4))))
		}, []string{"take no seed", "nn.Dropout"}},
		{"Set", func(g *G.ExprGraph, w *G.Node) *G.Node {
			G.Set(w, G.Must(G.Neg(w)))
			return loss(w)
		}, []string{"gorgonia.Set", "between steps"}},
		{"Dropout of everything", func(_ *G.ExprGraph, w *G.Node) *G.Node { return loss(G.Must(G.Dropout(w, 1))) }, []string{"probability 1", "< 1"}},
		{"BatchNorm of float64", func(_ *G.ExprGraph, w *G.Node) *G.Node {
			y, _, _, _, err := G.BatchNorm(G.Must(G.Reshape(w, tensor.Shape{3, 2, 2})), nil, nil, 0.1, 1e-5)
			if err != nil {
				return G.Must(G.Sum(y))
			}
			return loss(y)
		}, []string{"(N,C) or (N,C,H,W)", "nn.BatchNorm2D"}},
		{"an op that is told whether it trains", func(_ *G.ExprGraph, w *G.Node) *G.Node {
			return loss(G.Must(G.ApplyOp(switched{tanh()}, w)))
		}, []string{"SetTraining", "nn.Dropout"}},
		{"a node that is gone", func(_ *G.ExprGraph, w *G.Node) *G.Node {
			G.Must(G.BinaryXent(w, G.Must(G.Square(w)))) // brings gorgonia's own 1
			u := G.Must(G.Sub(G.NewConstant(float32(1)), w))
			v := G.Must(G.Neg(u))
			return G.Must(G.Add(loss(G.Must(G.Log(u))), loss(v)))
		}, []string{"has removed from it", "Log1p"}},
		{"one name, two shapes", func(g *G.ExprGraph, w *G.Node) *G.Node {
			return G.Must(G.Add(loss(w), loss(weight(g, "w", 5, 2))))
		}, []string{`two leaves are called "w"`, "(3, 4)", "(5, 2)", "name of its own"}},
		{"the name of an input", func(g *G.ExprGraph, w *G.Node) *G.Node {
			x := G.NewVector(g, tensor.Float32, G.WithShape(2), G.WithName("w"))
			return G.Must(G.Add(loss(w), loss(x)))
		}, []string{`two leaves are called "w"`, "parameter", "input"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := G.NewGraph()
			root := c.build(g, weight(g, "w", 3, 4))
			for _, inference := range []bool{false, true} {
				p, err := nn.Compile(root, nn.Config{Inference: inference})
				if err == nil {
					p.Close()
					t.Fatalf("compiled (inference %t), want an error", inference)
				}
				for _, w := range c.want {
					if !strings.Contains(err.Error(), w) {
						t.Errorf("error is %q, want it to say %q", err, w)
					}
				}
			}
		})
	}
}

// switched is an op of a user's with a training mode.
type switched struct{ G.SDOp }

func (switched) SetTraining(bool) error { return nil }

// bare is an op of a user's without a gradient.
type bare struct{ G.Op }

// tanh is gorgonia's op, of another graph.
func tanh() G.SDOp { return G.Must(G.Tanh(weight(G.NewGraph(), "w", 3, 4))).Op().(G.SDOp) }

func TestAnOpWithoutAGradientIsRefusedWhereOneIsNeeded(t *testing.T) {
	build := func() (y, around, through *G.Node) {
		w := weight(G.NewGraph(), "w", 3, 4)
		y = G.Must(G.ApplyOp(bare{tanh()}, w))
		around = G.Must(G.Sum(G.Must(G.Square(w))))
		return y, around, G.Must(G.Add(around, G.Must(G.Sum(y))))
	}
	_, _, through := build()
	if _, err := nn.Compile(through, nn.Config{}); err == nil || !strings.Contains(err.Error(), "has no gradient") {
		t.Errorf("error is %v, want one that says that the op has no gradient", err)
	}
	_, _, evaluated := build()
	y, around, _ := build()
	for _, c := range []struct {
		root *G.Node
		cfg  nn.Config
	}{{evaluated, nn.Config{Inference: true}}, {around, nn.Config{Outputs: G.Nodes{y}}}} {
		p, err := nn.Compile(c.root, c.cfg)
		if err != nil {
			t.Errorf("%+v: %v", c.cfg, err)
			continue
		}
		if err := p.Forward(t.Context()); err != nil {
			t.Errorf("%+v: %v", c.cfg, err)
		}
		p.Close()
	}
}

func TestAParameterWithoutAValueIsNamed(t *testing.T) {
	build := func() (w *G.Node, loss *G.Node) {
		g := G.NewGraph()
		w = G.NewMatrix(g, tensor.Float32, G.WithShape(4, 2), G.WithName("w"))
		return w, G.Must(G.Mean(G.Must(G.Square(G.Must(G.Mul(nn.Input(g, "x", 3, 4), w))))))
	}
	_, loss := build()
	if _, err := nn.Compile(loss, nn.Config{}); err == nil || !strings.Contains(err.Error(), `"w" has no value`) {
		t.Errorf("no parameter: error is %v, want one that says that w has no value", err)
	}
	w, loss := build()
	loss = G.Must(G.Add(loss, G.Must(G.Sum(weight(loss.Graph(), "v", 2)))))
	if _, err := nn.Compile(loss, nn.Config{Params: G.Nodes{w}}); err == nil || !strings.Contains(err.Error(), `"w" has no value`) {
		t.Errorf("in Config.Params: error is %v, want one that says that w has no value", err)
	}
	p, err := nn.Compile(loss, nn.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if err := p.Step(t.Context(), nil); err == nil || !strings.Contains(err.Error(), `"w" has no value`) {
		t.Errorf("Step: error is %v, want one that says that w has no value", err)
	}
	if _, err := p.Input("w"); err != nil { // it is an input after all
		t.Fatal(err)
	}
	step(t, p, nil)
}

func TestSlowOpsAreToldOnce(t *testing.T) {
	var out bytes.Buffer
	old := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&out, nil)))
	defer slog.SetDefault(old)
	g := G.NewGraph()
	x := nn.Input(g, "x", 2, 4, 16, 16)
	dilated := func(x *G.Node, name string) *G.Node {
		return G.Must(G.Conv2d(x, weight(g, name, 4, 4, 3, 3), tensor.Shape{3, 3}, []int{2, 2}, []int{1, 1}, []int{2, 2}))
	}
	loss := G.Must(G.Mean(dilated(dilated(x, "a"), "b")))
	for range 2 {
		p, err := nn.Compile(loss, nn.Config{})
		if err != nil {
			t.Fatal(err)
		}
		p.Close()
	}
	if n := strings.Count(out.String(), "gorgonia.Conv2d with a dilation"); n != 1 || !strings.Contains(out.String(), "nn.Conv2D") {
		t.Errorf("the dilated convolution was told of %d times, want once, with what to use:\n%s", n, out.String())
	}
}

func TestTranslatedNetsRunOnAGPU(t *testing.T) {
	onFakes(t)
	m := model{"on a GPU", 0, func(g *G.ExprGraph) *G.Node {
		x := nn.Input(g, "x", 2, 3, 6, 6)
		h := G.Must(G.Conv2d(x, weight(g, "conv.weight", 8, 3, 3, 3), tensor.Shape{3, 3}, []int{1, 1}, []int{1, 1}, []int{1, 1}))
		h, _, _, _, err := G.BatchNorm(h, weight(g, "bn.weight", 1, 8, 1, 1), weight(g, "bn.bias", 1, 8, 1, 1), 0.1, 1e-5)
		if err != nil {
			panic(err)
		}
		h = G.Must(G.MaxPool2D(G.Must(G.Dropout(nn.ReLU(h), 0.3)), tensor.Shape{2, 2}, []int{0, 0}, []int{2, 2}))
		return nn.MSE(nn.Flatten(G.Must(G.GlobalAveragePool2D(h))), nn.Input(g, "t", 2, 8))
	}}
	loss, p := compile(t, m, nn.Config{Device: "cuda:0", DType: nn.Float32})
	_, r := reference(t, m)
	for i := range 2 {
		fillInputs(t, loss.Graph(), p, r, 0, uint64(i))
		step(t, p, nil)
		if err := r.Step(); err != nil {
			t.Fatal(err)
		}
		near(t, "loss", []float32{float32(p.Loss())}, []float64{r.Loss()}, 1e-4)
		nearGradients(t, "", p, r, 1e-4)
	}
	for _, n := range nn.Parameters(loss.Graph()) { // values have moved to memory that a GPU copies from
		for _, q := range p.Params() {
			if q.Name == n.Name() && &q.Value[0] != &n.Value().Data().([]float32)[0] {
				t.Errorf("the graph does not show %s of the program any more", q.Name)
			}
		}
	}
	if op.RegistryOf(loss.Graph()).Translation == nil {
		t.Error("nothing was translated")
	}
}
