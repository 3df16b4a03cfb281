package worker_test

import (
	"context"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paragon-train/paragon/kvstore"
	"github.com/paragon-train/paragon/worker"
)

// The worker that writes the checkpoint of a job that stops may be lost on the way: the others
// notice before they end, and write one of their own, from which the job goes on.
func TestALossWhileAJobStopsLeavesACheckpoint(t *testing.T) {
	dir := t.TempDir()
	plan := elasticPlan{workers: 3, servers: 1, examples: 90, batch: 3, epochs: 1, optimizer: counted}
	var stopped *elasticJob
	synctest.Test(t, func(t *testing.T) {
		p, stop := plan, make(chan struct{})
		p.at = func(j *elasticJob, w *elasticWorker, n int) {
			if w.number == 1 && n == 4 && j.first("stop") {
				close(stop)
			}
		}
		p.change = func(_ *elasticWorker, c *worker.FitConfig) { c.Stop, c.Checkpoint.Dir = stop, dir }
		p.wrap = func(w *elasticWorker, store kvstore.Store) kvstore.Store {
			return hooked(store, func(ctx context.Context, what string) {
				if w.number == 0 && what == "save" {
					w.j.kill(w, false)
					hang(ctx)
				}
			})
		}
		stopped = runElastic(t, p)
		stopped.wantEnds(map[int]error{1: worker.ErrStopped, 2: worker.ErrStopped})
	})
	if found, _ := filepath.Glob(filepath.Join(dir, "step-*", "complete.json")); len(found) != 1 || t.Failed() {
		t.Fatalf("complete checkpoints: got %q, want one", found)
	}
	synctest.Test(t, func(t *testing.T) {
		p := plan
		p.workers = 2
		p.change = func(_ *elasticWorker, c *worker.FitConfig) {
			c.Checkpoint = worker.CheckpointConfig{Dir: dir, Resume: true}
		}
		j := runElastic(t, p)
		j.wantEnds(nil)
		j.wantCounts()
	})
}

// A worker that comes after the last step of an epoch has seen no example: the mean of the running
// statistics is that of the others.
func TestAWorkerThatHasSeenNothingLeavesTheStatisticsAsTheyAre(t *testing.T) {
	var want []float32
	for _, joins := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			j := runElastic(t, elasticPlan{workers: 2, servers: 1, examples: 60, batch: 5, epochs: 1, optimizer: counted, state: true,
				at: func(j *elasticJob, w *elasticWorker, n int) {
					if !joins || w.number != 0 || n != 5 { // of 6 steps
						return
					}
					j.start(2, true)
					for w.store.Pending() == 0 { // the change comes after this step
						time.Sleep(time.Millisecond)
					}
				}})
			j.wantEnds(nil)
			j.wantCounts()
			if joins && (len(j.workers) != 3 || j.workers[2].step != 0) {
				t.Errorf("worker 2 made %d steps, want none", j.workers[2].step)
			}
			for _, w := range j.workers {
				var got []float32
				for _, state := range w.program.State() {
					got = append(got, state.Value...)
				}
				if want == nil {
					want = got
				}
				if !slices.Equal(got, want) {
					t.Errorf("a worker joins: %v; worker %d: got the statistics %v, want %v as without it", joins, w.number, got, want)
				}
			}
		})
	}
}
