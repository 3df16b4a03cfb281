package nn_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/paragon-train/paragon/internal/compute/ref"
	"github.com/paragon-train/paragon/nn"
	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// Models of normalised rows and of shapes are among models.
func init() { models = append(models, rowModels...) }

var rowModels = []model{
	classifier("attention of plain products", 4, []int{6, 16}, func(x *gorgonia.Node) *gorgonia.Node {
		x = nn.Add(x, weight(x.Graph(), "positions", 6, 16))
		qkv := nn.Split(nn.Linear(nn.LayerNorm(x, "ln1", nn.LayerNormConfig{}), "qkv", nn.LinearConfig{Out: 48}), -1, 16, 16, 16)
		for i, y := range qkv {
			qkv[i] = nn.Permute(nn.Reshape(y, 4, 6, 2, 8), 0, 2, 1, 3)
		}
		scores := nn.MatMul(qkv[0], qkv[1], nn.MatMulConfig{TransB: true})
		y := nn.MatMul(nn.Softmax(scores), qkv[2], nn.MatMulConfig{})
		y = nn.Reshape(nn.Permute(y, 0, 2, 1, 3), 4, 6, -1)
		x = nn.Add(x, nn.Linear(y, "proj", nn.LinearConfig{Out: 16}))
		y = nn.RMSNorm(x, "ln2", nn.RMSNormConfig{})
		y = nn.Mul(nn.Linear(y, "gate", nn.LinearConfig{Out: 20}), nn.Linear(y, "up", nn.LinearConfig{Out: 20, NoBias: true}))
		x = nn.Add(x, nn.Linear(y, "down", nn.LinearConfig{Out: 16}))
		x = nn.LayerNorm(x, "ln3", nn.LayerNormConfig{NoBias: true})
		return end(nn.Slice(x, 1, 0, 1))
	}),
	classifier("group normalisation", 3, []int{3, 6, 5}, func(x *gorgonia.Node) *gorgonia.Node {
		x = nn.ReLU(nn.GroupNorm(conv(x, "conv1", 12, 3, 1, 1), "gn1", nn.GroupNormConfig{Groups: 4}))
		x = nn.Add(x, nn.GroupNorm(conv(x, "conv2", 12, 3, 1, 1), "gn2", nn.GroupNormConfig{Groups: 1}))
		return end(nn.GroupNorm(x, "gn3", nn.GroupNormConfig{Groups: 12}))
	}),
	// Large enough that every pass is cut into pieces.
	classifier("pieces of rows", 8, []int{40, 60}, func(x *gorgonia.Node) *gorgonia.Node {
		g := x.Graph()
		x = nn.Mul(nn.Add(x, weight(g, "positions", 40, 60)), weight(g, "scale", 60))
		y := nn.Add(weight(g, "column", 40, 1), nn.LayerNorm(x, "ln1", nn.LayerNormConfig{}))
		x = nn.Add(x, y)
		x = nn.Concat(1, nn.RMSNorm(x, "ln2", nn.RMSNormConfig{}), nn.Slice(x, 1, 3, 20), nn.Slice(y, 1, 0, 5))
		x = nn.Permute(nn.Mul(x, nn.Slice(x, 1, 7, 8)), 0, 2, 1)
		x = nn.MatMul(x, weight(g, "mix", 8, 62, 20), nn.MatMulConfig{})
		return end(nn.LayerNorm(nn.Reshape(nn.Permute(nn.Reshape(x, 8, 6, 10, 20), 0, 3, 2, 1), 8, 20, 60), "ln4", nn.LayerNormConfig{}))
	}),
	// The sums of gradients have every form.
	classifier("broadcasting", 4, []int{3, 5}, func(x *gorgonia.Node) *gorgonia.Node {
		g := x.Graph()
		x = nn.Add(x, weight(g, "rows", 3, 1))
		x = nn.Mul(x, weight(g, "one", 1, 1, 1))
		x = nn.Mul(weight(g, "middle", 4, 1, 5), x)
		x = nn.Add(weight(g, "front", 2, 1, 1, 1), x)
		x = nn.Mul(x, weight(g, "ends", 2, 1, 3, 1))
		return end(nn.Permute(x, 1, 3, 0, 2))
	}),
	classifier("columns", 3, []int{2, 9000}, func(x *gorgonia.Node) *gorgonia.Node {
		g := x.Graph()
		x = nn.Add(x, weight(g, "positions", 2, 9000))
		x = nn.Mul(x, weight(g, "number", 1))
		return end(nn.Slice(nn.Add(x, weight(g, "row", 1, 9000)), 2, 8950, 9000))
	}),
}

// A rowOracle is a case of norms.json or products.json.
type rowOracle struct {
	Name            string
	Attributes      map[string]any
	Inputs          map[string]array
	Outputs         map[string]array
	OutputGradients map[string]array `json:"output_gradients"`
	InputGradients  map[string]array `json:"input_gradients"`
}

