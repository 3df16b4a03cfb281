package worker_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/paragon-train/paragon/internal/testing/jobtest"
	"github.com/paragon-train/paragon/internal/testing/joining"
	"github.com/paragon-train/paragon/kvstore"
	"github.com/paragon-train/paragon/nn"
	"github.com/paragon-train/paragon/optim"
	"github.com/paragon-train/paragon/worker"
)

// bowl is loss = Σ (w − c)² over n weights that begin at 1, with c an input: the gradient is 2(w −
// c).
func bowl(t *testing.T, n int) *nn.Program {
	g := G.NewGraph()
	ones := make([]float32, n)
	for i := range ones {
		ones[i] = 1
	}
	w := G.NewVector(g, tensor.Float32, G.WithShape(n), G.WithName("w"), G.WithValue(tensor.New(tensor.WithShape(n), tensor.WithBacking(ones))))
	return compile(t, G.Must(G.Sum(G.Must(G.Square(G.Must(G.Sub(w, nn.Input(g, "c", n))))))), nn.Config{OwnMask: true})
}

// target is c of a worker's step.
func target(rank, step, i int) float64 {
	return math.Sin(float64(1+rank) * float64(2+step) * float64(1+i))
}

// counts is how many examples a worker has in a step: unequal, at times none.
func counts(rank, step int) int { return []int{3, 8, 5, 0, 2}[(step+2*rank)%5] }

// simulate is the algorithm written down again, for one weight, in float64: local SGD with momentum
// on each worker, the mean of the differences by examples, and Nesterov's momentum on it. It
// returns the global value after each round, the last one cut short.
func simulate(workers, steps, length, i int, inner, outer optim.Config) (values []float64) {
	theta, velocity := 1.0, 0.0
	momentum := make([]float64, workers)
	for begin := 0; begin < steps; begin += length {
		sum, weight := 0.0, 0.0
		for r := range workers {
			w, n := theta, 0
			for step := begin; step < min(begin+length, steps); step++ {
				if counts(r, step) == 0 {
					continue
				}
				momentum[r] = inner.Momentum*momentum[r] - inner.LearningRate*2*(w-target(r, step, i))
				w += momentum[r]
				n += counts(r, step)
			}
			sum += float64(n) * (theta - w)
			weight += float64(n)
		}
		// w ← w − η(g + μb), b ← μb + g with b the sum of gradients so far.
		velocity = outer.Momentum*velocity + sum/weight
		theta -= outer.LearningRate * (sum/weight + outer.Momentum*velocity)
		values = append(values, theta)
	}
	return values
}

// Workers that take H local steps and let the servers apply the outer optimizer to the mean
// difference end at the values that the algorithm, written down again, gives; also where their
// examples are unequal and the last round is cut short.
func TestLocalStepsAreTheHandWrittenOnes(t *testing.T) {
	const workers, steps, weights = 2, 14, 5
	inner := optim.Config{Name: "sgd", LearningRate: 0.03, Momentum: 0.5}
	for _, devices := range []int{1, 2} {
		for _, test := range []struct {
			length int
			outer  optim.Config // as the servers get it
			given  optim.Config
		}{
			{4, optim.Config{Name: "nag", LearningRate: 0.7, Momentum: 0.9}, optim.Config{}},
			{4, optim.Config{Name: "sgd", LearningRate: 1}, optim.Config{Name: "sgd", LearningRate: 1}},
			{1, optim.Config{Name: "nag", LearningRate: 0.3, Momentum: 0.5}, optim.Config{Name: "nag", LearningRate: 0.3, Momentum: 0.5}},
			{100, optim.Config{Name: "sgd", LearningRate: 1}, optim.Config{Name: "sgd", LearningRate: 1}},
		} {
			t.Run(fmt.Sprintf("devices=%d/H=%d/%s", devices, test.length, test.outer.Name), func(t *testing.T) {
				stores := jobtest.New(t, jobtest.Config{Workers: workers, Servers: 2}).Stores(t, "dist_sync", kvstore.WithLocalSteps(test.length))
				programs := make([][]*nn.Program, workers)
				for r := range programs {
					for range devices {
						programs[r] = append(programs[r], bowl(t, weights))
					}
				}
				onWorkers(t, stores, func(rank int, store kvstore.Store) error {
					counted := &countingStore{Store: store}
					trainer, err := worker.NewTrainer(t.Context(), worker.Config{Store: counted, Programs: programs[rank], Optimizer: inner, Outer: test.given})
					if err != nil {
						return err
					}
					defer trainer.Close()
					for step := range steps {
						shares := make([]int, devices)
						for d, program := range programs[rank] {
							c, err := program.Input("c")
							if err != nil {
								return err
							}
							for i := range c {
								c[i] = float32(target(rank, step, i))
							}
							shares[d] = (counts(rank, step) + d) / devices
						}
						if err := trainer.Step(t.Context(), shares); err != nil {
							return err
						}
					}
					if err := trainer.Sync(t.Context()); err != nil {
						return err
					}
					if got, want := int(counted.pushes.Load()), (steps+test.length-1)/test.length; got != want {
						t.Errorf("rank %d pushed %d times in %d steps, want %d: once a round", rank, got, steps, want)
					}
					return trainer.Sync(t.Context()) // changes nothing
				})
				outer := test.outer
				if outer.Name == "sgd" {
					outer.Momentum = 0
				}
				for i := range weights {
					rounds := simulate(workers, steps, test.length, i, inner, outer)
					want := rounds[len(rounds)-1]
					for r := range programs {
						for d, program := range programs[r] {
							if got := float64(program.Params()[0].Value[i]); math.Abs(got-want) > 1e-6*max(1, math.Abs(want)) {
								t.Errorf("rank %d device %d weight %d: got %.8f, want %.8f", r, d, i, got, want)
							}
						}
					}
				}
			})
		}
	}
}

