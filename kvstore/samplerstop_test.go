package kvstore_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paragon-train/paragon/internal/member/cluster"
	"github.com/paragon-train/paragon/internal/testing/jobtest"
	"github.com/paragon-train/paragon/kvstore"
	"github.com/paragon-train/paragon/sampler"
)

// A stopJob counts how often each example was used, over the runs of a job that is stopped.
type stopJob struct {
	mu   sync.Mutex
	used map[string]int
	cuts []sampler.Cut
	// epoch and steps are those of the stop.
	epoch int
	steps uint64
}

// train takes turns until the run ends, and returns the last one. at is called in each step, and
// written in each turn that writes a checkpoint.
func (j *stopJob) train(ctx context.Context, kv kvstore.Store, cfg kvstore.SamplerConfig, at func(s *kvstore.ElasticSampler, steps uint64), written func()) (last kvstore.SamplerTurn, err error) {
	if err := kv.Init(ctx, "w", make([]float32, 1)); err != nil {
		return last, err
	}
	s, err := kvstore.NewElasticSampler(ctx, kv, cfg)
	if err != nil {
		return last, err
	}
	value := [][]float32{make([]float32, 1)}
	for {
		turn, err := s.Next(ctx)
		switch {
		case err != nil || turn.Over || turn.Stopped:
			return turn, err
		case turn.Stop != kvstore.NoStop:
			cuts, err := s.Cuts()
			if err != nil {
				return turn, err
			}
			j.mu.Lock()
			j.cuts, j.epoch, j.steps = cuts, turn.Epoch, turn.Steps
			j.mu.Unlock()
			written()
		case turn.Left > 0:
			at(s, turn.Steps)
			if err := s.Pusher().PushPull(ctx, "w", value, value); err != nil {
				return turn, err
			}
			j.mu.Lock()
			for _, i := range s.Examples(turn.First, make([]int, turn.Size)) {
				j.used[fmt.Sprint(turn.Epoch, " ", i)]++
			}
			j.mu.Unlock()
		}
	}
}

// run runs all workers of a job, and returns the last turn of each.
func (j *stopJob) run(t *testing.T, stores []kvstore.Store, cfg kvstore.SamplerConfig, at func(rank int, s *kvstore.ElasticSampler, steps uint64), written func(rank int)) []kvstore.SamplerTurn {
	t.Helper()
	last := make([]kvstore.SamplerTurn, len(stores))
	var running sync.WaitGroup
	for rank, kv := range stores {
		running.Go(func() {
			var err error
			last[rank], err = j.train(t.Context(), kv, cfg, func(s *kvstore.ElasticSampler, steps uint64) { at(rank, s, steps) }, func() { written(rank) })
			if err != nil && !errors.Is(err, context.Canceled) {
				t.Errorf("worker %d: %v", rank, err)
			}
		})
	}
	running.Wait()
	return last
}

// All workers stop after the same step when the job is asked to, or one was told to end, in the
// middle of an epoch. Another number of workers goes on there: each example is used once an epoch.
func TestAllStopAfterAStepAndOthersGoOn(t *testing.T) {
	for name, want := range map[string]kvstore.SamplerStop{"checkpoint": kvstore.StopCheckpoint, "end": kvstore.StopEnd} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cfg := kvstore.SamplerConfig{Examples: 100, Batch: 4, Epochs: 3, Seed: 3, Stops: true}
				j := &stopJob{used: map[string]int{}}
				job := jobtest.New(t, jobtest.Config{Workers: 3})
				wrote := make([]int, 3)
				last := j.run(t, job.Stores(t, "dist_sync"), cfg, func(rank int, s *kvstore.ElasticSampler, steps uint64) {
					switch {
					case steps != 12 || rank != 1:
					case want == kvstore.StopEnd:
						s.AskStop()
					default:
						if answer, err := job.Control(t.Context(), `{"op":"checkpoint-stop","reason":"x"}`); err != nil || answer != "{}" {
							t.Errorf("asked to stop: %s, %v", answer, err)
						}
						time.Sleep(10 * time.Second)
					}
				}, func(rank int) { wrote[rank]++ })
				for rank, turn := range last {
					if !turn.Stopped || turn.Stop != want || turn.Steps != last[0].Steps || turn.Epoch != 1 || wrote[rank] != 1 {
						t.Errorf("worker %d ended with %+v after %d checkpoints, want one, and all stopped after a step of epoch 1", rank, turn, wrote[rank])
					}
				}
				cfg.First, cfg.Cuts, cfg.Steps = j.epoch, j.cuts, j.steps
				rest := j.run(t, jobtest.New(t, jobtest.Config{Workers: 2}).Stores(t, "dist_sync"), cfg, func(int, *kvstore.ElasticSampler, uint64) {}, func(int) {})
				for rank, turn := range rest {
					if !turn.Over || turn.Steps <= j.steps {
						t.Errorf("worker %d of the resumed run ended with %+v, want all epochs, and more than %d steps", rank, turn, j.steps)
					}
				}
				j.wantOnce(t, cfg)
			})
		})
	}
}