// input has the numbers of an input, which are float32.
func (c *rowOracle) input(name string) []float64 {
	out := c.Inputs[name].numbers()
	for i, v := range out {
		out[i] = float64(float32(v))
	}
	return out
}

// build makes the graph of the loss Σ y⊙dy.
func (c *rowOracle) build(dt tensor.Dtype) (loss, y *gorgonia.Node) {
	g := gorgonia.NewGraph()
	nn.Configure(g, nn.GraphConfig{Float64: dt == tensor.Float64})
	in := func(name string) *gorgonia.Node {
		return parameter(g, dt, name, c.input(name), c.Inputs[name].Shape...)
	}
	eps := 0.0
	if s, ok := c.Attributes["eps"].(string); ok {
		eps, _ = strconv.ParseFloat(s, 64)
	}
	flag := func(name string) bool { b, _ := c.Attributes[name].(bool); return b }
	switch name := strings.Fields(c.Name)[0]; name {
	case "LayerNorm":
		_, bias := c.Inputs["bias"]
		y = nn.LayerNorm(in("x"), "norm", nn.LayerNormConfig{Epsilon: eps, NoBias: !bias})
	case "RMSNorm":
		y = nn.RMSNorm(in("x"), "norm", nn.RMSNormConfig{Epsilon: eps})
	case "GroupNorm":
		y = nn.GroupNorm(in("x"), "norm", nn.GroupNormConfig{Epsilon: eps, Groups: int(c.Attributes["groups"].(float64))})
	case "BatchedMatMul":
		y = nn.MatMul(in("a"), in("b"), nn.MatMulConfig{TransA: flag("transpose_a"), TransB: flag("transpose_b")})
	case "Concat":
		y = nn.Permute(nn.Concat(1, in("x"), in("y")), 0, 2, 1)
	case "Mul":
		y = nn.Add(nn.Mul(in("x"), in("s")), in("t"))
	default:
		panic(name)
	}
	dy := nn.Input(g, "output gradient", y.Shape()...)
	return gorgonia.Must(gorgonia.Sum(gorgonia.Must(gorgonia.HadamardProd(y, dy)))), y
}

// one is the array of a map that has one.
func one(m map[string]array) []float64 {
	for _, a := range m {
		return a.numbers()
	}
	return nil
}

// parameters calls f with the oracle's name and the graph's of each input.
func (c *rowOracle) parameters(f func(oracle, graph string)) {
	for name := range c.Inputs {
		graph := name
		if name == "weight" || name == "bias" {
			graph = "norm." + name
		}
		f(name, graph)
	}
}

func rowOracles(t *testing.T, f func(t *testing.T, c *rowOracle)) {
	for _, file := range []string{"norms.json", "products.json"} {
		for i, c := range readOracles[rowOracle](t, file) {
			t.Run(fmt.Sprintf("%s %d %s", file, i, strings.SplitN(c.Name, ";", 2)[0]), func(t *testing.T) { f(t, &c) })
		}
	}
}

func TestLoopsOfRowsGiveWhatTorchGives(t *testing.T) {
	rowOracles(t, func(t *testing.T, c *rowOracle) {
		loss, y := c.build(tensor.Float64)
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
		set("output gradient", one(c.OutputGradients))
		c.parameters(func(oracle, graph string) { set(graph, c.input(oracle)) })
		if err := r.Step(); err != nil {
			t.Fatal(err)
		}
		got, err := r.Eval(y)
		if err != nil {
			t.Fatal(err)
		}
		near(t, "y", converted[float32](got), one(c.Outputs), 1e-6)
		c.parameters(func(oracle, graph string) {
			near(t, "gradient of "+oracle, converted[float32](r.Grad(graph)), c.InputGradients["d"+oracle].numbers(), 1e-6)
		})
	})
}

func TestKernelsOfRowsGiveWhatTorchGives(t *testing.T) {
	rowOracles(t, func(t *testing.T, c *rowOracle) {
		loss, y := c.build(tensor.Float32)
		p, err := nn.Compile(loss, nn.Config{Threads: 2, Outputs: gorgonia.Nodes{y}})
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		in, err := p.Input("output gradient")
		if err != nil {
			t.Fatal(err)
		}
		copy(in, converted[float32](one(c.OutputGradients)))
		grads := make(map[string][]float32)
		for _, q := range p.Params() {
			grads[q.Name] = q.Gradient
			c.parameters(func(oracle, graph string) {
				if graph == q.Name {
					copy(q.Value, converted[float32](c.input(oracle)))
				}
			})
		}
		if err := p.Step(context.Background(), nil); err != nil {
			t.Fatal(err)
		}
		tolerance := 1e-5
		if strings.Contains(c.Name, "1000 deviations") {
			tolerance = 1e-4
		}
		got, err := p.Output(y)
		if err != nil {
			t.Fatal(err)
		}
		near(t, "y", got, one(c.Outputs), tolerance)
		c.parameters(func(oracle, graph string) {
			near(t, "gradient of "+oracle, grads[graph], c.InputGradients["d"+oracle].numbers(), tolerance)
		})
	})
}

