package nn_test

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/paragon-train/paragon/internal/compute/f32"
	"github.com/paragon-train/paragon/nn"
	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// An oracleArray is an array of an oracle, a number if Shape is empty. A null is −∞.
type oracleArray struct {
	Shape []int
	Data  []float64
}

func (a *oracleArray) UnmarshalJSON(text []byte) error {
	var n float64
	if json.Unmarshal(text, &n) == nil {
		a.Shape, a.Data = nil, []float64{n}
		return nil
	}
	var array struct {
		Shape []int
		Data  []*float64
	}
	if err := json.Unmarshal(text, &array); err != nil {
		return err
	}
	a.Shape = array.Shape
	for _, v := range array.Data {
		if v == nil {
			a.Data = append(a.Data, math.Inf(-1))
		} else {
			a.Data = append(a.Data, *v)
		}
	}
	return nil
}

// An oracleCase has inputs and what PyTorch computed from them in float64, rounded to float32.
type oracleCase struct {
	Name            string
	Attributes      map[string]any
	Inputs          map[string]oracleArray
	Outputs         map[string]oracleArray
	OutputGradients map[string]oracleArray `json:"output_gradients"`
	InputGradients  map[string]oracleArray `json:"input_gradients"`

	// X, Y and Derivative are a function's, on a grid.
	X, Y       *oracleArray
	Derivative *oracleArray `json:"dy_dx"`
}

func oracleCases(t *testing.T, file string) []oracleCase {
	t.Helper()
	text, err := os.ReadFile("testdata/" + file)
	if err != nil {
		t.Fatal(err)
	}
	var all struct{ Cases []oracleCase }
	if err := json.Unmarshal(text, &all); err != nil {
		t.Fatal(err)
	}
	return all.Cases
}

// oracleLeaf is a parameter with an oracle's numbers, so that it has a gradient.
func oracleLeaf(g *G.ExprGraph, name string, a oracleArray) *G.Node {
	data := make([]float32, len(a.Data))
	for i, v := range a.Data {
		data[i] = float32(v)
	}
	return G.NewTensor(g, tensor.Float32, len(a.Shape), G.WithShape(a.Shape...), G.WithName(name), G.WithValue(tensor.New(tensor.WithShape(a.Shape...), tensor.WithBacking(data))))
}

// checkOracle compares y of the leaves with want, and their gradients with wants, dy being that of
// y: a nil dy is 1 everywhere. y may be a loss. inputs fill the graph's.
func checkOracle(t *testing.T, y *G.Node, dy *oracleArray, want oracleArray, wants, inputs map[string]oracleArray) {
	t.Helper()
	loss := y
	if !y.IsScalar() {
		weighted := y
		if dy != nil {
			weighted = G.Must(G.HadamardProd(y, constant(*dy)))
		}
		loss = G.Must(G.Sum(weighted))
	}
	p, err := nn.Compile(loss, nn.Config{Threads: 2, Outputs: G.Nodes{y}})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	for name, a := range inputs {
		if name == "x" {
			continue
		}
		to, err := p.Input(name)
		if err != nil {
			t.Fatal(err)
		}
		for i, v := range a.Data {
			to[i] = float32(v)
		}
	}
	step(t, p, nil)
	got, err := p.Output(y)
	if err != nil {
		t.Fatal(err)
	}
	near(t, "result", got, want.Data, 1e-5)
	for _, q := range p.Params() {
		near(t, "gradient of "+q.Name, q.Gradient, wants[q.Name].Data, 1e-5)
	}
	if len(p.Params()) != len(wants) {
		t.Errorf("got %d gradients, want %d", len(p.Params()), len(wants))
	}
}

var functions = map[string]func(x *G.Node) *G.Node{
	"GELU exact":           func(x *G.Node) *G.Node { return nn.GELU(x, "none") },
	"GELU tanh":            func(x *G.Node) *G.Node { return nn.GELU(x, "tanh") },
	"SiLU":                 nn.SiLU,
	"Sigmoid":              nn.Sigmoid,
	"Tanh":                 nn.Tanh,
	"LeakyReLU slope 0.01": func(x *G.Node) *G.Node { return nn.LeakyReLU(x, 0.01) },
	"ReLU6":                nn.ReLU6,
	"Softplus":             nn.Softplus,
}

