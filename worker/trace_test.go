package worker_test

import (
	"sync"
	"testing"

	"github.com/paragon-train/paragon/internal/member/cluster"
	"github.com/paragon-train/paragon/internal/observe/telemetry"
	"github.com/paragon-train/paragon/internal/observe/trace"
	"github.com/paragon-train/paragon/internal/testing/jobtest"
	"github.com/paragon-train/paragon/kvstore"
	"github.com/paragon-train/paragon/nn"
	"github.com/paragon-train/paragon/optim"
	"github.com/paragon-train/paragon/worker"
)

// Each step of Fit has its data, its forward and its backward pass, one after another.
func TestFitRecordsItsSteps(t *testing.T) {
	const workers, epochs = 2, 2
	clock := telemetry.NewClock()
	var mu sync.Mutex // guards captures
	captures := map[int]*trace.Capture{}
	job := jobtest.New(t, jobtest.Config{Workers: workers, Servers: 1, Trace: func(role cluster.Role, rank int) *trace.Recorder {
		r := trace.NewRecorder(clock)
		if role == cluster.Worker {
			mu.Lock()
			defer mu.Unlock()
			captures[rank] = r.Open(trace.Config{})
		}
		return r
	}})
	stores := job.Stores(t, "dist_sync")
	set, dir := images(t, 80), t.TempDir()
	programs := make([]*nn.Program, workers)
	for r := range programs {
		programs[r] = mlpOf(t, 2, 6)
	}
	var steps [workers]uint64
	onWorkers(t, stores, func(rank int, store kvstore.Store) error {
		trainer, err := worker.NewTrainer(t.Context(), worker.Config{Store: store, Programs: programs[rank : rank+1], Optimizer: optim.Config{Name: "sgd", LearningRate: 0.25}})
		if err != nil {
			return err
		}
		defer trainer.Close()
		feed, err := worker.NewImageFeed(worker.ImageFeedConfig{Programs: programs[rank : rank+1], Dataset: set, Workers: workers, Rank: rank})
		if err != nil {
			return err
		}
		defer feed.Close()
		_, err = worker.Fit(t.Context(), worker.FitConfig{Trainer: trainer, Feed: feed, Epochs: epochs, Evaluator: fixedScores{}, Checkpoint: worker.CheckpointConfig{Dir: dir}})
		steps[rank] = trainer.Steps()
		return err
	})
	for rank, c := range captures {
		of := map[trace.Kind]map[uint64][]trace.Span{}
		for _, s := range c.Take().Spans {
			if of[s.Kind] == nil {
				of[s.Kind] = map[uint64][]trace.Span{}
			}
			of[s.Kind][s.Step] = append(of[s.Kind][s.Step], s)
		}
		if n := len(of[trace.Step]); uint64(n) != steps[rank] {
			t.Errorf("worker %d: %d steps are recorded, want %d", rank, n, steps[rank])
		}
		for n, s := range of[trace.Step] {
			step, data, forward, backward := s[0], of[trace.Data][n], of[trace.Forward][n], of[trace.Backward][n]
			if len(s) != 1 || len(data) != 1 || len(forward) != 1 || len(backward) != 1 {
				t.Fatalf("worker %d: step %d is there %d times, its data %d, its passes %d and %d times, want once each", rank, n, len(s), len(data), len(forward), len(backward))
			}
			for _, at := range [][2]int64{{step.Begin, data[0].Begin}, {data[0].End, forward[0].Begin}, {forward[0].End, backward[0].Begin}, {backward[0].End, step.End}} {
				if at[0] > at[1] {
					t.Errorf("worker %d: step %d: %+v, data %+v, forward %+v, backward %+v: want them one after another", rank, n, step, data[0], forward[0], backward[0])
				}
			}
		}
		if len(of[trace.Push]) == 0 || len(of[trace.Pull]) == 0 {
			t.Errorf("worker %d: there are pushes of %d steps and pulls of %d, want some", rank, len(of[trace.Push]), len(of[trace.Pull]))
		}
		for kind, want := range map[trace.Kind]int{trace.Evaluate: epochs, trace.Save: 1} {
			n := 0
			for _, s := range of[kind] {
				n += len(s)
			}
			if rank == 0 && n < want {
				t.Errorf("worker %d: %d spans of %v, want at least %d", rank, n, kind, want)
			}
		}
	}
}