// A LayerNorm computes the sum of the residual in front of it, and its gradient adds what comes from
// behind; pieces of one array get one array of gradients.
func TestPlansJoinNormalisationsAndPieces(t *testing.T) {
	_, p := compile(t, rowModels[0], nn.Config{})
	plan := fmt.Sprint(p.Plan())
	for kind, want := range map[string]int{" = Add(": 1, " = RowNorm(": 3, " = RowNormGrad(": 3, " = Join(": 2, " = Slice(": 4} {
		if got := strings.Count(plan, kind); got != want {
			t.Errorf("the plan has %d of %q, want %d", got, kind, want)
		}
	}
	if t.Failed() {
		t.Log(plan)
	}
}

// Padding has no part in models of rows, and where it would have, short batches are refused.
func TestShortBatchesOfRows(t *testing.T) {
	cases := []struct {
		name  string
		build func(x *gorgonia.Node) *gorgonia.Node
		says  string
	}{
		{"rows", func(x *gorgonia.Node) *gorgonia.Node {
			x = nn.Permute(nn.LayerNorm(nn.Add(x, weight(x.Graph(), "positions", 3, 4)), "ln", nn.LayerNormConfig{}), 0, 2, 1)
			return nn.Concat(1, x, nn.MatMul(x, nn.Slice(x, 1, 0, 3), nn.MatMulConfig{}))
		}, ""},
		{"axes moved", func(x *gorgonia.Node) *gorgonia.Node { return nn.Permute(nn.Permute(x, 1, 0, 2), 1, 0, 2) }, "Permute"},
		{"examples left out", func(x *gorgonia.Node) *gorgonia.Node { return nn.Concat(0, nn.Slice(x, 0, 0, 3), nn.Slice(x, 0, 1, 4)) }, "Concat"},
		{"an example for all", func(x *gorgonia.Node) *gorgonia.Node { return nn.Add(x, nn.Slice(x, 0, 0, 1)) }, "Broadcast"},
		{"examples multiplied", func(x *gorgonia.Node) *gorgonia.Node {
			x = nn.Flatten(x)
			return nn.MatMul(nn.MatMul(x, x, nn.MatMulConfig{TransB: true}), x, nn.MatMulConfig{})
		}, "MatMul"},
	}
	for _, c := range cases {
		g := gorgonia.NewGraph()
		y := nn.Linear(nn.Flatten(c.build(nn.Input(g, "x", 6, 3, 4))), "fc", nn.LinearConfig{Out: 5})
		p, err := nn.Compile(nn.SoftmaxCrossEntropy(y, nn.Labels(g, "labels", 6)), nn.Config{})
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		err = p.SetExamples(4)
		switch {
		case c.says == "" && err != nil:
			t.Errorf("%s: %v", c.name, err)
		case c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)):
			t.Errorf("%s: got error %v, want one that names %s", c.name, err, c.says)
		}
	}
}

// A GPU has no kernels for rows and shapes: compiling says so, and names the op.
func TestGPUsRefuseOpsOfRows(t *testing.T) {
	onFakes(t)
	for want, build := range map[string]func(x *gorgonia.Node) *gorgonia.Node{
		"RowNorm":     func(x *gorgonia.Node) *gorgonia.Node { return nn.LayerNorm(x, "ln", nn.LayerNormConfig{}) },
		"BatchMatMul": func(x *gorgonia.Node) *gorgonia.Node { return nn.MatMul(x, x, nn.MatMulConfig{TransB: true}) },
		"Permute":     func(x *gorgonia.Node) *gorgonia.Node { return nn.Permute(x, 0, 2, 1) },
		"Join":        func(x *gorgonia.Node) *gorgonia.Node { return nn.Concat(1, x, x) },
		"Slice":       func(x *gorgonia.Node) *gorgonia.Node { return nn.Slice(x, 1, 0, 2) },
		"Broadcast":   func(x *gorgonia.Node) *gorgonia.Node { return nn.Mul(x, weight(x.Graph(), "scale", 4)) },
		"GroupNorm": func(x *gorgonia.Node) *gorgonia.Node {
			return nn.GroupNorm(nn.Reshape(x, 4, 3, 4, 1), "gn", nn.GroupNormConfig{Groups: 3})
		},
	} {
		g := gorgonia.NewGraph()
		y := build(nn.Input(g, "x", 4, 3, 4))
		p, err := nn.Compile(y, nn.Config{Device: "cuda:0", Inference: true})
		if err == nil {
			p.Close()
		}
		if err == nil || !strings.Contains(err.Error(), ": "+want+": there is no kernel for this op") {
			t.Errorf("%s: got error %v, want one that names it", want, err)
		}
	}
}
