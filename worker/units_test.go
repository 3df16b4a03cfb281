package worker_test

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"

	G "gorgonia.org/gorgonia"

	"github.com/paragon-train/paragon/internal/compute/cuda/fake"
	"github.com/paragon-train/paragon/kvstore"
	"github.com/paragon-train/paragon/nn"
	"github.com/paragon-train/paragon/optim"
	"github.com/paragon-train/paragon/worker"
)

// pushes counts the arrays that are pushed.
type pushes struct {
	kvstore.Store
	n atomic.Int64
}

func (p *pushes) PushPull(ctx context.Context, key string, grads, outs [][]float32) error {
	return p.Weighted(1, false).PushPull(ctx, key, grads, outs)
}

func (p *pushes) Weighted(weight float32, counted bool) kvstore.Pusher {
	return pushesPusher{p.Store.Weighted(weight, counted), p}
}

type pushesPusher struct {
	kvstore.Pusher
	of *pushes
}

func (p pushesPusher) PushPull(ctx context.Context, key string, grads, outs [][]float32) error {
	p.of.n.Add(int64(len(grads)))
	return p.Pusher.PushPull(ctx, key, grads, outs)
}

// GPUs of one worker are joined: the store gets one sum, and the steps are those of CPUs, of which
// it gets a gradient each, wherever parameters are updated. All programs show the same parameters,
// also those that share with one of them.
func TestGPUsOfOneWorkerPushOneSum(t *testing.T) {
	machine := fake.New(t)
	for name, path := range machine.Paths() {
		t.Setenv(name.Variable(), path)
	}
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	machine.Set("seed", 3)
	const batch, steps = 3, 4
	build := func() *G.Node {
		g := G.NewGraph()
		nn.Configure(g, nn.GraphConfig{Seed: 3})
		x := nn.Linear(nn.Input(g, "x", batch, 6), "fc1", nn.LinearConfig{Out: 7})
		return nn.SoftmaxCrossEntropy(nn.Linear(nn.ReLU(x), "fc2", nn.LinearConfig{Out: 4}), nn.Labels(g, "labels", batch))
	}
	for _, c := range []struct {
		name   string
		cfg    worker.Config
		opts   []kvstore.Option
		pushes int64 // of each parameter and device that is not joined
	}{
		{"on the servers", worker.Config{}, nil, steps},
		{"on the worker", worker.Config{UpdateOnWorker: true}, nil, steps},
		{"in local steps", worker.Config{}, []kvstore.Option{kvstore.WithLocalSteps(2)}, steps / 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			run := func(devices ...string) (params []nn.Param, pushed int64) {
				var programs []*nn.Program
				for _, device := range devices {
					programs = append(programs, compile(t, build(), nn.Config{Device: device, DType: nn.Float32}))
				}
				store := &pushes{Store: newStore(t, "local", c.opts...)}
				cfg := c.cfg
				cfg.Store, cfg.Programs, cfg.Optimizer = store, programs, optim.Config{Name: "sgd", LearningRate: 0.2, Momentum: 0.9}
				trainer := newTrainer(t, cfg)
				rng := rand.New(rand.NewPCG(1, 2))
				for range steps {
					for _, program := range programs {
						x, err := program.Input("x")
						if err != nil {
							t.Fatal(err)
						}
						for i := range x {
							x[i] = rng.Float32()
						}
						labels, err := program.Labels("labels")
						if err != nil {
							t.Fatal(err)
						}
						labels.Set([]int32{rng.Int32N(4), rng.Int32N(4), -1})
					}
					if err := trainer.Step(t.Context(), []int{2, 2}); err != nil {
						t.Fatal(err)
					}
				}
				if err := trainer.Flush(t.Context()); err != nil {
					t.Fatal(err)
				}
				shared := compile(t, build(), nn.Config{Device: devices[1], DType: nn.Float32, Inference: true, Share: programs[1]})
				for i, p := range programs[0].Params() {
					if got := programs[1].Params()[i].Value; !slices.Equal(got, p.Value) {
						t.Errorf("%v: %s of the second program is %v, of the first %v", devices, p.Name, got, p.Value)
					}
					for _, q := range shared.Params() {
						if q.Name == p.Name && !slices.Equal(q.Value, p.Value) {
							t.Errorf("%v: %s of a program that shares with the second is %v, of the first %v", devices, p.Name, q.Value, p.Value)
						}
					}
				}
				return programs[0].Params(), store.n.Load()
			}
			want, apart := run("cpu:0", "cpu:1")
			got, joined := run("cuda:0", "cuda:1")
			if n := int64(len(want)) * c.pushes; joined != n {
				t.Errorf("%d arrays were pushed (of CPUs %d), want %d", joined, apart, n)
			}
			for i, p := range want {
				for k, w := range p.Value {
					if d := math.Abs(float64(got[i].Value[k] - w)); !(d < 1e-5) {
						t.Fatalf("%s at %d is %g, want %g", p.Name, k, got[i].Value[k], w)
					}
				}
			}
		})
	}
}
