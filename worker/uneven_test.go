package worker_test

import (
	"errors"
	"math"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/paragon-train/paragon/internal/testing/jobtest"
	"github.com/paragon-train/paragon/kvstore"
	"github.com/paragon-train/paragon/worker"
)

// fitJob runs Fit on every worker of a new job and returns the workers and what Fit gave back for
// each.
func fitJob(t *testing.T, kind string, workers int, cfg rigConfig, change func(rank int, c *worker.FitConfig)) (rigs []*fitRig, epochs [][]worker.EpochInfo, errs []error) {
	t.Helper()
	stores := jobtest.New(t, jobtest.Config{Workers: workers, Servers: 2}).Stores(t, kind, cfg.options()...)
	rigs, epochs, errs = make([]*fitRig, workers), make([][]worker.EpochInfo, workers), make([]error, workers)
	var building sync.WaitGroup
	for rank, store := range stores { // NewTrainer returns when all have called it
		cfg := cfg
		cfg.store = store
		building.Go(func() { rigs[rank] = newRig(t, cfg) })
	}
	building.Wait()
	if t.Failed() {
		t.FailNow()
	}
	onWorkers(t, stores, func(rank int, _ kvstore.Store) error {
		change(rank, &rigs[rank].cfg)
		epochs[rank], errs[rank] = worker.Fit(t.Context(), rigs[rank].cfg)
		return nil
	})
	return rigs, epochs, errs
}

// Workers whose examples do not divide evenly use each once an epoch and stay together, also where
// one has none in a step, or none at all; cut off anywhere and resumed, they end with the same
// bits.
func TestUnevenWorkersStayTogether(t *testing.T) {
	for i, test := range []struct {
		name              string
		workers, examples int
		onWorker          bool
		local             int
	}{
		{"short last batches", 2, 43, false, 0},
		{"short last batches, update on the workers", 2, 43, true, 0},
		{"short last batches, local steps", 2, 43, false, 2},
		{"one has no example in the last step", 2, 17, false, 0},
		{"one has no example in the last step, update on the workers", 2, 17, true, 0},
		{"one has no example in the last step, local steps", 2, 17, false, 3},
		{"one has no example in the only step", 3, 2, false, 0},
		{"one has no example in the only step, rounds beyond an epoch", 3, 2, false, 5},
	} {
		// The update on the workers is there without an example, too, a plain round and a
		// local one in the only step, too.
		if !slow() && (i == 1 || i == 3 || i == 5) {
			continue
		}
		t.Run(test.name, func(t *testing.T) {
			cfg := rigConfig{examples: test.examples, onWorker: test.onWorker, local: test.local}
			dir := t.TempDir()
			whole, epochs, errs := fitJob(t, "dist_sync", test.workers, cfg, func(_ int, c *worker.FitConfig) {})
			if err := errors.Join(errs...); err != nil {
				t.Fatal(err)
			}
			seen := 0
			for rank, own := range epochs {
				seen += own[1].Examples
				if own[1].Examples > 0 && !finite(own[1].Losses) {
					t.Errorf("losses of rank %d: %v, want finite ones", rank, own[1].Losses)
				}
				if values := whole[rank].values(); !finite(values) {
					t.Errorf("rank %d: values are not all finite", rank)
				}
				if a, b := whole[0].params(), whole[rank].params(); firstDifference(a, b) >= 0 {
					t.Errorf("ranks 0 and %d end with different parameters", rank)
				}
			}
			if seen != test.examples {
				t.Errorf("an epoch used %d examples, want %d", seen, test.examples)
			}
			steps := len(epochs[0][0].Losses)
			stop := make([]chan struct{}, test.workers)
			_, _, errs = fitJob(t, "dist_sync", test.workers, cfg, func(rank int, c *worker.FitConfig) {
				c.Checkpoint.Dir = dir
				stop[rank] = make(chan struct{})
				c.Stop = stop[rank]
				if rank == test.workers-1 { // so that the run ends before the last step of the second epoch, or after that of the first
					c.Observers = []worker.Observer{&stopAfter{step: max(2*steps-2, 1), stop: stop[rank]}}
				}
			})
			for rank, err := range errs {
				if !errors.Is(err, worker.ErrStopped) {
					t.Fatalf("rank %d: got error %v, want ErrStopped", rank, err)
				}
			}
			resumed, _, errs := fitJob(t, "dist_sync", test.workers, cfg, func(_ int, c *worker.FitConfig) {
				c.Checkpoint = worker.CheckpointConfig{Dir: dir, Resume: true}
			})
			if err := errors.Join(errs...); err != nil {
				t.Fatal(err)
			}
			for rank := range resumed {
				if i := firstDifference(resumed[rank].values(), whole[rank].values()); i >= 0 {
					t.Errorf("rank %d: value %d differs from the uncut run", rank, i)
				}
			}
		})
	}
}

func finite[T float32 | float64](values []T) bool {
	return !slices.ContainsFunc(values, func(v T) bool { return math.IsNaN(float64(v)) || math.IsInf(float64(v), 0) })
}