func TestActivationsAreThoseOfPyTorch(t *testing.T) {
	seen := 0
	for _, c := range oracleCases(t, "activations.json") {
		t.Run(c.Name, func(t *testing.T) {
			g := G.NewGraph()
			if f := functions[c.Name]; f != nil {
				seen++
				checkOracle(t, f(oracleLeaf(g, "x", *c.X)), nil, *c.Y, map[string]oracleArray{"x": *c.Derivative}, nil)
				return
			}
			dy := c.OutputGradients["dy"]
			z := nn.SwiGLU(oracleLeaf(g, "gate", c.Inputs["gate"]), oracleLeaf(g, "up", c.Inputs["up"]))
			checkOracle(t, z, &dy, c.Outputs["y"], map[string]oracleArray{"gate": c.InputGradients["dgate"], "up": c.InputGradients["dup"]}, nil)
		})
	}
	if seen != len(functions) {
		t.Errorf("%d functions have oracles, want %d", seen, len(functions))
	}
}

func TestSoftmaxAndDivergenceAreThoseOfPyTorch(t *testing.T) {
	for _, c := range oracleCases(t, "softmax.json") {
		t.Run(fmt.Sprint(c.Name, c.Attributes), func(t *testing.T) {
			wants := map[string]oracleArray{"x": c.InputGradients["dx"]}
			if strings.HasPrefix(c.Name, "KL") {
				for _, shape := range [][]int{{3, 5}, {1, 3, 5}} {
					x := oracleLeaf(G.NewGraph(), "x", c.Inputs["x"])
					loss := nn.KLDivergence(nn.Reshape(x, shape...), nn.Input(x.Graph(), "target", shape...))
					checkOracle(t, loss, nil, c.Outputs["loss"], wants, c.Inputs)
				}
				return
			}
			x := oracleLeaf(G.NewGraph(), "x", c.Inputs["x"])
			axis, dy := int(c.Attributes["axis"].(float64)), c.OutputGradients["dy"]
			softmax := nn.Softmax
			if strings.HasPrefix(c.Name, "Log") {
				softmax = nn.LogSoftmax
			}
			checkOracle(t, softmax(x, axis), &dy, c.Outputs["y"], wants, nil)
			fromEnd := oracleLeaf(G.NewGraph(), "x", c.Inputs["x"])
			checkOracle(t, softmax(fromEnd, axis-len(x.Shape())), &dy, c.Outputs["y"], wants, nil)
		})
	}
}

func constant(a oracleArray) *G.Node {
	data := make([]float32, len(a.Data))
	for i, v := range a.Data {
		data[i] = float32(v)
	}
	return G.NewConstant(tensor.New(tensor.WithShape(a.Shape...), tensor.WithBacking(data)))
}

// activated has every activation behind a layer, on images and on rows, and softmax along each kind
// of axis: more than a block of columns, and more numbers than are summed in float64.
var activated = model{"activated", 5, func(g *G.ExprGraph) *G.Node {
	x := nn.Input(g, "x", 3, 2, 6, 6)
	y := x
	for i, name := range []string{"GELU exact", "GELU tanh", "SiLU", "Sigmoid", "Tanh", "LeakyReLU slope 0.01", "ReLU6", "Softplus"} {
		y = functions[name](nn.BatchNorm2D(conv(y, fmt.Sprint("conv", i), 5, 3, 1, 1), fmt.Sprint("bn", i), nn.BatchNormConfig{}))
	}
	y = nn.LogSoftmax(nn.Softmax(y, 1), 2)
	y = nn.Softmax(nn.Linear(nn.Flatten(y), "wide", nn.LinearConfig{Out: 200}))
	up := nn.LogSoftmax(nn.Linear(y, "up", nn.LinearConfig{Out: 150}))
	y = nn.GELU(nn.Linear(y, "gate", nn.LinearConfig{Out: 150}), "tanh")
	return nn.SoftmaxCrossEntropy(nn.Linear(nn.SwiGLU(y, up), "fc", nn.LinearConfig{Out: 5}), nn.Labels(g, "labels", 3))
}}

func TestActivationsAndSoftmaxAgreeWithTheReference(t *testing.T) { against(t, activated) }

// manyClasses has more classes than are summed in float64: their exponentials are in float32.
func manyClasses(name string, loss func(logits, labels *G.Node) *G.Node) model {
	return model{name, 300, func(g *G.ExprGraph) *G.Node {
		return loss(nn.Linear(nn.Input(g, "x", 6, 20), "fc", nn.LinearConfig{Out: 300}), nn.Labels(g, "labels", 6))
	}}
}

