package nn_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/paragon-train/paragon/internal/compute/op"
	"github.com/paragon-train/paragon/internal/compute/ref"
	"github.com/paragon-train/paragon/nn"
	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// A convOracle is a case of convolutions.json.
type convOracle rowOracle

// pair is an attribute of two numbers, or of some of four.
func (c *convOracle) pair(name string, at ...int) (p [2]int) {
	list, ok := c.Attributes[name].([]any)
	if !ok {
		return p
	}
	if at == nil {
		at = []int{0, 1}
	}
	for i := range p {
		p[i] = int(list[at[i]].(float64))
	}
	return p
}

// build makes the graph of the loss Σ y⊙dy.
func (c *convOracle) build(dt tensor.Dtype) (loss, y *gorgonia.Node) {
	g := gorgonia.NewGraph()
	nn.Configure(g, nn.GraphConfig{Float64: dt == tensor.Float64})
	x := parameter(g, dt, "x", (*rowOracle)(c).input("x"), c.Inputs["x"].Shape...)
	_, bias := c.Inputs["bias"]
	w, groups := c.Inputs["weight"].Shape, 1
	if n, ok := c.Attributes["groups"].(float64); ok {
		groups = int(n)
	}
	switch {
	case strings.HasPrefix(c.Name, "MobileNetV2"):
		four := parameter(g, dt, "four", []float64{4}, 1)
		y = invertedResidual(x, 12, 6, func(x *gorgonia.Node) *gorgonia.Node { return nn.ReLU6(nn.Mul(x, four)) })
	case strings.HasPrefix(c.Name, "ConvTranspose2D"):
		y = nn.ConvTranspose2D(x, "conv", nn.ConvTranspose2DConfig{Filters: w[1] * groups, Kernel: [2]int{w[2], w[3]}, Stride: c.pair("stride"), Pad: c.pair("pad"),
			OutputPad: c.pair("output_pad"), Dilation: c.pair("dilation"), Groups: groups, Bias: bias})
	default:
		end := c.pair("pads", 1, 3)
		for d := range end {
			if end[d] == 0 {
				end[d] = -1
			}
		}
		y = nn.Conv2D(x, "conv", nn.Conv2DConfig{Filters: w[0], Kernel: [2]int{w[2], w[3]}, Stride: c.pair("stride"), Pad: c.pair("pads", 0, 2), PadEnd: end,
			Dilation: c.pair("dilation"), Groups: groups, Bias: bias})
	}
	dy := nn.Input(g, "output gradient", y.Shape()...)
	return gorgonia.Must(gorgonia.Sum(gorgonia.Must(gorgonia.HadamardProd(y, dy)))), y
}

// invertedResidual is a block of MobileNetV2's, with what comes behind a normalisation.
func invertedResidual(x *gorgonia.Node, hidden, channels int, relu func(x *gorgonia.Node) *gorgonia.Node) *gorgonia.Node {
	norm := func(x *gorgonia.Node, name string) *gorgonia.Node {
		return nn.BatchNorm2D(x, name, nn.BatchNormConfig{})
	}
	y := nn.Conv2D(x, "conv.0.0", nn.Conv2DConfig{Filters: hidden, Kernel: nn.Square(1)})
	y = nn.Conv2D(relu(norm(y, "conv.0.1")), "conv.1.0", nn.Conv2DConfig{Filters: hidden, Kernel: nn.Square(3), Pad: nn.Square(1), Groups: hidden})
	y = nn.Conv2D(relu(norm(y, "conv.1.1")), "conv.2", nn.Conv2DConfig{Filters: channels, Kernel: nn.Square(1)})
	return nn.Add(x, norm(y, "conv.3"))
}

// parameters calls f with the oracle's name and the graph's of each input.
func (c *convOracle) parameters(f func(oracle, graph string)) {
	for name := range c.Inputs {
		if name == "weight" || name == "bias" {
			f(name, "conv."+name)
		} else {
			f(name, name)
		}
	}
}

func convOracles(t *testing.T, f func(t *testing.T, c *convOracle)) {
	for _, c := range readOracles[convOracle](t, "convolutions.json") {
		t.Run(strings.SplitN(c.Name, ";", 2)[0], func(t *testing.T) { f(t, &c) })
	}
}

