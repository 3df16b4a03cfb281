package worker_test

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/paragon-train/paragon/optim"
	"github.com/paragon-train/paragon/worker"
)

// unevenJob runs two workers of which the second's devices take twice the batch of the first's.
func unevenJob(t *testing.T, adapt func(number int) worker.AdaptConfig) *elasticJob {
	return runElastic(t, elasticPlan{workers: 2, servers: 1, examples: 96, batch: 3, epochs: 2, optimizer: optim.Config{Name: "sgd", LearningRate: 0.01},
		change: func(w *elasticWorker, c *worker.FitConfig) {
			own := adapt(w.number)
			c.Adapt = &own
			if w.number == 1 {
				var err error
				if w.Partition, err = worker.NewPartition(96, 6, 2, w.store.Rank()); err != nil {
					t.Error(err)
				}
			}
		}})
}

// Workers with different numbers of devices train together if the configuration has the initial
// batch: the job's batch is shared evenly, and each worker takes its part in as many runs as its
// devices need.
func TestWorkersWithOtherDevicesAdapt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := unevenJob(t, func(int) worker.AdaptConfig {
			return worker.AdaptConfig{InitialBatch: 12, MaxBatch: 48, Accumulation: true, Decisions: []worker.Decision{{Step: 3, LocalBatch: 6, Accumulation: 1}, {Step: 6, LocalBatch: 9}}}
		})
		j.wantEnds(nil)
		j.wantAdapted()
		if t.Failed() {
			return
		}
		if b := j.workers[0].epochs[0].Batches; len(b) < 5 || b[0] != 12 || b[4] != 24 {
			t.Errorf("got the batches %v, want 12 and later 24", b)
		}
	})
}

// How a batch is rounded to equal runs depends on a worker's devices: all take rank 0's.
func TestWorkersWithOtherDevicesRoundAlike(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := unevenJob(t, func(int) worker.AdaptConfig {
			return worker.AdaptConfig{InitialBatch: 14, MaxBatch: 48, Accumulation: true}
		})
		j.wantEnds(nil)
		j.wantAdapted()
		if t.Failed() {
			return
		}
		if b := j.workers[0].epochs[0].Batches; len(b) == 0 || b[0] != 18 {
			t.Errorf("got the batches %v, want 18 first: 2 workers with 3 runs of 3", b)
		}
	})
}

// A worker that has not what it must have in common with rank 0 ends before the first step, and
// names it.
func TestAdaptingWorkersThatDifferAreNamed(t *testing.T) {
	for name, c := range map[string]struct {
		adapt func(number int) worker.AdaptConfig
		want  string
	}{
		"devices": {func(int) worker.AdaptConfig { return worker.AdaptConfig{} },
			"the programs of this worker make an initial batch of 12 with 2 workers, those of rank 0 one of 6: set AdaptConfig.InitialBatch"},
		"initial batch": {func(n int) worker.AdaptConfig { return worker.AdaptConfig{InitialBatch: 6 + 6*n, MaxBatch: 48} }, "AdaptConfig.InitialBatch is 12, and that of rank 0 6"},
		"rule": {func(n int) worker.AdaptConfig {
			return worker.AdaptConfig{InitialBatch: 12, Rule: []string{"linear", "sqrt"}[n]}
		}, "AdaptConfig.Rule is sqrt, and that of rank 0 linear"},
		"smoothing": {func(n int) worker.AdaptConfig {
			return worker.AdaptConfig{InitialBatch: 12, Smoothing: 0.5 + float64(n)/4}
		}, "AdaptConfig.Smoothing is 0.75, and that of rank 0 0.5"},
		"groups": {func(n int) worker.AdaptConfig {
			return worker.AdaptConfig{InitialBatch: 12, Groups: []string{"w0", "w1"}[:n]}
		}, "AdaptConfig.Groups is [w0], and that of rank 0 []"},
		"most": {func(n int) worker.AdaptConfig { return worker.AdaptConfig{InitialBatch: 12, MaxBatch: 24 << n} }, "AdaptConfig.MaxBatch is 48, and that of rank 0 24"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				j := unevenJob(t, c.adapt)
				if err := j.workers[1].err; err == nil || !strings.Contains(err.Error(), c.want) || j.workers[1].step > 0 {
					t.Errorf("worker 1: got error %v after %d steps, want %q before the first", err, j.workers[1].step, c.want)
				}
			})
		})
	}
}
