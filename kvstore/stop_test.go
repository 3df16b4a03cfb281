package kvstore_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paragon-train/paragon/internal/testing/jobtest"
	"github.com/paragon-train/paragon/kvstore"
)

// All workers hear that the job is to stop with a checkpoint. What they say of it reaches a
// scheduler that is away for a while, and counts only if the job was asked to stop.
func TestWorkersHearThatTheJobIsToStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		job := jobtest.New(t, jobtest.Config{Workers: 2})
		stores := job.Stores(t, "dist_sync")
		stoppers := []kvstore.Stopper{stores[0], stores[1]}
		if err := stoppers[0].ReportStopped(t.Context(), 7, ""); !errors.Is(err, kvstore.ErrConflict) {
			t.Errorf("stopped without being asked: got error %v, want ErrConflict", err)
		}
		for _, s := range stoppers {
			select {
			case <-s.StopRequested():
				t.Error("a worker is to stop, and nobody asked for it")
			default:
			}
		}
		if answer, err := job.Control(t.Context(), `{"op":"checkpoint-stop","reason":"x"}`); err != nil || answer != "{}" {
			t.Fatalf("asked to stop: %s, %v", answer, err)
		}
		for _, s := range stoppers {
			<-s.StopRequested()
		}
		job.Net.Refuse("worker1", "scheduler")
		job.Net.Cut("worker1", "scheduler")
		time.AfterFunc(300*time.Millisecond, func() { job.Net.Restore("worker1", "scheduler") })
		for rank, s := range stoppers {
			if err := s.ReportStopped(t.Context(), 7, ""); err != nil {
				t.Errorf("rank %d: report stopped: %v", rank, err)
			}
		}
	})
}

// A job within one process has no launcher that could stop it.
func TestALocalStoreIsNotAskedToStop(t *testing.T) {
	kv, err := kvstore.Create(t.Context(), "local")
	if err != nil {
		t.Fatal(err)
	}
	defer kv.Close()
	if s := kv; s.StopRequested() != nil || s.ReportStopped(t.Context(), 7, "") != nil {
		t.Error("a local store can be asked to stop")
	}
}