func TestLoopsOfConvolutionsGiveWhatTorchGives(t *testing.T) {
	convOracles(t, func(t *testing.T, c *convOracle) {
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
		c.parameters(func(oracle, graph string) { set(graph, (*rowOracle)(c).input(oracle)) })
		if err := r.Step(); err != nil {
			t.Fatal(err)
		}
		// Eval takes running statistics.
		if c.Inputs["weight"].Shape != nil {
			got, err := r.Eval(y)
			if err != nil {
				t.Fatal(err)
			}
			near(t, "y", converted[float32](got), one(c.Outputs), 1e-6)
		}
		c.parameters(func(oracle, graph string) {
			near(t, "gradient of "+oracle, converted[float32](r.Grad(graph)), c.InputGradients["d"+oracle].numbers(), 1e-6)
		})
	})
}

func TestKernelsOfConvolutionsGiveWhatTorchGives(t *testing.T) {
	convOracles(t, func(t *testing.T, c *convOracle) {
		loss, y := c.build(tensor.Float32)
		p, err := nn.Compile(loss, nn.Config{Threads: 2, Outputs: gorgonia.Nodes{y}})
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		if dy, err := p.Input("output gradient"); err != nil {
			t.Fatal(err)
		} else {
			copy(dy, converted[float32](one(c.OutputGradients)))
		}
		grads := make(map[string][]float32)
		for _, q := range p.Params() {
			grads[q.Name] = q.Gradient
			c.parameters(func(oracle, graph string) {
				if graph == q.Name {
					copy(q.Value, converted[float32]((*rowOracle)(c).input(oracle)))
				}
			})
		}
		if err := p.Step(context.Background(), nil); err != nil {
			t.Fatal(err)
		}
		got, err := p.Output(y)
		if err != nil {
			t.Fatal(err)
		}
		near(t, "y", got, one(c.Outputs), 1e-5)
		c.parameters(func(oracle, graph string) {
			near(t, "gradient of "+oracle, grads[graph], c.InputGradients["d"+oracle].numbers(), 1e-5)
		})
	})
}

// Models of convolutions are among models.
func init() { models = append(models, convModels...) }

// convModels have each way of the kernels: depthwise with rows in several tasks, several filters for
// a channel, groups, dilation, padding that differs, and gradients that meet at a residual.
var convModels = []model{
	classifier("depthwise convolutions", 3, []int{24, 40, 40}, func(x *gorgonia.Node) *gorgonia.Node {
		x = conv(x, "first", x.Shape()[1], 1, 1, 0)
		y := nn.Conv2D(x, "a", nn.Conv2DConfig{Filters: 24, Kernel: nn.Square(3), Pad: nn.Square(1), Groups: 24, Bias: true})
		y = nn.Add(y, nn.Conv2D(nn.ReLU6(y), "b", nn.Conv2DConfig{Filters: 24, Kernel: nn.Square(5), Pad: nn.Square(4), Dilation: nn.Square(2), Groups: 24}))
		return end(nn.Conv2D(y, "c", nn.Conv2DConfig{Filters: 48, Kernel: nn.Square(3), Stride: nn.Square(2), PadEnd: nn.Square(1), Groups: 24}))
	}),
	classifier("convolutions in groups", 3, []int{12, 9, 10}, func(x *gorgonia.Node) *gorgonia.Node {
		x = conv(x, "first", x.Shape()[1], 1, 1, 0)
		y := nn.Conv2D(x, "a", nn.Conv2DConfig{Filters: 12, Kernel: nn.Square(3), Pad: nn.Square(1), Groups: 3})
		y = nn.Add(y, nn.Conv2D(y, "b", nn.Conv2DConfig{Filters: 12, Kernel: nn.Square(3), Pad: nn.Square(1), Groups: 2}))
		y = nn.ReLU(nn.BatchNorm2D(y, "bn", nn.BatchNormConfig{}))
		return end(nn.Conv2D(y, "c", nn.Conv2DConfig{Filters: 16, Kernel: nn.Square(3), Pad: nn.Square(2), Dilation: nn.Square(2)}))
	}),
	classifier("inverted residuals", 3, []int{8, 9, 9}, func(x *gorgonia.Node) *gorgonia.Node {
		return end(invertedResidual(conv(x, "first", 8, 3, 1, 1), 48, 8, nn.ReLU6))
	}),
	classifier("transposed convolutions", 3, []int{16, 5, 6}, func(x *gorgonia.Node) *gorgonia.Node {
		x = conv(x, "first", x.Shape()[1], 1, 1, 0)
		y := nn.ConvTranspose2D(x, "a", nn.ConvTranspose2DConfig{Filters: 16, Kernel: nn.Square(3), Stride: nn.Square(2), Pad: nn.Square(1), OutputPad: nn.Square(1), Bias: true})
		return end(nn.ConvTranspose2D(nn.ReLU(y), "b", nn.ConvTranspose2DConfig{Filters: 16, Kernel: nn.Square(2), Stride: nn.Square(2), Groups: 16}))
	}),
}

