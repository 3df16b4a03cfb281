package nn_test

import (
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

// noise is n normal numbers.
func noise(n int, seed uint64) []float64 {
	r := rand.New(rand.NewPCG(seed, 0))
	out := make([]float64, n)
	for i := range out {
		out[i] = r.NormFloat64()
	}
	return out
}

func TestLeavesAreListedWithTheirRolesInOrder(t *testing.T) {
	g := gorgonia.NewGraph()
	images, labels := nn.Input(g, "images", 2, 1, 4, 4), nn.Labels(g, "labels", 2)
	x := nn.BatchNorm2D(nn.Conv2D(images, "conv", nn.Conv2DConfig{Filters: 3, Kernel: nn.Square(3), Bias: true}), "bn", nn.BatchNormConfig{})
	nn.SoftmaxCrossEntropy(nn.Linear(nn.Flatten(x), "fc", nn.LinearConfig{Out: 2}), labels)
	var got []string
	for _, l := range op.Leaves(g) {
		got = append(got, l.Node.Name()+" "+l.Role.String())
	}
	want := []string{"images input", "labels labels", "conv.weight parameter", "conv.bias parameter", "bn.weight parameter", "bn.bias parameter", "fc.weight parameter", "fc.bias parameter"}
	if !slices.Equal(got, want) {
		t.Errorf("leaves are %q, want %q", got, want)
	}
}

func TestEveryLeafWithAValueOfAPureGorgoniaGraphIsAParameter(t *testing.T) {
	g := gorgonia.NewGraph()
	value := func() gorgonia.NodeConsOpt {
		return gorgonia.WithValue(tensor.New(tensor.WithShape(2, 2), tensor.WithBacking(noise(4, 1))))
	}
	x := gorgonia.NewMatrix(g, tensor.Float64, gorgonia.WithShape(2, 2), gorgonia.WithName("x"), value())
	w := gorgonia.NewMatrix(g, tensor.Float64, gorgonia.WithShape(2, 2), gorgonia.WithName("w"), value())
	y := gorgonia.NewMatrix(g, tensor.Float64, gorgonia.WithShape(2, 2), gorgonia.WithName("y"))
	e := gorgonia.Must(gorgonia.Sub(gorgonia.Must(gorgonia.Mul(x, w)), y))
	loss := gorgonia.Must(gorgonia.Mean(gorgonia.Must(gorgonia.Square(e))))
	if got := nn.Parameters(g); len(got) != 2 {
		t.Errorf("parameters are %v, want x and w", got)
	}
	nn.DeclareInput(x)
	if got := nn.Parameters(g); len(got) != 1 || got[0] != w {
		t.Errorf("parameters are %v, want w", got)
	}
	r, err := ref.New(loss)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	set(t, r, "y", noise(4, 2))
	if err := r.CheckGradients(4, 1e-5, 1e-6); err != nil {
		t.Error(err)
	}
}

func TestGradientsAreMadeOnceForALoss(t *testing.T) {
	g := gorgonia.NewGraph()
	logits := nn.MLP(nn.Input(g, "x", 2, 3), nn.MLPConfig{Hidden: []int{4}, Classes: 2})
	loss := nn.SoftmaxCrossEntropy(logits, nn.Labels(g, "labels", 2))
	_, first, err := op.Gradients(loss)
	if err != nil {
		t.Fatal(err)
	}
	nodes := len(g.AllNodes())
	_, again, err := op.Gradients(loss)
	if err != nil || !slices.Equal(first, again) || len(g.AllNodes()) != nodes {
		t.Errorf("a second call gave %v, %v and %d nodes, want the first's gradients and %d nodes", again, err, len(g.AllNodes()), nodes)
	}
	other := nn.MSE(logits, nn.Input(g, "target", 2, 2))
	if _, _, err := op.Gradients(other); err == nil {
		t.Error("gradients of a second loss in one graph: got no error")
	}
}

// A gorgonia program that has called Grad keeps its choice of learnables, and its
// inputs may have values.
func TestAProgramsOwnCallOfGradIsHonoured(t *testing.T) {
	g := gorgonia.NewGraph()
	value := func(seed uint64) gorgonia.NodeConsOpt {
		return gorgonia.WithValue(tensor.New(tensor.WithShape(2, 2), tensor.WithBacking(noise(4, seed))))
	}
	x := gorgonia.NewMatrix(g, tensor.Float64, gorgonia.WithShape(2, 2), gorgonia.WithName("x"), value(1))
	w := gorgonia.NewMatrix(g, tensor.Float64, gorgonia.WithShape(2, 2), gorgonia.WithName("w"), value(2))
	inner := gorgonia.Must(gorgonia.Sum(gorgonia.Must(gorgonia.Square(gorgonia.Must(gorgonia.Mul(x, w))))))
	loss := gorgonia.Must(gorgonia.Mul(inner, gorgonia.NewConstant(0.5)))
	if _, err := gorgonia.Grad(loss, w); err != nil {
		t.Fatal(err)
	}
	params, _, err := op.Gradients(loss)
	if err != nil || len(params) != 1 || params[0] != w {
		t.Fatalf("parameters are %v, %v, want w", params, err)
	}
	if got := nn.Parameters(g); len(got) != 1 || got[0] != w {
		t.Errorf("leaves that are parameters are %v, want w", got)
	}
	r, err := ref.New(loss)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if err := r.CheckGradients(4, 1e-5, 1e-6); err != nil {
		t.Error(err)
	}
	if _, _, err := op.Gradients(inner); err == nil {
		t.Error("gradients of a part of a differentiated loss: got no error")
	}
}

func TestACloneOfAGraphKnowsItsLeaves(t *testing.T) {
	g := gorgonia.NewGraph()
	logits := nn.MLP(nn.Input(g, "x", 2, 3), nn.MLPConfig{Hidden: []int{4}, Classes: 2})
	loss := nn.SoftmaxCrossEntropy(logits, nn.Labels(g, "labels", 2))
	params, _, err := op.Gradients(loss)
	if err != nil {
		t.Fatal(err)
	}
	c := g.Clone().(*gorgonia.ExprGraph)
	want, got := op.Leaves(g), op.Leaves(c)
	if len(got) != len(want) {
		t.Fatalf("clone has %d leaves, want %d", len(got), len(want))
	}
	for i := range want {
		if got[i].Node == want[i].Node || got[i].Node.Name() != want[i].Node.Name() || got[i].Role != want[i].Role {
			t.Errorf("leaf %d of the clone is %v, want one like %v", i, got[i], want[i])
		}
	}
	cloned, _, err := op.Gradients(c.Node(loss.ID()).(*gorgonia.Node))
	if err != nil || len(cloned) != len(params) {
		t.Errorf("gradients in the clone: %d parameters, %v, want %d", len(cloned), err, len(params))
	}
}

// A parameter that the loss does not depend on is no obstacle.
func TestParametersThatTheLossDoesNotReachHaveNoGradient(t *testing.T) {
	g := gorgonia.NewGraph()
	x := nn.Input(g, "x", 2, 3)
	nn.Linear(x, "side", nn.LinearConfig{Out: 2})
	loss := nn.MSE(nn.Linear(x, "main", nn.LinearConfig{Out: 2}), nn.Input(g, "target", 2, 2))
	params, _, err := op.Gradients(loss)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, p := range params {
		got = append(got, p.Name())
	}
	if !slices.Equal(got, []string{"main.weight", "main.bias"}) {
		t.Errorf("parameters with a gradient are %v, want main.weight and main.bias", got)
	}
}

func TestMistakesInShapesPanicWithTheNumbers(t *testing.T) {
	cases := []struct {
		name  string
		build func(g *gorgonia.ExprGraph, x *gorgonia.Node)
		want  string
	}{
		{"dimensions", func(_ *gorgonia.ExprGraph, x *gorgonia.Node) {
			nn.GroupNorm(nn.Flatten(x), "gn", nn.GroupNormConfig{Groups: 1})
		}, `nn: GroupNorm "gn": x is (2, 48), want (N,C,H,W)`},
		{"kernel", func(_ *gorgonia.ExprGraph, x *gorgonia.Node) {
			nn.Conv2D(x, "c", nn.Conv2DConfig{Filters: 2, Kernel: nn.Square(9)})
		}, `kernel [9 9] does not fit into x (2, 3, 4, 4)`},
		{"name", func(_ *gorgonia.ExprGraph, x *gorgonia.Node) {
			nn.BatchNorm2D(nn.BatchNorm2D(x, "bn", nn.BatchNormConfig{}), "bn", nn.BatchNormConfig{})
		}, `"bn.weight" is empty or in use`},
		{"input", func(g *gorgonia.ExprGraph, _ *gorgonia.Node) { nn.Input(g, "x", 1) }, `"x" is empty or in use`},
		{"classes", func(_ *gorgonia.ExprGraph, x *gorgonia.Node) { nn.ResNet18(x, nn.ResNetConfig{}) }, `nn: ResNet18: 0 classes`},
		{"batch", func(g *gorgonia.ExprGraph, x *gorgonia.Node) {
			nn.SoftmaxCrossEntropy(nn.Flatten(x), nn.Labels(g, "labels", 3))
		}, `logits are (2, 48) and labels (3)`},
		{"add", func(_ *gorgonia.ExprGraph, x *gorgonia.Node) { nn.Add(x, nn.GlobalAvgPool2D(x)) }, `nn: Add: `},
		{"rate", func(_ *gorgonia.ExprGraph, x *gorgonia.Node) { nn.Dropout(x, "drop", 1) }, `want 0 ≤ rate < 1`},
		{"pad", func(_ *gorgonia.ExprGraph, x *gorgonia.Node) {
			nn.MaxPool2D(x, nn.PoolConfig{Kernel: nn.Square(2), Pad: nn.Square(2)})
		}, `more than half of kernel`},
		{"late Configure", func(g *gorgonia.ExprGraph, _ *gorgonia.Node) { nn.Configure(g, nn.GraphConfig{}) }, `nn: Configure`},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			defer func() {
				got, _ := recover().(string)
				if !strings.HasPrefix(got, "nn: ") || !strings.Contains(got, c.want) {
					t.Errorf("panic is %q, want one that begins with nn: and contains %q", got, c.want)
				}
			}()
			g := gorgonia.NewGraph()
			c.build(g, nn.Input(g, "x", 2, 3, 4, 4))
		})
	}
}

