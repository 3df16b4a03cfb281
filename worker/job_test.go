package worker_test

import (
	"errors"
	"fmt"
	"math"
	"os"
	"testing"

	"golang.org/x/sync/errgroup"
	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/paragon-train/paragon/internal/testing/jobtest"
	"github.com/paragon-train/paragon/kvstore"
	"github.com/paragon-train/paragon/nn"
	"github.com/paragon-train/paragon/optim"
	"github.com/paragon-train/paragon/worker"
)

// slow says that tests make all of their cases: PARAGON_TEST_SLOW is set, as by make slowtest.
func slow() bool { return os.Getenv("PARAGON_TEST_SLOW") != "" }

// onWorkers runs f for every store of a job, together.
func onWorkers(t *testing.T, stores []kvstore.Store, f func(rank int, store kvstore.Store) error) {
	t.Helper()
	var group errgroup.Group
	for rank, store := range stores {
		group.Go(func() error {
			if err := f(rank, store); err != nil {
				return fmt.Errorf("rank %d: %w", rank, err)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
}

// The predecessors' distributed trainer test: w starts at 1, rank r's gradient is r+1, SGD with
// rate 1 over the sum.
func TestTrainerSumsWorkers(t *testing.T) {
	for _, workers := range []int{1, 2, 4, 7} {
		t.Run(fmt.Sprintf("workers=%d", workers), func(t *testing.T) {
			stores := jobtest.New(t, jobtest.Config{Workers: workers, Servers: 2}).Stores(t, "dist_sync")
			programs := make([]*nn.Program, workers)
			for r := range programs {
				g := G.NewGraph()
				ones := tensor.New(tensor.WithShape(10), tensor.WithBacking([]float32{1, 1, 1, 1, 1, 1, 1, 1, 1, 1}))
				w := G.NewVector(g, tensor.Float32, G.WithShape(10), G.WithName("w"), G.WithValue(ones))
				programs[r] = compile(t, G.Must(G.Sum(G.Must(G.Mul(w, G.NewConstant(float32(r+1)))))), nn.Config{})
			}
			onWorkers(t, stores, func(rank int, store kvstore.Store) error {
				trainer, err := worker.NewTrainer(t.Context(), worker.Config{
					Store: store, Programs: programs[rank : rank+1], Optimizer: optim.Config{Name: "sgd", LearningRate: 1, Reduction: optim.Sum},
				})
				if err != nil {
					return err
				}
				defer trainer.Close()
				return errors.Join(trainer.Step(t.Context(), []int{1}), trainer.Flush(t.Context()))
			})
			for _, program := range programs {
				wantAll(t, "w", program.Params()[0].Value, float32(1-workers*(workers+1)/2))
			}
		})
	}
}

// W workers with a batch of B/W have the losses of one worker with a batch of B.
func TestManyWorkersTakeTheStepsOfOne(t *testing.T) {
	const global, steps = 128, 20
	losses := func(workers, servers int, onWorker bool) []float64 {
		stores := jobtest.New(t, jobtest.Config{Workers: workers, Servers: servers}).Stores(t, "dist_sync")
		batch := global / workers
		programs := make([]*nn.Program, workers)
		for r := range programs {
			programs[r] = mlp(t, batch)
		}
		byRank := make([][]float64, workers)
		onWorkers(t, stores, func(rank int, store kvstore.Store) error {
			trainer, err := worker.NewTrainer(t.Context(), worker.Config{
				Store: store, Programs: programs[rank : rank+1], Optimizer: optim.Config{Name: "adam", LearningRate: 0.01}, UpdateOnWorker: onWorker,
			})
			if err != nil {
				return err
			}
			defer trainer.Close()
			for i := range steps {
				fill(t, programs[rank], i, rank*batch)
				if err := trainer.Step(t.Context(), []int{batch}); err != nil {
					return err
				}
				byRank[rank] = append(byRank[rank], programs[rank].Loss())
			}
			return trainer.Flush(t.Context())
		})
		mean := make([]float64, steps)
		for _, own := range byRank {
			for i, loss := range own {
				mean[i] += loss / float64(workers)
			}
		}
		return mean
	}
	want := losses(1, 1, false)
	if want[steps-1] > want[0]/2 {
		t.Errorf("losses of one worker go from %v to %v, want at most half", want[0], want[steps-1])
	}
	for _, test := range []struct {
		workers, servers int
		onWorker         bool
	}{{2, 1, false}, {2, 2, false}, {4, 3, false}, {4, 2, true}} {
		got := losses(test.workers, test.servers, test.onWorker)
		for i := range got {
			if math.Abs(got[i]-want[i]) > 1e-5*want[i] {
				t.Errorf("%d workers, %d servers, on worker=%v: loss of step %d is %.8f, of one worker %.8f", test.workers, test.servers, test.onWorker, i, got[i], want[i])
				break
			}
		}
	}
}

// Whoever is asked to stop, all workers end after the same step.
func TestAllWorkersStopAfterTheSameStep(t *testing.T) {
	const workers = 3
	stores := jobtest.New(t, jobtest.Config{Workers: workers, Servers: 1}).Stores(t, "dist_sync")
	set := images(t, 90)
	dir := t.TempDir()
	programs := make([]*nn.Program, workers)
	for r := range programs {
		programs[r] = mlpOf(t, 2, 6)
	}
	seen := make([]int, workers)
	onWorkers(t, stores, func(rank int, store kvstore.Store) error {
		trainer, err := worker.NewTrainer(t.Context(), worker.Config{Store: store, Programs: programs[rank : rank+1], Optimizer: optim.Config{Name: "sgd"}})
		if err != nil {
			return err
		}
		defer trainer.Close()
		feed, err := worker.NewImageFeed(worker.ImageFeedConfig{Programs: programs[rank : rank+1], Dataset: set, Workers: workers, Rank: rank})
		if err != nil {
			return err
		}
		defer feed.Close()
		cfg := worker.FitConfig{Trainer: trainer, Feed: feed, Epochs: 5, Checkpoint: worker.CheckpointConfig{Dir: dir}}
		if rank == 1 {
			stop := make(chan struct{})
			cfg.Stop = stop
			cfg.Observers = []worker.Observer{&stopAfter{step: 6, stop: stop}}
		}
		if _, err := worker.Fit(t.Context(), cfg); !errors.Is(err, worker.ErrStopped) {
			return fmt.Errorf("got error %v, want ErrStopped", err)
		}
		seen[rank] = int(trainer.Steps())
		return nil
	})
	for rank, steps := range seen {
		if steps != 7 {
			t.Errorf("rank %d stopped after step %d, want 7: the one after the request", rank, steps)
		}
	}
}
