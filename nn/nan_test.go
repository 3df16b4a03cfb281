package nn_test

import (
	"math"
	"slices"
	"testing"

	"github.com/paragon-train/paragon/nn"
	"gorgonia.org/gorgonia"
)

// A weight that is not a number is seen in the gradients of all layers, in front of ReLUs,
// poolings, dropout and behind them, on all executors: so a guard sees it whatever parameters it
// looks at.
func TestANaNReachesTheGradientsOfAllLayers(t *testing.T) {
	onFakes(t)
	nets := []model{
		{"a sum of a ReLU", 0, func(g *gorgonia.ExprGraph) *gorgonia.Node { // the gradient of a sum is a number, whatever the sum is
			y := nn.ReLU(nn.Linear(nn.Input(g, "x", 4, 3), "first", nn.LinearConfig{Out: 5, NoBias: true}))
			return gorgonia.Must(gorgonia.Sum(y))
		}},
		tenClasses("mlp", 4, []int{6}, func(x *gorgonia.Node) *gorgonia.Node {
			x = nn.ReLU(nn.Linear(x, "first", nn.LinearConfig{Out: 40}))
			x = nn.ReLU(nn.Linear(nn.Dropout(x, "drop", 0.9), "second", nn.LinearConfig{Out: 40}))
			return nn.Linear(x, "fc", nn.LinearConfig{Out: 10})
		}),
		tenClasses("conv", 4, []int{3, 6, 6}, func(x *gorgonia.Node) *gorgonia.Node {
			x = nn.MaxPool2D(nn.ReLU(conv(x, "first", 16, 3, 1, 1)), nn.PoolConfig{Kernel: nn.Square(2)})
			x = nn.ReLU(conv(x, "second", 16, 3, 1, 1))
			return nn.Linear(nn.Flatten(x), "fc", nn.LinearConfig{Out: 10})
		}),
		tenClasses("norm", 4, []int{3, 6, 6}, func(x *gorgonia.Node) *gorgonia.Node {
			x = nn.ReLU(nn.BatchNorm2D(conv(x, "first", 16, 3, 1, 1), "bn0", nn.BatchNormConfig{}))
			y := nn.BatchNorm2D(conv(x, "second", 16, 3, 1, 1), "bn1", nn.BatchNormConfig{})
			return nn.Linear(nn.GlobalAvgPool2D(nn.ReLU(nn.Add(y, x))), "fc", nn.LinearConfig{Out: 10})
		}),
	}
	for i, m := range nets {
		for name, cfg := range map[string]nn.Config{"cpu": {Threads: 2}, "cpu bf16": {Threads: 1, DType: nn.BFloat16}, "cuda": {Device: "cuda:0", DType: nn.Float32}, "cuda bf16": {Device: "cuda:0"}} {
			if m.classes == 0 && cfg.Device != "" {
				continue // a sum of gorgonia's runs on the CPU only
			}
			if cfg.Device != "" && (cfg.DType == nn.Float32) != (i%2 == 0) {
				continue // the layers' kernels on a GPU are the same for both kinds of numbers
			}
			t.Run(m.name+"/"+name, func(t *testing.T) {
				loss, p := compile(t, m, cfg)
				fillInputs(t, loss.Graph(), p, nil, max(m.classes, 1), 1)
				i := slices.IndexFunc(p.Params(), func(q nn.Param) bool { return q.Name == "first.weight" })
				weight := p.Params()[i].Value
				weight[len(weight)/2] = float32(math.NaN())
				step(t, p, nil)
				if loss := p.Loss(); loss == loss {
					t.Errorf("the loss is %g, want NaN", loss)
				}
				for _, q := range p.Params() {
					if !slices.ContainsFunc(q.Gradient, func(v float32) bool { return v != v }) {
						t.Errorf("the gradient of %s has no NaN", q.Name)
					}
				}
			})
		}
		t.Run(m.name+"/reference", func(t *testing.T) {
			loss, p := compile(t, m, nn.Config{Threads: 1})
			_, r := reference(t, m)
			fillInputs(t, loss.Graph(), p, r, max(m.classes, 1), 1)
			weight := r.Param("first.weight")
			weight[len(weight)/2] = math.NaN()
			if err := r.Set("first.weight", weight); err != nil {
				t.Fatal(err)
			}
			if err := r.Step(); err != nil {
				t.Fatal(err)
			}
			for _, name := range r.Params() {
				if !slices.ContainsFunc(r.Grad(name), func(v float64) bool { return v != v }) {
					t.Errorf("the gradient of %s has no NaN", name)
				}
			}
		})
	}
}
