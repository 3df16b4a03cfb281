package worker_test

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/paragon-train/paragon/internal/testing/jobtest"
	"github.com/paragon-train/paragon/kvstore"
	"github.com/paragon-train/paragon/nn"
	"github.com/paragon-train/paragon/optim"
	"github.com/paragon-train/paragon/worker"
)

// A step of several runs is the step of one run over all their examples, whoever updates the
// parameters and on however many devices.
func TestAccumulatedRunsAreOneBatch(t *testing.T) {
	const batch, steps = 24, 6
	train := func(t *testing.T, store kvstore.Store, cfg worker.Config, runs [][]int) (losses []float64, values []float32) {
		t.Helper()
		cfg.Store, cfg.Optimizer = store, optim.Config{Name: "adam", LearningRate: 0.01}
		for range runs[0] {
			cfg.Programs = append(cfg.Programs, mlp(t, batch))
		}
		trainer := newTrainer(t, cfg)
		for s := range steps {
			first, sum := 0, 0.0
			for i, counts := range runs {
				for d, n := range counts {
					fill(t, cfg.Programs[d], s, first)
					first += n
				}
				run := trainer.Accumulate
				if i == len(runs)-1 {
					run = trainer.Step
				}
				if err := run(t.Context(), counts); err != nil {
					t.Fatal(err)
				}
				for d, n := range counts {
					if n > 0 {
						sum += cfg.Programs[d].Loss() * float64(n)
					}
				}
			}
			losses = append(losses, sum/batch)
		}
		if err := trainer.Sync(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, p := range cfg.Programs[0].Params() {
			values = append(values, p.Value...)
		}
		return losses, values
	}
	for _, mode := range []struct {
		name string
		kind string
		cfg  worker.Config
		opts []kvstore.Option
	}{
		{"servers", "local", worker.Config{}, nil},
		{"workers", "local", worker.Config{UpdateOnWorker: true}, nil},
		{"local steps", "local", worker.Config{}, []kvstore.Option{kvstore.WithLocalSteps(2)}},
		{"asynchronous", "dist_async", worker.Config{}, nil},
	} {
		t.Run(mode.name, func(t *testing.T) {
			want, wantValues := train(t, newStore(t, mode.kind, mode.opts...), mode.cfg, [][]int{{batch}})
			if want[steps-1] > 0.8*want[0] {
				t.Errorf("losses go from %v to %v, want less", want[0], want[steps-1])
			}
			for _, runs := range [][][]int{{{12}, {12}}, {{5}, {7}, {12}}, {{0}, {20}, {4}}, {{24}, {0}}, {{6, 6}, {12, 0}}, {{0, 10}, {7, 7}}} {
				got, values := train(t, newStore(t, mode.kind, mode.opts...), mode.cfg, runs)
				for s := range got {
					if math.Abs(got[s]-want[s]) > 1e-4*want[s] {
						t.Errorf("runs %v: loss of step %d is %v, of one run %v", runs, s, got[s], want[s])
						break
					}
				}
				for i := range values {
					if math.Abs(float64(values[i]-wantValues[i])) > 2e-3 {
						t.Errorf("runs %v: value %d is %v, of one run %v", runs, i, values[i], wantValues[i])
						break
					}
				}
			}
		})
	}
}

// What was dropped has no part in the next step.
func TestDroppedRunsDoNotCount(t *testing.T) {
	value := func(drop bool) []float32 {
		program := mlp(t, 8)
		trainer := newTrainer(t, worker.Config{Store: newStore(t, "local"), Programs: []*nn.Program{program}, Optimizer: optim.Config{Name: "sgd", LearningRate: 0.1}})
		if drop {
			fill(t, program, 5, 100)
			if err := trainer.Accumulate(t.Context(), []int{8}); err != nil {
				t.Fatal(err)
			}
			trainer.DropAccumulated()
		}
		fill(t, program, 0, 0)
		step(t, trainer, 8)
		if err := trainer.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		return slices.Clone(program.Params()[0].Value)
	}
	if got, want := value(true), value(false); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got[:4], want[:4])
	}
}

