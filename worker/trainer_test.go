package worker_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/paragon-train/paragon/kvstore"
	"github.com/paragon-train/paragon/nn"
	"github.com/paragon-train/paragon/optim"
	"github.com/paragon-train/paragon/worker"
)

func newStore(t *testing.T, name string, opts ...kvstore.Option) kvstore.Store {
	t.Helper()
	store, err := kvstore.Create(t.Context(), name, append(opts, kvstore.WithEnv(func(string) string { return "" }))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	return store
}

// compile is nn.Compile for a test, on one thread.
func compile(t *testing.T, loss *G.Node, cfg nn.Config) *nn.Program {
	t.Helper()
	cfg.Threads = 1
	program, err := nn.Compile(loss, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { program.Close() })
	return program
}

// sumPlusOne is loss = Σ(w+1) over ten weights of zero: every gradient is 1, whatever the weights.
func sumPlusOne(t *testing.T) *nn.Program {
	g := G.NewGraph()
	w := G.NewVector(g, tensor.Float32, G.WithShape(10), G.WithName("w"), G.WithValue(tensor.New(tensor.WithShape(10), tensor.Of(tensor.Float32))))
	one := G.NewConstant(float32(1))
	return compile(t, G.Must(G.Sum(G.Must(G.Add(w, one)))), nn.Config{})
}

func newTrainer(t *testing.T, cfg worker.Config) *worker.Trainer {
	t.Helper()
	trainer, err := worker.NewTrainer(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { trainer.Close() })
	return trainer
}

func step(t *testing.T, trainer *worker.Trainer, counts ...int) {
	t.Helper()
	if err := trainer.Step(t.Context(), counts); err != nil {
		t.Fatal(err)
	}
}

func wantAll(t *testing.T, what string, got []float32, want float32) {
	t.Helper()
	for i, v := range got {
		if v != want {
			t.Fatalf("%s: value %d: got %v, want %v", what, i, v, want)
		}
	}
}

// The predecessors' trainer tests: two devices whose gradients are 1, summed.
func TestTrainerSumsDevices(t *testing.T) {
	half := []optim.Factor{{Keys: "w", Factor: 0.5}}
	for _, test := range []struct {
		name string
		cfg  optim.Config
		want []float32 // after each step
	}{
		{"learning rate 0.1", optim.Config{Name: "sgd", LearningRate: 0.1, Reduction: optim.Sum}, []float32{-0.2}},
		{"momentum", optim.Config{Name: "sgd", LearningRate: 1, Momentum: 0.5, Reduction: optim.Sum}, []float32{-2, -5}},
		{"factor of one half", optim.Config{Name: "sgd", LearningRate: 1, Reduction: optim.Sum, LearningRateFactors: half}, []float32{-1, -2}},
		{"mean over the examples", optim.Config{Name: "sgd", LearningRate: 1}, []float32{-1, -2}},
	} {
		for _, onWorker := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/on worker=%v", test.name, onWorker), func(t *testing.T) {
				programs := []*nn.Program{sumPlusOne(t), sumPlusOne(t)}
				trainer := newTrainer(t, worker.Config{Store: newStore(t, "device"), Programs: programs, Optimizer: test.cfg, UpdateOnWorker: onWorker})
				for i, want := range test.want {
					step(t, trainer, 1, 1)
					if err := trainer.Flush(t.Context()); err != nil {
						t.Fatal(err)
					}
					for d, program := range programs {
						wantAll(t, fmt.Sprintf("device %d after step %d", d, i), program.Params()[0].Value, want)
					}
				}
			})
		}
	}
}

// mlp is a small network without batch norm, with its inputs filled from the examples [first,
// first+batch) of a fixed set.
func mlp(t *testing.T, batch int) *nn.Program { return weightedMLP(t, batch, nil) }

// weightedMLP is mlp with weights of classes.
func weightedMLP(t *testing.T, batch int, weights []float32) *nn.Program {
	g := G.NewGraph()
	nn.Configure(g, nn.GraphConfig{Seed: 7})
	x, labels := nn.Input(g, "images", batch, 1, 4, 4), nn.Labels(g, "labels", batch)
	return compile(t, nn.CrossEntropy(nn.MLP(x, nn.MLPConfig{Hidden: []int{16}, Classes: 3}), labels, nn.CrossEntropyConfig{ClassWeights: weights}), nn.Config{})
}

func fill(t *testing.T, program *nn.Program, step, first int) {
	t.Helper()
	x, err := program.Input("images")
	if err != nil {
		t.Fatal(err)
	}
	labels, err := program.Labels("labels")
	if err != nil {
		t.Fatal(err)
	}
	names := make([]int32, labels.Len())
	size := len(x) / len(names)
	for b := range names {
		random := rand.New(rand.NewPCG(uint64(step), uint64(first+b)))
		names[b] = int32(random.IntN(3))
		for i := range size {
			x[b*size+i] = float32(random.NormFloat64()) + float32(names[b])
		}
	}
	labels.Set(names)
}