func TestLossesOfManyClassesAgreeWithTheReference(t *testing.T) {
	weights := make([]float32, 300)
	for i := range weights {
		weights[i] = float32(i%7) / 3
	}
	for _, m := range []model{
		manyClasses("plain", nn.SoftmaxCrossEntropy),
		manyClasses("smoothed", func(x, labels *G.Node) *G.Node { return nn.SmoothedCrossEntropy(x, labels, 0.1) }),
		manyClasses("weighted", func(x, labels *G.Node) *G.Node {
			return nn.CrossEntropy(x, labels, nn.CrossEntropyConfig{ClassWeights: weights, Smoothing: 0.2})
		}),
		{"soft", 0, func(g *G.ExprGraph) *G.Node {
			return nn.SoftCrossEntropy(nn.Linear(nn.Input(g, "x", 6, 20), "fc", nn.LinearConfig{Out: 300}), nn.Softmax(nn.Input(g, "targets", 6, 300)))
		}},
		{"divergence", 0, func(g *G.ExprGraph) *G.Node {
			return nn.KLDivergence(nn.Linear(nn.Input(g, "x", 6, 20), "fc", nn.LinearConfig{Out: 300}), nn.Softmax(nn.Input(g, "targets", 6, 300)))
		}},
	} {
		t.Run(m.name, func(t *testing.T) { against(t, m) })
	}
}

func TestActivationsOfAnyNumberOfThreadsHaveTheSameBits(t *testing.T) {
	var first []float32
	for _, threads := range []int{1, 2, 3} {
		loss, p := compile(t, activated, nn.Config{Threads: threads})
		fillInputs(t, loss.Graph(), p, nil, activated.classes, 1)
		step(t, p, nil)
		var all []float32
		for _, q := range p.Params() {
			all = append(all, q.Gradient...)
		}
		if first == nil {
			first = all
		}
		if !slices.Equal(all, first) {
			t.Errorf("%d threads: gradients differ from those of one thread", threads)
		}
	}
}

func TestStepsWithActivationsAllocateNothing(t *testing.T) {
	for _, dtype := range []nn.DType{nn.Float32, nn.BFloat16} {
		loss, p := compile(t, activated, nn.Config{Threads: 2, DType: dtype})
		fillInputs(t, loss.Graph(), p, nil, activated.classes, 1)
		step(t, p, nil)
		if n := testing.AllocsPerRun(5, func() { step(t, p, nil) }); n != 0 {
			t.Errorf("%v: a step has %g allocations, want none", dtype, n)
		}
	}
}

func TestActivationsOnImagesAreStoredAsBFloat16(t *testing.T) {
	if !f32.StoresBFloat16() {
		t.Skip("this CPU stores no bfloat16")
	}
	loss, p := compile(t, activated, nn.Config{Threads: 2, DType: nn.BFloat16})
	for _, line := range strings.Split(p.Plan(), "\n") {
		if strings.Contains(line, "Activation") && !strings.Contains(line, "bf16") && !strings.Contains(line, "150") {
			t.Errorf("an activation of images is not stored as bfloat16: %s", line)
		}
	}
	_, r := reference(t, activated)
	fillInputs(t, loss.Graph(), p, r, activated.classes, 1)
	step(t, p, nil)
	if err := r.Step(); err != nil {
		t.Fatal(err)
	}
	near(t, "loss", []float32{float32(p.Loss())}, []float64{r.Loss()}, 0x1p-8)
}

func TestActivationsThatAreAskedForWronglyPanic(t *testing.T) {
	x := nn.Input(G.NewGraph(), "x", 2, 3)
	for want, f := range map[string]func(){
		`approximation is "erf", want "none" or "tanh"`: func() { nn.GELU(x, "erf") },
		"slope is -1, want a finite number":             func() { nn.LeakyReLU(x, -1) },
		"axis is 2, and x (2, 3) has 2 axes":            func() { nn.Softmax(x, 2) },
		"axes are [0 1], want one":                      func() { nn.LogSoftmax(x, 0, 1) },
	} {
		func() {
			defer func() {
				if got := fmt.Sprint(recover()); !strings.Contains(got, want) {
					t.Errorf("got panic %q, want %q in it", got, want)
				}
			}()
			f()
		}()
	}
}

