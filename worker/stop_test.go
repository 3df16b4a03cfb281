package worker_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/paragon-train/paragon/internal/member/cluster"
	"github.com/paragon-train/paragon/internal/testing/jobtest"
	"github.com/paragon-train/paragon/kvstore"
	"github.com/paragon-train/paragon/nn"
	"github.com/paragon-train/paragon/optim"
	"github.com/paragon-train/paragon/worker"
)

// duringStep calls f during a step of this worker.
type duringStep struct {
	stopAfter
	f func()
}

func (d *duringStep) Step(s worker.StepInfo) {
	if int(s.Done) == d.step {
		d.f()
	}
}

// A job that is asked to stop with a checkpoint does so after a step that all workers agree on, and
// each knows that the job can go on. In an asynchronous store only rank 0's checkpoint is that of
// the job. Without a folder nobody says that there is one.
func TestAllWorkersStopWhenTheJobIsAskedTo(t *testing.T) {
	const workers = 3
	for _, tc := range []struct {
		name, kind string
		elastic    bool
		folder     bool
		want       error // of rank 0; the others' too, where it is of all
	}{
		{"fixed size", "dist_sync", false, true, worker.ErrCheckpointed},
		{"elastic", "dist_sync", true, true, worker.ErrCheckpointed},
		{"asynchronous", "dist_async", false, true, worker.ErrCheckpointed},
		{"no folder", "dist_sync", false, false, worker.ErrStopped},
	} {
		t.Run(tc.name, func(t *testing.T) {
			job := jobtest.New(t, jobtest.Config{Workers: workers, Servers: 1, Elastic: cluster.Elastic{Enabled: tc.elastic}})
			stores := job.Stores(t, tc.kind)
			set, dir := images(t, 90), ""
			if tc.folder {
				dir = t.TempDir()
			}
			programs := make([]*nn.Program, workers)
			for r := range programs {
				programs[r] = mlpOf(t, 2, 6)
			}
			var once sync.Once
			ask := func() {
				once.Do(func() {
					if answer, err := job.Control(context.Background(), `{"op":"checkpoint-stop","reason":"a test"}`); err != nil || answer != "{}" {
						t.Errorf("asked to stop: %s, %v", answer, err)
					}
				})
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
				cfg := worker.FitConfig{Trainer: trainer, Feed: feed, Epochs: 100_000, Checkpoint: worker.CheckpointConfig{Dir: dir, EveryEpochs: 1_000_000}}
				if rank == 1 {
					cfg.Observers = []worker.Observer{&duringStep{stopAfter{step: 6}, ask}}
				}
				_, err = worker.Fit(t.Context(), cfg)
				want := tc.want
				if rank > 0 && tc.kind == "dist_async" {
					want = worker.ErrStopped
				}
				if !errors.Is(err, want) || errors.Is(err, worker.ErrCheckpointed) != errors.Is(want, worker.ErrCheckpointed) || !errors.Is(err, worker.ErrStopped) {
					return fmt.Errorf("got error %v, want %v", err, want)
				}
				seen[rank] = int(trainer.Steps())
				return store.Close()
			})
			if tc.kind == "dist_sync" && (slices.Min(seen) != slices.Max(seen) || seen[0] < 6) {
				t.Errorf("the workers stopped after the steps %v, want the same one, and not before step 6, after which they were asked to", seen)
			}
			if dir == "" {
				return
			}
			complete, _ := filepath.Glob(filepath.Join(dir, "*", "complete.json"))
			if want := filepath.Join(dir, fmt.Sprintf("step-%08d", seen[0]), "complete.json"); !slices.Equal(complete, []string{want}) {
				t.Errorf("got the checkpoints %v, want %s", complete, want)
			}
		})
	}
}