// countingStore counts how often parameters are pushed.
type countingStore struct {
	kvstore.Store
	pushes atomic.Int64
}

func (s *countingStore) Push(ctx context.Context, key string, grads ...[]float32) error {
	s.pushes.Add(1)
	return s.Store.Push(ctx, key, grads...)
}

func (s *countingStore) PushPull(ctx context.Context, key string, grads, outs [][]float32) error {
	return s.Weighted(1, false).PushPull(ctx, key, grads, outs)
}

func (s *countingStore) Weighted(weight float32, counted bool) kvstore.Pusher {
	return countingStorePusher{s.Store.Weighted(weight, counted), s}
}

type countingStorePusher struct {
	kvstore.Pusher
	of *countingStore
}

func (p countingStorePusher) PushPull(ctx context.Context, key string, grads, outs [][]float32) error {
	p.of.pushes.Add(1)
	return p.Pusher.PushPull(ctx, key, grads, outs)
}

// One local step by SGD, and workers' values averaged: the steps of synchronous SGD.
func TestRoundsOfOneStepAreSynchronousSGD(t *testing.T) {
	const workers, batch, steps = 3, 16, 20
	losses := func(cfg worker.Config, opts ...kvstore.Option) [][]float64 {
		stores := jobtest.New(t, jobtest.Config{Workers: workers, Servers: 2}).Stores(t, "dist_sync", opts...)
		programs := make([]*nn.Program, workers)
		for r := range programs {
			programs[r] = mlp(t, batch)
		}
		all := make([][]float64, workers)
		onWorkers(t, stores, func(rank int, store kvstore.Store) error {
			cfg := cfg
			cfg.Store, cfg.Programs = store, programs[rank:rank+1]
			trainer, err := worker.NewTrainer(t.Context(), cfg)
			if err != nil {
				return err
			}
			defer trainer.Close()
			for i := range steps {
				fill(t, programs[rank], i, rank*batch)
				if err := trainer.Step(t.Context(), []int{batch}); err != nil {
					return err
				}
				all[rank] = append(all[rank], programs[rank].Loss())
			}
			return trainer.Sync(t.Context())
		})
		return all
	}
	sgd := optim.Config{Name: "sgd", LearningRate: 0.05}
	want := losses(worker.Config{Optimizer: sgd})
	got := losses(worker.Config{Optimizer: sgd, Outer: optim.Config{Name: "sgd", LearningRate: 1}}, kvstore.WithLocalSteps(1))
	for r := range want {
		if want[r][steps-1] > want[r][0]*0.7 {
			t.Errorf("rank %d: losses go from %v to %v, want them to fall", r, want[r][0], want[r][steps-1])
		}
		for i := range want[r] {
			if math.Abs(got[r][i]-want[r][i]) > 1e-5*want[r][i] {
				t.Fatalf("rank %d step %d: loss %.8f, of synchronous SGD %.8f", r, i, got[r][i], want[r][i])
			}
		}
	}
}