// An asynchronous job trains; stopped, each worker ends by itself, rank 0 saves for all, and all
// resume from that.
func TestAsynchronousJobStopsAndResumes(t *testing.T) {
	const workers = 2
	dir := t.TempDir()
	_, _, errs := fitJob(t, "dist_async", workers, rigConfig{}, func(rank int, c *worker.FitConfig) {
		stop := make(chan struct{})
		c.Stop, c.Checkpoint.Dir = stop, dir
		c.Observers = []worker.Observer{&stopAfter{step: 1 + 2*rank, stop: stop}}
	})
	for rank, err := range errs {
		if !errors.Is(err, worker.ErrStopped) {
			t.Errorf("rank %d: got error %v, want ErrStopped", rank, err)
		}
	}
	rigs, epochs, errs := fitJob(t, "dist_async", workers, rigConfig{}, func(_ int, c *worker.FitConfig) {
		c.Epochs = 8
		c.Checkpoint = worker.CheckpointConfig{Dir: dir, Resume: true}
	})
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	parameters := len(rigs[0].programs[0].Params())
	for rank, own := range epochs {
		if own[0].First != 2 {
			t.Errorf("rank %d resumed at step %d, want 2: where rank 0 had stopped", rank, own[0].First)
		}
		for _, e := range own {
			if s := e.Staleness; s == nil || s.Missed.Count != s.Lead.Count || s.Lead.Count != uint64(len(e.Losses)*parameters) {
				t.Errorf("rank %d epoch %d: got staleness %+v, want a number for each of %d parameters in each of %d steps", rank, e.Epoch, s, parameters, len(e.Losses))
			}
		}
		if last := own[len(own)-1]; last.Test.Accuracy < 0.8 {
			t.Errorf("rank %d: accuracy %v after %d epochs, want 0.8 or more", rank, last.Test.Accuracy, len(own))
		}
	}
}

// Asynchronous workers within a bound on staleness neither pass it nor wait for each other for
// ever, whatever parameters they push first and also where one has no example in a step; all take
// every step.
func TestBoundedAsynchronousJobKeepsToItsBound(t *testing.T) {
	for _, bound := range []uint64{0, 1, 3} {
		const workers, examples = 3, 49 // the last of 3 steps has one example, on rank 0
		_, epochs, errs := fitJob(t, "dist_async", workers, rigConfig{bound: &bound, examples: examples}, func(rank int, c *worker.FitConfig) {
			c.Epochs = 4
			if rank == 1 {
				c.Observers = []worker.Observer{&slowObserver{}}
			}
		})
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
		for rank, own := range epochs {
			steps, most := 0, uint64(0)
			for _, e := range own {
				steps += len(e.Losses)
				most = max(most, e.Staleness.Lead.Max)
			}
			if steps != 12 || most > bound {
				t.Errorf("bound %d: rank %d took %d steps and was at most %d ahead, want 12 steps and at most %d", bound, rank, steps, most, bound)
			}
		}
	}
}

// slowObserver makes a worker a little slower than the others.
type slowObserver struct{ stopAfter }

func (s *slowObserver) Step(worker.StepInfo) {
	for range 100 {
		runtime.Gosched()
	}
}

// An asynchronous job goes on only with as many workers as wrote the checkpoint, and one whose feed
// cannot be divided anew too; every worker says so.
func TestJobRefusesTheCheckpointOfAnotherNumberOfWorkers(t *testing.T) {
	for kind, want := range map[string]string{"dist_async": "a dist_async run", "dist_sync": "cannot share the examples anew"} {
		dir := t.TempDir()
		run := func(workers int, resume bool) []error {
			_, _, errs := fitJob(t, kind, workers, rigConfig{}, func(_ int, c *worker.FitConfig) {
				c.Epochs, c.Checkpoint = 1, worker.CheckpointConfig{Dir: dir, Resume: resume}
				c.Feed = &faultyFeed{Feed: c.Feed} // hides that it can be divided
			})
			return errs
		}
		if err := errors.Join(run(2, false)...); err != nil {
			t.Fatal(err)
		}
		for rank, err := range run(3, true) {
			if err == nil || !strings.Contains(err.Error(), "written by 2 workers and this job has 3") || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: rank %d of 3: got error %v, want one that says 2 and 3 and %q", kind, rank, err, want)
			}
		}
	}
}

// Workers that have a folder each, as on hosts that share none, keep the newest of their own files
// and can resume.
func TestWorkersWithFoldersOfTheirOwn(t *testing.T) {
	dirs := []string{t.TempDir(), t.TempDir()}
	for _, resume := range []bool{false, true} {
		_, _, errs := fitJob(t, "dist_sync", 2, rigConfig{}, func(rank int, c *worker.FitConfig) {
			c.Checkpoint = worker.CheckpointConfig{Dir: dirs[rank], Keep: 1, Resume: resume}
			if c.Epochs = 2; resume {
				c.Epochs = 3
			}
		})
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
		for rank, want := range [][]string{{"complete.json", "store.safetensors", "worker-0.safetensors"}, {"worker-1.safetensors"}} {
			found, err := filepath.Glob(filepath.Join(dirs[rank], "*", "*"))
			if err != nil {
				t.Fatal(err)
			}
			for i := range found {
				found[i] = filepath.Base(found[i])
			}
			if !slices.Equal(found, want) {
				t.Errorf("resumed=%v: files of rank %d: got %v, want %v", resume, rank, found, want)
			}
		}
	}
}
