package nn_test

import (
	"math"
	"strings"
	"testing"

	"github.com/paragon-train/paragon/internal/compute/op"
	"github.com/paragon-train/paragon/nn"
	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// against steps a model and its reference once on the same numbers and compares all gradients.
func against(t *testing.T, m model) *nn.Program {
	t.Helper()
	loss, p := compile(t, m, nn.Config{Threads: 2})
	_, r := reference(t, m)
	fillInputs(t, loss.Graph(), p, r, m.classes, 1)
	step(t, p, nil)
	if err := r.Step(); err != nil {
		t.Fatal(err)
	}
	near(t, "loss", []float32{float32(p.Loss())}, []float64{r.Loss()}, tolerance)
	nearGradients(t, m.name, p, r, tolerance)
	return p
}

func apply(o G.Op, in ...*G.Node) *G.Node {
	n, err := op.Apply(o, in...)
	if err != nil {
		panic(err)
	}
	return n
}

func TestTwoParametersMayHaveOneGradient(t *testing.T) {
	p := against(t, model{"sum", 0, func(g *G.ExprGraph) *G.Node {
		return nn.MSE(nn.Add(weight(g, "a", 3, 4), weight(g, "b", 3, 4)), nn.Input(g, "t", 3, 4))
	}})
	if a, b := p.Params()[0].Gradient, p.Params()[1].Gradient; &a[0] == &b[0] {
		t.Error("both gradients are one slice")
	}
}

func TestAParameterMayBeUsedTwice(t *testing.T) {
	against(t, model{"twice", 0, func(g *G.ExprGraph) *G.Node {
		w, x := weight(g, "w", 4, 4), nn.Input(g, "x", 3, 4)
		h := nn.ReLU(apply(&op.Linear{}, x, w))
		return nn.MSE(apply(&op.Linear{}, h, w), nn.Input(g, "t", 3, 4))
	}})
}

func TestBiasOfOtherThanImagesAndRows(t *testing.T) {
	against(t, model{"bias", 0, func(g *G.ExprGraph) *G.Node {
		x := apply(&op.BiasAdd{Dims: 3}, weight(g, "x", 4, 3, 5), weight(g, "b", 3))
		return nn.MSE(nn.ReLU(x), nn.Input(g, "t", 4, 3, 5))
	}})
}

func TestScalarParametersTrain(t *testing.T) {
	p := against(t, model{"scalar", 0, func(g *G.ExprGraph) *G.Node {
		s := G.NewScalar(g, tensor.Float32, G.WithName("s"), G.WithValue(float32(0.5)))
		x := nn.Input(g, "x", 3, 4)
		return nn.MSE(G.Must(G.Mul(x, s)), nn.Input(g, "t", 3, 4))
	}})
	if q := p.Params()[0]; len(q.Value) != 1 || len(q.Gradient) != 1 {
		t.Errorf("scalar parameter has %d values and %d gradients, want 1 and 1", len(q.Value), len(q.Gradient))
	}
}

func TestRowNumbersOfEveryType(t *testing.T) {
	for _, dt := range []tensor.Dtype{tensor.Int32, tensor.Int64, tensor.Int, tensor.Float32} {
		g := G.NewGraph()
		ids := G.NewVector(g, dt, G.WithShape(3), G.WithName("ids"))
		nn.DeclareInput(ids)
		loss := nn.MSE(nn.Embedding(ids, "table", nn.EmbeddingConfig{Rows: 5, Dim: 2}), nn.Input(g, "t", 3, 2))
		p, err := nn.Compile(loss, nn.Config{})
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		in, err := p.InputTensor("ids")
		if err != nil {
			t.Fatal(err)
		}
		set := func(values ...int) {
			for i, v := range values {
				switch d := in.Data().(type) {
				case []int32:
					d[i] = int32(v)
				case []int64:
					d[i] = int64(v)
				case []int:
					d[i] = v
				case []float32:
					d[i] = float32(v)
				}
			}
		}
		set(4, 0, 4)
		step(t, p, nil)
		q := p.Params()[0]
		for row := range 5 {
			zero := q.Gradient[2*row] == 0 && q.Gradient[2*row+1] == 0
			if zero != (row != 0 && row != 4) {
				t.Errorf("%v: gradient of row %d is %v", dt, row, q.Gradient[2*row:2*row+2])
			}
		}
		want := 2.0 / 6 * float64(q.Value[8]+q.Value[8]) // row 4 twice, t is 0
		near(t, dt.String(), q.Gradient[8:9], []float64{want}, 1e-5)
		set(1, 5, 2)
		if err := p.Step(t.Context(), nil); err == nil || !strings.Contains(err.Error(), "id 5 at position 1, want 0 to 4") {
			t.Errorf("%v: got error %v, want one about id 5", dt, err)
		}
	}
}

func TestGorgoniasValuesOfOtherTypesStayApart(t *testing.T) {
	// A comparison gives booleans, which only gorgonia's ops read.
	g := G.NewGraph()
	x, y := nn.Input(g, "x", 2, 3), nn.Input(g, "y", 2, 3)
	greater := G.Must(G.Gt(x, y, false))
	p, err := nn.Compile(greater, nn.Config{Inference: true})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if err := p.Forward(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Output(greater); err == nil || !strings.Contains(err.Error(), "bool") {
		t.Errorf("Output of booleans: got error %v, want one that says bool", err)
	}
	if !math.IsNaN(p.Loss()) {
		t.Errorf("loss of a root that is no number is %g, want NaN", p.Loss())
	}
}

func TestNaNReachesTheLoss(t *testing.T) {
	m := tenClasses("nan", 2, []int{3, 32, 32}, func(x *G.Node) *G.Node {
		return nn.ResNet18(x, nn.ResNetConfig{Classes: 10, Width: 4})
	})
	loss, p := compile(t, m, nn.Config{})
	fillInputs(t, loss.Graph(), p, nil, 10, 1)
	x, _ := p.Input("x")
	x[100] = float32(math.NaN())
	step(t, p, nil)
	if !math.IsNaN(p.Loss()) {
		t.Errorf("loss is %g with a NaN in the images, want NaN", p.Loss())
	}
}

func TestProfileTimesEveryOperation(t *testing.T) {
	loss, p := compile(t, joins, nn.Config{})
	fillInputs(t, loss.Graph(), p, nil, 10, 1)
	times, err := p.Profile(t.Context(), 2)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := len(times), strings.Count(p.Plan(), "\n"); got != want {
		t.Errorf("got times of %d operations, want %d", got, want)
	}
	for _, o := range times {
		if o.Time <= 0 || o.Kind == "" || o.Op == "" {
			t.Errorf("operation %+v has no time or name", o)
		}
	}
}

func TestLabelsPadShortBatchesAndRefuseLongOnes(t *testing.T) {
	_, p := compile(t, joins, nn.Config{})
	labels, err := p.Labels("labels")
	if err != nil {
		t.Fatal(err)
	}
	if labels.Len() != 6 {
		t.Errorf("batch is %d, want 6", labels.Len())
	}
	in, _ := p.InputTensor("labels")
	labels.Set([]int32{3, 4})
	if got := in.Data().([]int32); got[0] != 3 || got[1] != 4 || got[2] != -1 || got[5] != -1 {
		t.Errorf("labels are %v, want 3 4 and then -1", got)
	}
	defer func() {
		if recover() == nil {
			t.Error("seven labels for a batch of six were taken")
		}
	}()
	labels.Set(make([]int32, 7))
}
