package nn_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/paragon-train/paragon/internal/compute/op"
	"github.com/paragon-train/paragon/internal/compute/ref"
	"github.com/paragon-train/paragon/nn"
	"gorgonia.org/gorgonia"
)

// tolerance is how far a float32 result may be from the reference, relative to the largest number
// of its tensor. The reference runs in float32 too and sums in another order; gradients pass
// through many layers of both.
const tolerance = 2e-4

// fillInputs gives every input random numbers and every label a class below classes.
func fillInputs(t testing.TB, g *gorgonia.ExprGraph, p *nn.Program, r *ref.Runner, classes int, seed uint64) {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 1))
	for _, l := range op.Leaves(g) {
		if l.Role == op.RoleParameter {
			continue
		}
		name, n := l.Node.Name(), l.Node.Shape().TotalSize()
		values := make([]float64, n)
		if in, err := p.Input(name); err == nil {
			for i := range in {
				in[i] = float32(rng.NormFloat64())
				values[i] = float64(in[i])
			}
		} else {
			labels, err := p.Labels(name)
			if err != nil {
				t.Fatal(err)
			}
			all := make([]int32, n)
			for i := range all {
				all[i] = int32(rng.IntN(classes))
				values[i] = float64(all[i])
			}
			labels.Set(all)
		}
		if r != nil {
			if err := r.Set(name, values); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// near reports the first of got that is further from want than tolerance times the largest of want.
func near(t testing.TB, what string, got []float32, want []float64, tolerance float64) {
	t.Helper()
	nearScale(t, what, got, want, tolerance, 1e-6)
}

// nearScale is near with a least scale for numbers that are nothing but rounding.
func nearScale(t testing.TB, what string, got []float32, want []float64, tolerance, scale float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%s: got %d values, want %d", what, len(got), len(want))
		return
	}
	for _, v := range want {
		scale = math.Max(scale, math.Abs(v))
	}
	for i := range got {
		if d := math.Abs(float64(got[i]) - want[i]); !(d <= tolerance*scale) {
			t.Errorf("%s at %d of %d: got %g, want %g; off by %.2g of %g", what, i, len(got), got[i], want[i], d/scale, scale)
			return
		}
	}
}

// nearGradients is near for all gradients of a step. Those that should be zero, such as a bias's in
// front of a batch normalisation, are nothing but rounding: they are measured against the largest
// gradient.
func nearGradients(t testing.TB, what string, p *nn.Program, r *ref.Runner, tolerance float64) {
	t.Helper()
	largest := 0.0
	for _, q := range p.Params() {
		for _, v := range r.Grad(q.Name) {
			largest = max(largest, math.Abs(v))
		}
	}
	for _, q := range p.Params() {
		nearScale(t, what+" gradient of "+q.Name, q.Gradient, r.Grad(q.Name), tolerance, 1e-2*largest)
	}
}

// A model builds a graph and says how many classes its labels have.
type model struct {
	name    string
	classes int
	build   func(g *gorgonia.ExprGraph) *gorgonia.Node
}

func classifier(name string, batch int, shape []int, net func(x *gorgonia.Node) *gorgonia.Node) model {
	return model{name, 5, func(g *gorgonia.ExprGraph) *gorgonia.Node {
		x := nn.Input(g, "x", append([]int{batch}, shape...)...)
		return nn.SoftmaxCrossEntropy(net(x), nn.Labels(g, "labels", batch))
	}}
}

// end makes logits of an image.
func end(x *gorgonia.Node) *gorgonia.Node {
	return nn.Linear(nn.Flatten(x), "fc", nn.LinearConfig{Out: 5})
}

func conv(x *gorgonia.Node, name string, filters, kernel, stride, pad int) *gorgonia.Node {
	return nn.Conv2D(x, name, nn.Conv2DConfig{Filters: filters, Kernel: nn.Square(kernel), Stride: nn.Square(stride), Pad: nn.Square(pad)})
}

var models = []model{
	classifier("linear", 7, []int{9}, func(x *gorgonia.Node) *gorgonia.Node {
		return nn.Linear(x, "fc", nn.LinearConfig{Out: 5, NoBias: true})
	}),
	classifier("mlp", 6, []int{11}, func(x *gorgonia.Node) *gorgonia.Node {
		return nn.MLP(x, nn.MLPConfig{Hidden: []int{17, 8}, Classes: 5})
	}),
	classifier("mlp dropout", 6, []int{11}, func(x *gorgonia.Node) *gorgonia.Node {
		return nn.MLP(x, nn.MLPConfig{Hidden: []int{17, 8}, Classes: 5, Dropout: 0.3})
	}),
	classifier("conv", 3, []int{3, 7, 6}, func(x *gorgonia.Node) *gorgonia.Node {
		return end(conv(conv(x, "conv1", 4, 3, 2, 1), "conv2", 5, 1, 1, 0))
	}),
	classifier("conv bias relu", 3, []int{2, 5, 5}, func(x *gorgonia.Node) *gorgonia.Node {
		return end(nn.ReLU(nn.Conv2D(x, "conv1", nn.Conv2DConfig{Filters: 4, Kernel: nn.Square(3), Bias: true})))
	}),
	classifier("conv relu", 3, []int{3, 6, 5}, func(x *gorgonia.Node) *gorgonia.Node {
		return end(conv(nn.ReLU(conv(x, "conv1", 6, 3, 1, 1)), "conv2", 4, 3, 1, 0))
	}),
	classifier("batch norm", 4, []int{3, 5, 5}, func(x *gorgonia.Node) *gorgonia.Node {
		return end(nn.BatchNorm2D(conv(x, "conv1", 6, 3, 1, 1), "bn", nn.BatchNormConfig{}))
	}),
	classifier("batch norm relu", 4, []int{3, 5, 5}, func(x *gorgonia.Node) *gorgonia.Node {
		x = nn.ReLU(nn.BatchNorm2D(conv(x, "conv1", 6, 3, 1, 1), "bn", nn.BatchNormConfig{}))
		return end(conv(x, "conv2", 4, 3, 1, 0))
	}),
	classifier("residual", 4, []int{4, 5, 5}, func(x *gorgonia.Node) *gorgonia.Node {
		x = nn.ReLU(nn.BatchNorm2D(conv(x, "conv0", 4, 3, 1, 1), "bn0", nn.BatchNormConfig{}))
		y := nn.BatchNorm2D(conv(x, "conv1", 4, 3, 1, 1), "bn1", nn.BatchNormConfig{})
		x = nn.ReLU(nn.Add(y, x))
		y = nn.BatchNorm2D(conv(x, "conv2", 6, 3, 2, 1), "bn2", nn.BatchNormConfig{})
		z := nn.BatchNorm2D(conv(x, "down", 6, 1, 2, 0), "bn3", nn.BatchNormConfig{})
		return end(nn.ReLU(nn.Add(y, z)))
	}),
	classifier("bare residual", 4, []int{4, 5, 5}, func(x *gorgonia.Node) *gorgonia.Node {
		x = conv(x, "conv0", 4, 3, 1, 1)
		return end(nn.Add(conv(x, "conv1", 4, 3, 1, 1), x)) // the gradient of the sum is what conv1's gradient is added to
	}),
	classifier("pools", 3, []int{3, 9, 8}, func(x *gorgonia.Node) *gorgonia.Node {
		x = nn.MaxPool2D(conv(x, "conv1", 4, 3, 1, 1), nn.PoolConfig{Kernel: nn.Square(3), Stride: nn.Square(2), Pad: nn.Square(1)})
		x = nn.AvgPool2D(x, nn.PoolConfig{Kernel: nn.Square(2), Stride: nn.Square(1), Pad: nn.Square(1)})
		x = nn.AvgPool2D(x, nn.PoolConfig{Kernel: nn.Square(2), Stride: nn.Square(1), Pad: nn.Square(1), ExcludePad: true})
		return nn.Linear(nn.GlobalAvgPool2D(x), "fc", nn.LinearConfig{Out: 5})
	}),
	classifier("upsample", 3, []int{3, 4, 5}, func(x *gorgonia.Node) *gorgonia.Node {
		x = nn.Upsample2D(conv(x, "conv1", 4, 3, 1, 1), 2)
		return end(conv(nn.Upsample2D(conv(x, "conv2", 3, 3, 2, 1), 3), "conv3", 4, 3, 2, 0))
	}),
	classifier("dropout images", 3, []int{3, 4, 5}, func(x *gorgonia.Node) *gorgonia.Node {
		return end(nn.Dropout(conv(x, "conv1", 4, 3, 1, 1), "drop", 0.5))
	}),
	classifier("softmax", 4, []int{6}, func(x *gorgonia.Node) *gorgonia.Node {
		return nn.Linear(nn.Softmax(nn.Linear(x, "fc1", nn.LinearConfig{Out: 7})), "fc2", nn.LinearConfig{Out: 5})
	}),
	{"embedding mse", 10, func(g *gorgonia.ExprGraph) *gorgonia.Node {
		ids := nn.IDs(g, "ids", 4, 3)
		x := nn.Flatten(nn.Embedding(ids, "table", nn.EmbeddingConfig{Rows: 10, Dim: 5}))
		return nn.MSE(nn.Linear(x, "fc", nn.LinearConfig{Out: 2}), nn.Input(g, "t", 4, 2))
	}},
	{"soft targets", 70, func(g *gorgonia.ExprGraph) *gorgonia.Node {
		x := nn.Linear(nn.Input(g, "x", 24, 9), "fc", nn.LinearConfig{Out: 70})
		few := nn.SoftCrossEntropy(nn.Linear(x, "fc2", nn.LinearConfig{Out: 5}), nn.Input(g, "t2", 24, 5))
		return nn.Add(nn.SoftCrossEntropy(x, nn.Input(g, "t", 24, 70)), few)
	}},
	{"several labels", 70, func(g *gorgonia.ExprGraph) *gorgonia.Node {
		x := nn.Linear(nn.Input(g, "x", 24, 9), "fc", nn.LinearConfig{Out: 70})
		weighted := nn.BinaryCrossEntropyConfig{PosWeights: []float32{1, 2, 0, 0.5, 30}}
		few := nn.BinaryCrossEntropy(nn.Linear(x, "fc2", nn.LinearConfig{Out: 5}), nn.Input(g, "t2", 24, 5), weighted)
		return nn.Add(nn.BinaryCrossEntropy(x, nn.Input(g, "t", 24, 70), nn.BinaryCrossEntropyConfig{}), few)
	}},
	// Large enough that every pass is cut into pieces.
	classifier("pieces", 24, []int{16, 10, 10}, func(x *gorgonia.Node) *gorgonia.Node {
		x = nn.ReLU(nn.BatchNorm2D(x, "bn1", nn.BatchNormConfig{}))
		y := nn.Conv2D(x, "conv1", nn.Conv2DConfig{Filters: 16, Kernel: nn.Square(1), Bias: true})
		x = nn.Dropout(nn.ReLU(nn.Add(nn.BatchNorm2D(y, "bn2", nn.BatchNormConfig{}), x)), "drop", 0.2)
		x = nn.AvgPool2D(nn.MaxPool2D(x, nn.PoolConfig{Kernel: nn.Square(2)}), nn.PoolConfig{Kernel: nn.Square(2)})
		return end(x)
	}),
	classifier("lenet", 2, []int{1, 28, 28}, func(x *gorgonia.Node) *gorgonia.Node {
		return nn.LeNet(x, nn.LeNetConfig{Classes: 5})
	}),
	classifier("resnet18 cifar", 3, []int{3, 16, 16}, func(x *gorgonia.Node) *gorgonia.Node {
		return nn.ResNet18(x, nn.ResNetConfig{Classes: 5, Stem: nn.CIFAR, Width: 4})
	}),
	classifier("resnet18 imagenet", 3, []int{3, 33, 33}, func(x *gorgonia.Node) *gorgonia.Node {
		return nn.ResNet18(x, nn.ResNetConfig{Classes: 5, Width: 4})
	}),
}

// compile builds a model twice, from the same seed: once for the reference and once compiled.
func compile(t testing.TB, m model, cfg nn.Config) (*gorgonia.Node, *nn.Program) {
	t.Helper()
	g := gorgonia.NewGraph()
	nn.Configure(g, nn.GraphConfig{Seed: 7})
	loss := m.build(g)
	p, err := nn.Compile(loss, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return loss, p
}

func reference(t testing.TB, m model) (*gorgonia.Node, *ref.Runner) {
	t.Helper()
	g := gorgonia.NewGraph()
	nn.Configure(g, nn.GraphConfig{Seed: 7})
	loss := m.build(g)
	r, err := ref.New(loss)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return loss, r
}

func TestCompileRefusesAnUnknownPath(t *testing.T) {
	g := gorgonia.NewGraph()
	x := gorgonia.NewMatrix(g, gorgonia.Float32, gorgonia.WithShape(4, 3), gorgonia.WithName("x"))
	t.Setenv("PARAGON_CPU", "sse9")
	_, err := nn.Compile(nn.ReLU(x), nn.Config{Inference: true})
	if err == nil || !strings.Contains(err.Error(), `PARAGON_CPU="sse9": no such path`) {
		t.Errorf("got error %v, want one that names the variable and its value", err)
	}
}

func TestStepEqualsReference(t *testing.T) {
	for _, m := range models {
		t.Run(m.name, func(t *testing.T) {
			refLoss, r := reference(t, m)
			var programs []*nn.Program
			for _, threads := range []int{1, 3} {
				_, p := compile(t, m, nn.Config{Threads: threads})
				programs = append(programs, p)
			}
			for step := range 2 {
				for _, p := range programs {
					fillInputs(t, refLoss.Graph(), p, r, m.classes, uint64(step)) // the same each time
				}
				if err := r.Step(); err != nil {
					t.Fatal(err)
				}
				for i, p := range programs {
					if err := p.Step(context.Background(), nil); err != nil {
						t.Fatal(err)
					}
					what := fmt.Sprintf("program %d step %d", i, step)
					near(t, what+" loss", []float32{float32(p.Loss())}, []float64{r.Loss()}, tolerance)
					nearGradients(t, what, p, r, tolerance)
				}
			}
			for _, p := range programs {
				statesEqual(t, p, op.States(refLoss.Graph()))
			}
			if t.Failed() {
				t.Logf("plan:\n%s", programs[0].Plan())
			}
		})
	}
}

// statesEqual compares a program's state with that of the reference's graph.
func statesEqual(t *testing.T, p *nn.Program, want []op.State) {
	t.Helper()
	if len(want) != len(p.State()) {
		t.Fatalf("got %d tensors of state, want %d", len(p.State()), len(want))
	}
	for i, s := range want {
		values, err := ref.Numbers(s.Value)
		if err != nil {
			t.Fatal(err)
		}
		if got := p.State()[i]; got.Name != s.Name {
			t.Errorf("state %d is %q, want %q", i, got.Name, s.Name)
		} else {
			near(t, s.Name, got.Value, values, tolerance)
		}
	}
}