func TestInitialValuesDependOnSeedAndNameAlone(t *testing.T) {
	weights := func(seed uint64, names ...string) map[string][]float32 {
		g := gorgonia.NewGraph()
		nn.Configure(g, nn.GraphConfig{Seed: seed})
		x := nn.Input(g, "x", 2, 8)
		out := map[string][]float32{}
		for _, name := range names {
			nn.Linear(x, name, nn.LinearConfig{Out: 4})
		}
		for _, n := range nn.Parameters(g) {
			out[n.Name()] = n.Value().Data().([]float32)
		}
		return out
	}
	a, b, c := weights(1, "p", "q"), weights(1, "r", "q", "p"), weights(2, "p")
	if !slices.Equal(a["p.weight"], b["p.weight"]) || !slices.Equal(a["q.weight"], b["q.weight"]) {
		t.Error("weights change with the order of layers")
	}
	if slices.Equal(a["p.weight"], a["q.weight"]) || slices.Equal(a["p.weight"], c["p.weight"]) {
		t.Error("weights of two names or two seeds are the same")
	}
}

func TestInitialValuesHaveTheStatedSpread(t *testing.T) {
	const in, out, kernel = 48, 64, 9 // a 3×3 convolution
	fanIn, fanOut := float64(in*kernel), float64(out*kernel)
	cases := []struct {
		name      string
		init      nn.Init
		deviation float64
		bound     float64 // 0: none
	}{
		{"Constant", nn.Constant(0), 0, 0},
		{"Normal", nn.Normal(0.3), 0.3, 0},
		{"Uniform", nn.Uniform(0.3), 0.3 / math.Sqrt(3), 0.3},
		{"XavierUniform", nn.XavierUniform(1), math.Sqrt(2 / (fanIn + fanOut)), math.Sqrt(6 / (fanIn + fanOut))},
		{"XavierUniform gain", nn.XavierUniform(2), 2 * math.Sqrt(2/(fanIn+fanOut)), 2 * math.Sqrt(6/(fanIn+fanOut))},
		{"XavierNormal", nn.XavierNormal(1), math.Sqrt(2 / (fanIn + fanOut)), 0},
		{"MSRA", nn.MSRA(), math.Sqrt(2 / fanIn), 0},
		{"He", nn.He(), math.Sqrt(2 / fanIn), 0},
		{"MSRAOut", nn.MSRAOut(), math.Sqrt(2 / fanOut), 0},
		{"MSRAUniform", nn.MSRAUniform(), math.Sqrt(2 / fanIn), math.Sqrt(6 / fanIn)},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			values := make([]float64, in*out*kernel)
			c.init(rand.New(rand.NewPCG(1, 2)), []int{out, in, 3, 3}, values)
			var mean, square, largest float64
			for _, v := range values {
				mean += v / float64(len(values))
				square += v * v / float64(len(values))
				largest = max(largest, math.Abs(v))
			}
			deviation := math.Sqrt(square - mean*mean)
			if math.Abs(mean) > 0.03*c.deviation || math.Abs(deviation-c.deviation) > 0.02*c.deviation {
				t.Errorf("mean %g, deviation %g, want 0 and %g", mean, deviation, c.deviation)
			}
			if c.bound > 0 && (largest > c.bound || largest < 0.99*c.bound) {
				t.Errorf("largest is %g, want just under %g", largest, c.bound)
			}
		})
	}
}