func (j *stopJob) wantOnce(t *testing.T, cfg kvstore.SamplerConfig) {
	t.Helper()
	for epoch := range cfg.Epochs {
		for i := range cfg.Examples {
			if n := j.used[fmt.Sprint(epoch, " ", i)]; n != 1 {
				t.Fatalf("example %d of epoch %d was used %d times, want once", i, epoch, n)
			}
		}
	}
}

// If a worker is lost while it writes, the others write again.
func TestALossWhileAllStopIsAnotherTurnWithStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := kvstore.SamplerConfig{Examples: 60, Batch: 4, Epochs: 2, Seed: 3, Stops: true}
		j := &stopJob{used: map[string]int{}}
		job := jobtest.New(t, jobtest.Config{Workers: 3, Elastic: cluster.Elastic{Enabled: true}, Lease: 2 * time.Second, Heartbeat: 500 * time.Millisecond})
		wrote := make([]int, 3)
		ctx, lose := context.WithCancel(t.Context())
		defer lose()
		stores := job.Stores(t, "dist_sync")
		var lost sync.WaitGroup
		last := make([]kvstore.SamplerTurn, 3)
		var running sync.WaitGroup
		for rank, kv := range stores {
			running.Go(func() {
				ctx := ctx
				if rank != 0 {
					ctx = t.Context()
				}
				at := func(s *kvstore.ElasticSampler, steps uint64) {
					if steps == 2 {
						s.AskStop()
					}
				}
				written := func() {
					wrote[rank]++
					if rank == 0 {
						lose()
						lost.Go(func() { _ = kv.Abort(errors.New("killed")) })
					}
				}
				var err error
				if last[rank], err = j.train(ctx, kv, cfg, at, written); (err != nil) != (rank == 0) {
					t.Errorf("worker %d ended with error %v, want one of worker 0 alone", rank, err)
				}
			})
		}
		running.Wait()
		lost.Wait()
		if want := []int{1, 2, 2}; !slices.Equal(wrote, want) {
			t.Errorf("the workers wrote %v checkpoints, want %v", wrote, want)
		}
		for _, turn := range last[1:] {
			if !turn.Stopped || turn.Steps != 3 {
				t.Errorf("a worker that was left ended with %+v, want that all have stopped after 3 steps", turn)
			}
		}
	})
}

// A sampler whose program does not know of stops goes on.
func TestASamplerThatKnowsNoStopGoesOn(t *testing.T) {
	kv, err := kvstore.Create(t.Context(), "dist_sync")
	if err != nil {
		t.Fatal(err)
	}
	defer kv.Close()
	j := &stopJob{used: map[string]int{}}
	cfg := kvstore.SamplerConfig{Examples: 9, Batch: 4, Epochs: 2}
	last, err := j.train(t.Context(), kv, cfg, func(s *kvstore.ElasticSampler, _ uint64) { s.AskStop() }, func() { t.Error("a checkpoint was to be written") })
	if !last.Over || err != nil {
		t.Errorf("the run ended with %+v, %v, want all epochs", last, err)
	}
}
