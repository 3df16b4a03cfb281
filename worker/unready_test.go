package worker_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paragon-train/paragon/kvstore"
	"github.com/paragon-train/paragon/worker"
)

// leavingStore is the store of a worker that is told to end as soon as it has everything but a
// place in the job.
type leavingStore struct {
	*hookedStore
	leave func()
}

func (s *leavingStore) InitAverage(ctx context.Context, key string, value []float32) error {
	err := s.Store.InitAverage(ctx, key, value)
	if err == nil && key == "paragon/present" {
		s.leave()
		time.Sleep(100 * time.Millisecond) // the scheduler has agreed
	}
	return err
}

// A worker that may leave just before it says that it is ready says nothing, and takes part in
// nothing: nobody would answer it.
func TestAWorkerThatMayLeaveIsNotReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := runElastic(t, elasticPlan{workers: 2, servers: 1, examples: 150, batch: 3, epochs: 2, optimizer: counted,
			at: func(j *elasticJob, w *elasticWorker, n int) {
				if w.number == 0 && n == 5 {
					j.start(2, true)
				}
			},
			wrap: func(w *elasticWorker, store kvstore.Store) kvstore.Store {
				s := hooked(store, func(context.Context, string) {})
				if !w.joining {
					return s
				}
				return &leavingStore{s, w.leave}
			}})
		j.wantEnds(map[int]error{2: worker.ErrRemoved})
		if late := j.workers[2]; late.step != 0 || late.epochs != nil {
			t.Errorf("worker 2 asked for %d batches and did %d epochs, want none", late.step, len(late.epochs))
		}
		j.wantOnce()
		j.wantCounts()
	})
}