func TestEvaluationUsesRunningStatisticsAndDropsNothing(t *testing.T) {
	g := gorgonia.NewGraph()
	nn.Configure(g, nn.GraphConfig{Float64: true})
	x := nn.Input(g, "x", 4, 2, 3, 3)
	normal := nn.BatchNorm2D(x, "bn", nn.BatchNormConfig{})
	y := nn.Dropout(normal, "drop", 0.5)
	loss := nn.MSE(y, nn.Input(g, "target", 4, 2, 3, 3))
	r, err := ref.New(loss)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	values := noise(72, 9)
	set(t, r, "x", values)
	set(t, r, "target", make([]float64, 72))
	got, err := r.Eval(y)
	if err != nil {
		t.Fatal(err)
	}
	for i, v := range got { // running mean 0, running variance 1
		if math.Abs(v-values[i]/math.Sqrt(1+1e-5)) > 1e-12 {
			t.Fatalf("before training element %d is %g, want %g", i, v, values[i])
		}
	}
	for range 200 {
		if err := r.Step(); err != nil {
			t.Fatal(err)
		}
	}
	got, err = r.Eval(y)
	if err != nil {
		t.Fatal(err)
	}
	var sum, square float64
	for i := range 36 { // channel 0
		v := got[i/9*18+i%9]
		sum, square = sum+v, square+v*v
	}
	// The running variance is the unbiased one: 36/35 of the batch's.
	if math.Abs(sum/36) > 1e-6 || math.Abs(square/35-1) > 1e-4 {
		t.Errorf("after training on one batch its channel has sum %g and sum of squares %g, want 0 and 35", sum, square)
	}
}

// Executors order their work by the graph's nodes, so two processes that build
// one model must get the same nodes in the same order.
func TestAModelAndItsGradientsAreTheSameNodesEachTime(t *testing.T) {
	build := func() []string {
		g := gorgonia.NewGraph()
		logits := nn.ResNet18(nn.Input(g, "images", 2, 3, 32, 32), nn.ResNetConfig{Classes: 10, Width: 4})
		if _, _, err := op.Gradients(nn.SoftmaxCrossEntropy(logits, nn.Labels(g, "labels", 2))); err != nil {
			t.Fatal(err)
		}
		var out []string
		for _, n := range g.AllNodes() {
			out = append(out, n.Name())
		}
		return out
	}
	first := build()
	for range 3 {
		if again := build(); !slices.Equal(first, again) {
			t.Fatalf("nodes are %v, then %v", first, again)
		}
	}
}