// A run with local steps is cut off anywhere, within a round too, and resumed: it ends with the
// bits of the uncut one, and the checkpoints themselves change nothing.
func TestLocalStepsResumeWithinARound(t *testing.T) {
	for _, devices := range []int{1, 2} {
		t.Run(fmt.Sprintf("devices=%d", devices), func(t *testing.T) {
			resumeWithinARound(t, rigConfig{examples: 75, local: 3, devices: devices}) // 5 steps an epoch: a round of 3 and one of 2
		})
	}
}

func resumeWithinARound(t *testing.T, cfg rigConfig) {
	const workers = 2
	run := func(change func(c *worker.FitConfig)) []*fitRig {
		t.Helper()
		rigs, _, errs := fitJob(t, "dist_sync", workers, cfg, func(_ int, c *worker.FitConfig) {
			c.Epochs = 2
			change(c)
		})
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
		return rigs
	}
	whole := run(func(*worker.FitConfig) {})
	dir := t.TempDir()
	saving := run(func(c *worker.FitConfig) {
		c.Checkpoint = worker.CheckpointConfig{Dir: dir, EverySteps: 1, Keep: 20}
	})
	same := func(what string, rigs []*fitRig) {
		t.Helper()
		for r := range rigs {
			if i := firstDifference(rigs[r].values(), whole[r].values()); i >= 0 {
				t.Errorf("%s: rank %d: value %d differs from the uncut run's", what, r, i)
			}
		}
	}
	same("with checkpoints", saving)
	for after := 9; after >= 1; after-- { // the checkpoints of later steps go first
		if !slow() && after%4 != 2*cfg.devices-1 && after != 5 { // within each round, and between two
			continue
		}
		for later := after + 1; later <= 10; later++ {
			if err := os.RemoveAll(filepath.Join(dir, fmt.Sprintf("step-%08d", later))); err != nil {
				t.Fatal(err)
			}
		}
		same(fmt.Sprintf("resumed after step %d", after), run(func(c *worker.FitConfig) {
			c.Checkpoint = worker.CheckpointConfig{Dir: dir, EveryEpochs: 1000, Resume: true}
		}))
	}
}

// Local steps learn as synchronous ones do.
func TestLocalStepsLearn(t *testing.T) {
	_, epochs, errs := fitJob(t, "dist_sync", 2, rigConfig{local: 4, examples: 120}, func(_ int, c *worker.FitConfig) { c.Epochs = 10 })
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	for rank, own := range epochs {
		if last := own[len(own)-1]; last.Test.Accuracy < 0.9 || last.Staleness != nil {
			t.Errorf("rank %d: got accuracy %v and staleness %v after 10 epochs, want above 0.9 and none", rank, last.Test.Accuracy, last.Staleness)
		}
	}
}

// Workers that count their local steps differently are told so, all but rank 0.
func TestWorkersMustAgreeOnLocalSteps(t *testing.T) {
	job := jobtest.New(t, jobtest.Config{Workers: 2, Servers: 1})
	errs := make([]error, 2)
	programs := []*nn.Program{bowl(t, 3), bowl(t, 3)}
	var running sync.WaitGroup
	for rank := range errs {
		running.Go(func() {
			store, err := joining.Join(t.Context(), job.WorkerConfig(rank), "dist_sync", kvstore.WithLocalSteps(4+rank))
			if err != nil {
				errs[rank] = err
				return
			}
			trainer, err := worker.NewTrainer(t.Context(), worker.Config{Store: store, Programs: programs[rank : rank+1], Optimizer: optim.Config{Name: "sgd"}})
			if err == nil {
				trainer.Close()
			}
			errs[rank] = err
			_ = kvstore.Leave(store, err)
		})
	}
	running.Wait()
	if !errors.Is(errs[1], kvstore.ErrConflict) || !strings.Contains(errs[1].Error(), "takes 5 in a round, rank 0 4") {
		t.Errorf("rank 1: got error %v, want %v with 5 and 4", errs[1], kvstore.ErrConflict)
	}
}