// behindNorms has an activation behind each batch normalisation, which computes those that keep
// their result.
var behindNorms = model{"behind", 5, func(g *G.ExprGraph) *G.Node {
	y := nn.Input(g, "x", 4, 3, 6, 6)
	for i, name := range []string{"ReLU6", "LeakyReLU slope 0.01", "SiLU", "Sigmoid", "Tanh", "ReLU6"} {
		y = functions[name](nn.BatchNorm2D(conv(y, fmt.Sprint("conv", i), 20, 1, 1, 0), fmt.Sprint("bn", i), nn.BatchNormConfig{}))
	}
	return nn.SoftmaxCrossEntropy(nn.Linear(nn.Flatten(y), "fc", nn.LinearConfig{Out: 5}), nn.Labels(g, "labels", 4))
}}

func TestBatchNormalisationsTakeInTheActivationsBehindThem(t *testing.T) {
	p := against(t, behindNorms)
	for want, n := range map[string]int{"BatchNorm+": 5, "BatchNormGrad+": 5, " Activation(": 1, " ActivationGrad(": 1} {
		if got := strings.Count(p.Plan(), want); got != n {
			t.Errorf("the plan has %d of %q, want %d:\n%s", got, want, n, p.Plan())
		}
	}
	loss, stored := compile(t, behindNorms, nn.Config{Threads: 2, DType: nn.BFloat16})
	fillInputs(t, loss.Graph(), stored, nil, behindNorms.classes, 1)
	step(t, stored, nil)
	near(t, "loss in bfloat16", []float32{float32(stored.Loss())}, []float64{p.Loss()}, 0x1p-6)
}

// The gradient of a first normalisation, whose argument has none, has no place of its own.
func TestBatchNormalisationOfAnInputTakesInItsActivation(t *testing.T) {
	against(t, model{"input", 5, func(g *G.ExprGraph) *G.Node {
		y := nn.ReLU6(nn.BatchNorm2D(nn.Input(g, "x", 4, 3, 6, 6), "bn", nn.BatchNormConfig{}))
		return nn.SoftmaxCrossEntropy(nn.Linear(nn.Flatten(y), "fc", nn.LinearConfig{Out: 5}), nn.Labels(g, "labels", 4))
	}})
}

func BenchmarkMobile(b *testing.B) {
	for _, dtype := range []nn.DType{nn.Float32, nn.BFloat16} {
		b.Run(fmt.Sprint(dtype), func(b *testing.B) {
			benchmarkStep(b, tenClasses("mobile", 64, []int{16, 32, 32}, func(x *G.Node) *G.Node {
				for i := range 4 {
					x = nn.ReLU6(nn.BatchNorm2D(conv(x, fmt.Sprint("conv", i), 96-32*(i%2), 1, 1, 0), fmt.Sprint("bn", i), nn.BatchNormConfig{}))
				}
				return nn.Linear(nn.GlobalAvgPool2D(x), "fc", nn.LinearConfig{Out: 10})
			}), 64, nn.Config{Threads: 2, DType: dtype})
		})
	}
}

// A GPU has no kernels for activations, nor for softmax but of rows of a matrix: compiling says so,
// and names the op.
func TestGPUsRefuseActivations(t *testing.T) {
	onFakes(t)
	for want, build := range map[string]func(x *G.Node) *G.Node{
		"Activation: there is no kernel for this op":                 func(x *G.Node) *G.Node { return nn.GELU(x, "tanh") },
		"SwiGLU: there is no kernel for this op":                     func(x *G.Node) *G.Node { return nn.SwiGLU(x, x) },
		"has no kernel for GPUs, which have nn.Softmax of logits":    func(x *G.Node) *G.Node { return nn.LogSoftmax(x, 1) },
		"BatchNorm: there is no kernel for the ReLU6 behind this op": func(x *G.Node) *G.Node { return nn.ReLU6(nn.BatchNorm2D(x, "bn", nn.BatchNormConfig{})) },
	} {
		p, err := nn.Compile(build(nn.Input(G.NewGraph(), "x", 4, 3, 4, 4)), nn.Config{Device: "cuda:0", Inference: true})
		if err == nil {
			p.Close()
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got error %v, want one with %q", err, want)
		}
	}
}
