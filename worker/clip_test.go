package worker_test

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/paragon-train/paragon/internal/testing/jobtest"
	"github.com/paragon-train/paragon/kvstore"
	"github.com/paragon-train/paragon/nn"
	"github.com/paragon-train/paragon/optim"
	"github.com/paragon-train/paragon/worker"
)

// twoKeys is loss = Σ scale·w + Σ 2·scale·v over 10 and 30 weights of zero.
func twoKeys(t *testing.T, scale float32) *nn.Program {
	g := G.NewGraph()
	vector := func(name string, n int) *G.Node {
		return G.NewVector(g, tensor.Float32, G.WithShape(n), G.WithName(name), G.WithValue(tensor.New(tensor.WithShape(n), tensor.Of(tensor.Float32))))
	}
	sum := func(x *G.Node, by float32) *G.Node { return G.Must(G.Sum(G.Must(G.Mul(x, G.NewConstant(by))))) }
	return compile(t, G.Must(G.Add(sum(vector("w", 10), scale), sum(vector("v", 30), 2*scale))), nn.Config{})
}

// The norm over both keys of the mean gradient is 1.5·√130. Clipped at 5, each step of SGD is as long
// as that, whatever the plan; clipped at 100 it is what it was.
func TestATrainerClipsByTheNormOverAllKeys(t *testing.T) {
	norm := 1.5 * math.Sqrt(10+4*30)
	for _, limit := range []float64{5, 100} {
		var first []float32
		for _, servers := range []int{1, 3} {
			t.Run(fmt.Sprintf("limit=%v/servers=%d", limit, servers), func(t *testing.T) {
				stores := jobtest.New(t, jobtest.Config{Workers: 2, Servers: servers}).Stores(t, "dist_sync")
				programs := []*nn.Program{twoKeys(t, 1), twoKeys(t, 2)}
				onWorkers(t, stores, func(rank int, store kvstore.Store) error {
					trainer, err := worker.NewTrainer(t.Context(), worker.Config{Store: store, Programs: programs[rank : rank+1],
						Optimizer: optim.Config{Name: "sgd", LearningRate: 1, ClipGlobalNorm: limit}})
					if err != nil {
						return err
					}
					defer trainer.Close()
					for range 3 {
						if err := trainer.Step(t.Context(), []int{1}); err != nil {
							return err
						}
					}
					return trainer.Flush(t.Context())
				})
				var value []float32
				length := 0.0
				for _, p := range programs[1].Params() {
					value = append(value, p.Value...)
					for _, x := range p.Value {
						length += float64(x) * float64(x)
					}
				}
				if want := 3 * min(limit, norm); math.Abs(math.Sqrt(length)-want) > 1e-5*want {
					t.Errorf("three steps have length %v, want %v", math.Sqrt(length), want)
				}
				if first == nil {
					first = value
				}
				if !slices.Equal(value, first) {
					t.Error("with other servers there are other values")
				}
			})
		}
	}
}

// A run of Fit clips without being asked twice, and tells the norm of each step, also on a store
// within the process, with micro-batches and with an outer optimizer that clips.
func TestClippingWhereverServersUpdate(t *testing.T) {
	for _, test := range []struct {
		name string
		opts []kvstore.Option
		cfg  worker.Config
		runs int
		want float32
	}{
		{"in the process", nil, worker.Config{Optimizer: optim.Config{Name: "sgd", LearningRate: 1, ClipGlobalNorm: 1}}, 1, float32(-1 / math.Sqrt(10))},
		{"micro-batches", nil, worker.Config{Optimizer: optim.Config{Name: "sgd", LearningRate: 1, ClipGlobalNorm: 1}}, 3, float32(-1 / math.Sqrt(10))},
		{"outer", []kvstore.Option{kvstore.WithLocalSteps(2)},
			worker.Config{Optimizer: optim.Config{Name: "sgd", LearningRate: 1}, Outer: optim.Config{Name: "sgd", LearningRate: 1, ClipGlobalNorm: 0.5}}, 1, float32(-0.5 / math.Sqrt(10))},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.cfg.Store, test.cfg.Programs = newStore(t, "dist_sync", test.opts...), []*nn.Program{sumPlusOne(t)}
			trainer := newTrainer(t, test.cfg)
			for range max(1, test.cfg.Store.LocalSteps()) {
				for range test.runs - 1 {
					if err := trainer.Accumulate(t.Context(), []int{1}); err != nil {
						t.Fatal(err)
					}
				}
				step(t, trainer, 1)
			}
			if err := trainer.Flush(t.Context()); err != nil {
				t.Fatal(err)
			}
			for i, got := range test.cfg.Programs[0].Params()[0].Value {
				if math.Abs(float64(got-test.want)) > 1e-6 {
					t.Fatalf("value %d: got %v, want %v", i, got, test.want)
				}
			}
		})
	}
}

// Where a worker updates by itself the setting is refused by name.
func TestClippingIsRefusedWhereWorkersUpdate(t *testing.T) {
	clips := optim.Config{Name: "sgd", LearningRate: 1, ClipGlobalNorm: 1}
	for name, cfg := range map[string]worker.Config{
		"on worker":    {Store: newStore(t, "dist_sync"), Optimizer: clips, UpdateOnWorker: true},
		"local steps":  {Store: newStore(t, "dist_sync", kvstore.WithLocalSteps(2)), Optimizer: clips},
		"asynchronous": {Store: newStore(t, "dist_async"), Optimizer: clips},
	} {
		cfg.Programs = []*nn.Program{sumPlusOne(t)}
		_, err := worker.NewTrainer(t.Context(), cfg)
		if err == nil || !strings.Contains(err.Error(), "ClipGlobalNorm is 1") {
			t.Errorf("%s: got %v, want an error that names ClipGlobalNorm", name, err)
		}
		if name == "asynchronous" && !errors.Is(err, kvstore.ErrUnsupported) {
			t.Errorf("%s: got %v, want ErrUnsupported", name, err)
		}
	}
}