// A feed's accumulation makes steps of several runs; each example is used once, whatever the
// remainder, and a run that is stopped and resumed goes on with the bits of one that was not:
// dropout, too, which draws for each run.
func TestFitAccumulates(t *testing.T) {
	rig := func(t *testing.T) *fitRig {
		r := newRig(t, rigConfig{})
		feed, err := worker.NewImageFeed(worker.ImageFeedConfig{Programs: r.programs, Dataset: images(t, 60), Workers: 1, Rank: 0, Seed: 5, Accumulation: 2})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { feed.Close() })
		r.feed, r.cfg.Feed = feed, feed
		return r
	}
	whole := rig(t)
	used := map[int]int{}
	whole.cfg.OnUsed = func(u worker.Used) {
		for _, i := range u.Examples {
			used[i]++
		}
	}
	epochs, err := worker.Fit(t.Context(), whole.cfg)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range epochs {
		if e.Examples != 60 || len(e.Losses) != 3 {
			t.Errorf("epoch %d: %d examples in %d steps, want 60 in 3 steps of 24, 24 and 12", e.Epoch, e.Examples, len(e.Losses))
		}
	}
	for i := range 60 {
		if used[i] != 3 {
			t.Fatalf("example %d was used %d times, want 3", i, used[i])
		}
	}
	for _, after := range []int{1, 2, 4} {
		dir, stop := t.TempDir(), make(chan struct{})
		stopped := rig(t)
		stopped.cfg.Stop, stopped.cfg.Checkpoint = stop, worker.CheckpointConfig{Dir: dir}
		stopped.cfg.Observers = []worker.Observer{&stopAfter{step: after, stop: stop}}
		if _, err := worker.Fit(t.Context(), stopped.cfg); !errors.Is(err, worker.ErrStopped) {
			t.Fatalf("got error %v, want ErrStopped", err)
		}
		resumed := rig(t)
		resumed.cfg.Checkpoint = worker.CheckpointConfig{Dir: dir, Resume: true}
		if _, err := worker.Fit(t.Context(), resumed.cfg); err != nil {
			t.Fatal(err)
		}
		if i := firstDifference(resumed.values(), whole.values()); i >= 0 {
			t.Errorf("stopped after step %d: value %d differs from the run that was not stopped", after, i)
		}
	}
}

// Workers that take a step in other numbers of runs, the last ones shorter, take the steps of one
// worker.
func TestWorkersAccumulateUnevenly(t *testing.T) {
	const examples = 21
	values := func(workers int, counts [][][]int) []float32 { // by rank and run
		stores := jobtest.New(t, jobtest.Config{Workers: workers, Servers: 2}).Stores(t, "dist_sync")
		programs := make([]*nn.Program, workers)
		for r := range programs {
			programs[r] = mlp(t, examples)
		}
		onWorkers(t, stores, func(rank int, store kvstore.Store) error {
			trainer, err := worker.NewTrainer(t.Context(), worker.Config{Store: store, Programs: programs[rank : rank+1], Optimizer: optim.Config{Name: "sgd", LearningRate: 0.5}})
			if err != nil {
				return err
			}
			defer trainer.Close()
			for s := range 3 {
				first := 0
				for _, before := range counts[:rank] {
					for _, n := range before {
						first += n[0]
					}
				}
				for i, n := range counts[rank] {
					fill(t, programs[rank], s, first)
					first += n[0]
					run := trainer.Accumulate
					if i == len(counts[rank])-1 {
						run = trainer.Step
					}
					if err := run(t.Context(), n); err != nil {
						return err
					}
				}
			}
			return trainer.Flush(t.Context())
		})
		for r := range programs {
			if !slices.Equal(programs[r].Params()[0].Value, programs[0].Params()[0].Value) {
				t.Errorf("rank %d has other values than rank 0", r)
			}
		}
		return programs[0].Params()[0].Value
	}
	want := values(1, [][][]int{{{examples}}})
	got := values(3, [][][]int{{{4}, {4}, {1}}, {{10}}, {{0}, {2}}})
	for i := range got {
		if math.Abs(float64(got[i]-want[i])) > 1e-5 {
			t.Fatalf("value %d is %v, of one worker %v", i, got[i], want[i])
		}
	}
}

func TestAccumulationNamesWhatItRefuses(t *testing.T) {
	r := newRig(t, rigConfig{})
	for want, accumulation := range map[string]int{"Accumulation is -1, want at least 0": -1, "want a step of fewer than 16777216 examples": math.MaxInt} {
		_, err := worker.NewImageFeed(worker.ImageFeedConfig{Programs: r.programs, Dataset: images(t, 60), Workers: 1, Accumulation: accumulation})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("accumulation %d: got error %v, want one with %q", accumulation, err, want)
		}
	}
	if err := r.cfg.Trainer.Accumulate(t.Context(), []int{1, 2}); err == nil || !strings.Contains(err.Error(), "got counts for 2 devices, want 1") {
		t.Error(err)
	}
	if err := r.cfg.Trainer.Accumulate(t.Context(), []int{rigBatch + 1}); err == nil || !strings.Contains(err.Error(), fmt.Sprint(rigBatch+1)) {
		t.Error(err)
	}
}