func TestMobileNetV2HasTheParametersThatArePublished(t *testing.T) {
	for _, c := range []struct {
		cfg  nn.MobileNetV2Config
		size int
		want int
	}{
		{nn.MobileNetV2Config{Classes: 1000}, 32, 3504872},
		{nn.MobileNetV2Config{Classes: 10, Stem: nn.CIFAR}, 32, 2236682},
		{nn.MobileNetV2Config{Classes: 1000, Width: 0.5}, 32, 1968680},
		{nn.MobileNetV2Config{Classes: 1000, Width: 1.4}, 32, 6108776},
	} {
		g := gorgonia.NewGraph()
		y := nn.MobileNetV2(nn.Input(g, "images", 1, 3, c.size, c.size), c.cfg)
		n := 0
		var names []string
		for _, l := range op.Leaves(g) {
			if l.Role == op.RoleParameter {
				n += l.Node.Shape().TotalSize()
				names = append(names, l.Node.Name())
			}
		}
		if n != c.want || c.cfg.Parameters(3) != c.want {
			t.Errorf("%+v has %d parameters, and Parameters says %d, want %d", c.cfg, n, c.cfg.Parameters(3), c.want)
		}
		for _, name := range []string{"features.0.0.weight", "features.0.1.bias", "features.1.conv.0.0.weight", "features.1.conv.1.weight", "features.1.conv.2.weight",
			"features.17.conv.1.0.weight", "features.17.conv.3.weight", "features.18.1.weight", "classifier.1.weight"} {
			if !slices.Contains(names, name) {
				t.Errorf("there is no parameter %s", name)
			}
		}
		if !y.Shape().Eq(tensor.Shape{1, c.cfg.Classes}) {
			t.Errorf("logits are %v", y.Shape())
		}
	}
}

func TestConvolutionsRefuseWhatDoesNotFit(t *testing.T) {
	x := func() *gorgonia.Node { return nn.Input(gorgonia.NewGraph(), "x", 1, 6, 5, 5) }
	for _, c := range []struct {
		says  string
		build func()
	}{
		{"6 channels and 8 filters in 4 groups", func() {
			nn.Conv2D(x(), "c", nn.Conv2DConfig{Filters: 8, Kernel: nn.Square(3), Groups: 4})
		}},
		{"6 channels and 4 filters in 3 groups", func() {
			nn.ConvTranspose2D(x(), "c", nn.ConvTranspose2DConfig{Filters: 4, Kernel: nn.Square(3), Groups: 3})
		}},
		{"output pad is 2, want less than the stride 2 or the dilation 1", func() {
			nn.ConvTranspose2D(x(), "c", nn.ConvTranspose2DConfig{Filters: 4, Kernel: nn.Square(3), Stride: nn.Square(2), OutputPad: nn.Square(2)})
		}},
		{"kernel [9 9] does not fit", func() {
			nn.Conv2D(x(), "c", nn.Conv2DConfig{Filters: 8, Kernel: nn.Square(3), Dilation: nn.Square(4)})
		}},
		{"0 classes", func() { nn.MobileNetV2(x(), nn.MobileNetV2Config{}) }},
	} {
		func() {
			defer func() {
				if e := fmt.Sprint(recover()); !strings.Contains(e, c.says) {
					t.Errorf("got %s, want %q in it", e, c.says)
				}
			}()
			c.build()
		}()
	}
}