// Two devices with half a batch each, and one with all of it, take the same steps.
func TestTwoDevicesAreOneWithTwiceTheBatch(t *testing.T) {
	for _, onWorker := range []bool{false, true} {
		t.Run(fmt.Sprintf("on worker=%v", onWorker), func(t *testing.T) {
			cfg := worker.Config{Optimizer: optim.Config{Name: "adam", LearningRate: 0.01}, UpdateOnWorker: onWorker}
			one, two := cfg, cfg
			one.Store, one.Programs = newStore(t, "local"), []*nn.Program{mlp(t, 8)}
			two.Store, two.Programs = newStore(t, "local"), []*nn.Program{mlp(t, 4), mlp(t, 4)}
			a, b := newTrainer(t, one), newTrainer(t, two)
			for i := range 20 {
				fill(t, one.Programs[0], i, 0)
				fill(t, two.Programs[0], i, 0)
				fill(t, two.Programs[1], i, 4)
				step(t, a, 8)
				step(t, b, 4, 4)
				want, got := one.Programs[0].Loss(), (two.Programs[0].Loss()+two.Programs[1].Loss())/2
				if math.Abs(got-want) > 1e-5*want {
					t.Fatalf("loss of step %d: got %v on two devices, want %v as on one", i, got, want)
				}
			}
		})
	}
}

// maybeNormalised compiles a linear layer, the same parameters with and without a batch
// normalisation before it.
func maybeNormalised(t *testing.T, normalised bool) *nn.Program {
	g := G.NewGraph()
	x := nn.Input(g, "x", 4, 2, 1, 1)
	if normalised {
		x = nn.BatchNorm2D(x, "bn", nn.BatchNormConfig{})
	}
	before := len(nn.Parameters(g))
	y := nn.Linear(nn.GlobalAvgPool2D(x), "fc", nn.LinearConfig{Out: 1})
	return compile(t, nn.MSE(y, nn.Input(g, "t", 4, 1)), nn.Config{Threads: 1, Params: nn.Parameters(g)[before:]})
}

func TestTrainerNamesWhatItRefuses(t *testing.T) {
	program := sumPlusOne(t)
	good := worker.Config{Store: newStore(t, "local"), Programs: []*nn.Program{program}, Optimizer: optim.Config{Name: "sgd"}}
	local := newStore(t, "local", kvstore.WithLocalSteps(2))
	for _, test := range []struct {
		name   string
		change func(*worker.Config)
		want   string
	}{
		{"no store", func(c *worker.Config) { c.Store = nil }, "Config.Store is nil"},
		{"no programs", func(c *worker.Config) { c.Programs = nil }, "Config.Programs is empty"},
		{"another model", func(c *worker.Config) { c.Programs = append(c.Programs, mlp(t, 2)) }, "want the same model"},
		{"other statistics", func(c *worker.Config) {
			c.Programs = []*nn.Program{maybeNormalised(t, false), maybeNormalised(t, true)}
		}, "Config.Programs[1] has 2 running statistics, Programs[0] has 0"},
		{"unknown optimizer", func(c *worker.Config) { c.Optimizer.Name = "sgdd" }, `"sgdd"`},
		{"compressed means", func(c *worker.Config) { c.UpdateOnWorker, c.Compression.Type = true, "fp16" }, "want none"},
		{"unknown optimizer on the worker", func(c *worker.Config) { c.UpdateOnWorker, c.Optimizer.Name = true, "sgdd" }, `"sgdd"`},
		{"an outer optimizer without rounds", func(c *worker.Config) { c.Outer.Name = "nag" }, "Config.Outer is nag"},
		{"an outer sum", func(c *worker.Config) { c.Store, c.Outer = local, optim.Config{Name: "nag", Reduction: optim.Sum} }, "Config.Outer.Reduction"},
		{"an unknown outer optimizer", func(c *worker.Config) { c.Store, c.Outer.Name = local, "nagg" }, `"nagg"`},
		{"an unknown inner optimizer", func(c *worker.Config) { c.Store, c.Optimizer.Name = local, "sgdd" }, `"sgdd"`},
		{"local steps twice", func(c *worker.Config) { c.Store, c.UpdateOnWorker = local, true }, "UpdateOnWorker"},
		{"unknown compression", func(c *worker.Config) { c.Compression.Type = "3bit" }, `3bit`},
	} {
		t.Run(test.name, func(t *testing.T) {
			cfg := good
			test.change(&cfg)
			if _, err := worker.NewTrainer(context.Background(), cfg); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("NewTrainer: got error %v, want one with %q", err, test.want)
			}
		})
	}
	trainer := newTrainer(t, good)
	if err := trainer.Step(t.Context(), []int{1, 1}); err == nil || !strings.Contains(err.Error(), "want 1") {
		t.Errorf("Step with counts of two devices: got error %v, want one that says 1", err)
	}
}
