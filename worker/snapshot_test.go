package worker_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/paragon-train/paragon/checkpoint/checkpointtest"
	"github.com/paragon-train/paragon/internal/testing/jobtest"
	"github.com/paragon-train/paragon/kvstore"
	"github.com/paragon-train/paragon/worker"
)

// onStep calls f after each step, with the number of steps done.
type onStep struct {
	stopAfter
	done int
	f    func(done int)
}

func (s *onStep) Step(worker.StepInfo) {
	s.done++
	s.f(s.done)
}

// afterStep is an observer of steps.
func afterStep(f func(done int)) []worker.Observer {
	return []worker.Observer{&onStep{f: f}}
}

// The bucket takes what it was given at step 3 only after step 7: nobody waits for it, and the
// checkpoint is that of step 3.
func TestTrainingGoesOnWhileACheckpointIsWritten(t *testing.T) {
	whole := newFitRig(t, false)
	if _, err := worker.Fit(t.Context(), whole.cfg); err != nil {
		t.Fatal(err)
	}
	bucket, uri := checkpointtest.New()
	release, died := make(chan struct{}), errors.New("the process dies")
	var dead atomic.Bool
	bucket.Fault = func(ctx context.Context, op, name string) error {
		if dead.Load() {
			return died
		}
		if op != "commit" || !strings.HasSuffix(name, "store.safetensors") {
			return nil
		}
		select {
		case <-release:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	r := newFitRig(t, false)
	r.cfg.Checkpoint = worker.CheckpointConfig{Dir: uri, EverySteps: 3, EveryEpochs: 3}
	var complete []string
	r.cfg.Observers = afterStep(func(done int) {
		switch done {
		case 5:
			if names := bucket.Names(); slices.Contains(names, "run/step-00000003/store.safetensors") {
				t.Errorf("after step 5: the bucket has %v, want no store: it has not been let in", names)
			}
			close(release)
		case 9: // the next was due at 6, which waited for this one
			complete = bucket.Names()
			dead.Store(true)
		}
	})
	if _, err := worker.Fit(t.Context(), r.cfg); !errors.Is(err, died) {
		t.Fatalf("Fit: got error %v, want %v", err, died)
	}
	if !slices.Contains(complete, "run/step-00000003/complete.json") {
		t.Errorf("after step 9: the bucket has %v, want the checkpoint of step 3 to be complete", complete)
	}
	bucket.Fault = nil
	again := newFitRig(t, false)
	again.cfg.Checkpoint = worker.CheckpointConfig{Dir: uri, EverySteps: 3, EveryEpochs: 3, Resume: true}
	if _, err := worker.Fit(t.Context(), again.cfg); err != nil {
		t.Fatal(err)
	}
	if i := firstDifference(again.values(), whole.values()); i >= 0 {
		t.Errorf("value %d differs from the run that was not stopped", i)
	}
}

// Whichever operation on the bucket is the first that does not happen, what is there goes on to the
// bits of the run without a fault.
func TestAKillWhileACheckpointIsWrittenLeavesAWholeOne(t *testing.T) {
	cfg := func(r *fitRig, uri string, resume bool) worker.FitConfig {
		r.cfg.Epochs, r.cfg.Evaluator = 1, nil
		r.cfg.Checkpoint = worker.CheckpointConfig{Dir: uri, EverySteps: 3, Keep: 1, Resume: resume, Failures: 1}
		return r.cfg
	}
	whole := newFitRig(t, false)
	bucket, uri := checkpointtest.New()
	var operations atomic.Int64
	bucket.Fault = func(context.Context, string, string) error { operations.Add(1); return nil }
	if _, err := worker.Fit(t.Context(), cfg(whole, uri, false)); err != nil {
		t.Fatal(err)
	}
	killed := errors.New("killed")
	for after := int64(1); after < operations.Load(); after += 4 {
		bucket, uri := checkpointtest.New()
		var done atomic.Int64
		bucket.Fault = func(context.Context, string, string) error {
			if done.Add(1) > after {
				return killed
			}
			return nil
		}
		_, err := worker.Fit(t.Context(), cfg(newFitRig(t, false), uri, false))
		if !errors.Is(err, killed) || !strings.Contains(err.Error(), "checkpoint") {
			t.Fatalf("killed after %d operations: got error %v, want %v of a checkpoint", after, err, killed)
		}
		left := bucket.Names()
		bucket.Fault = nil
		again := newFitRig(t, false)
		if _, err := worker.Fit(t.Context(), cfg(again, uri, true)); err != nil {
			t.Fatalf("killed after %d operations, which left %v: %v", after, left, err)
		}
		if i := firstDifference(again.values(), whole.values()); i >= 0 {
			t.Errorf("killed after %d operations, which left %v: value %d differs from the run without a fault", after, left, i)
		}
		if names := bucket.Names(); !slices.Contains(names, "run/step-00000008/complete.json") {
			t.Errorf("killed after %d operations: at the end the bucket has %v, want the last checkpoint", after, names)
		}
	}
}

// Where the first checkpoint that fails is to end the run, a full disk is its error after the next
// step, and the one before stays.
func TestAFullPlaceIsAnErrorOfItsCheckpoint(t *testing.T) {
	bucket, uri := checkpointtest.New()
	bucket.Fault = func(_ context.Context, op, name string) error {
		if op == "commit" && strings.Contains(name, "step-00000006") {
			return syscall.ENOSPC
		}
		return nil
	}
	r := newFitRig(t, false)
	r.cfg.Checkpoint = worker.CheckpointConfig{Dir: uri, EverySteps: 3, EveryEpochs: 3, Failures: 1}
	steps := 0
	r.cfg.Observers = afterStep(func(done int) { steps = done })
	_, err := worker.Fit(t.Context(), r.cfg)
	if !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), "checkpoint at step 6") || steps < 7 || steps > 9 {
		t.Errorf("Fit: got error %v after %d steps, want %v of the checkpoint at step 6, after 7 to 9", err, steps, syscall.ENOSPC)
	}
	want := []string{"run/step-00000003/complete.json", "run/step-00000003/store.safetensors", "run/step-00000003/worker-0.safetensors"}
	if names := bucket.Names(); !slices.Equal(names, want) {
		t.Errorf("the bucket has %v, want %v", names, want)
	}
}

// A disk that is full for a while costs checkpoints and nothing else: each is tried again after a
// pause that doubles, what was written of it is removed, and afterwards they come as before. The
// last one is tried again when the run is at its end.
func TestAPlaceThatIsFullForAWhileCostsCheckpointsAlone(t *testing.T) {
	for _, test := range []struct {
		name     string
		full     func(step int, tries int) bool // of a checkpoint at a step, the tries so far
		want     []string                       // complete ones, of 16 steps of 4 s, of which the 8th and the 16th end an epoch, saved every 3 steps
		failures int                            // in a row, at most
		failed   bool
	}{
		// It is known after the next step, and the next try is asked for 10 s later.
		{"at step 6", func(step, _ int) bool { return step == 6 }, []string{"3", "11", "12", "15", "16"}, 3, false},
		// The second try comes 20 s after the first, when the run is over.
		{"twice", func(_, tries int) bool { return tries == 1 || tries == 2 }, []string{"3", "16"}, 3, false},
		{"at the end", func(step, tries int) bool { return step == 16 && tries < 8 }, []string{"3", "6", "8", "9", "12", "15", "16"}, 3, false},
		{"from step 6 on", func(step, _ int) bool { return step >= 6 }, []string{"3"}, 3, true},
		{"from step 6 on, one more try", func(step, _ int) bool { return step >= 6 }, []string{"3"}, 4, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				bucket, uri := checkpointtest.New()
				var saved []string
				tries, failed := 0, 0
				bucket.Fault = func(_ context.Context, op, name string) error {
					var step int
					if _, err := fmt.Sscanf(name, "run/step-%d/", &step); err != nil || op != "commit" {
						return nil
					}
					if strings.HasSuffix(name, "store.safetensors") {
						if tries++; test.full(step, tries-1) {
							failed++
							return syscall.ENOSPC
						}
					}
					if strings.HasSuffix(name, "complete.json") {
						saved = append(saved, fmt.Sprint(step))
					}
					return nil
				}
				r := newFitRig(t, false)
				r.cfg.Checkpoint = worker.CheckpointConfig{Dir: uri, EverySteps: 3, Failures: test.failures, Keep: 100}
				r.cfg.MaxSteps, r.cfg.Evaluator = 16, nil
				r.cfg.Feed = settledFeed{r.cfg.Feed}
				steps := 0
				r.cfg.Observers = afterStep(func(done int) {
					steps = done
					time.Sleep(4 * time.Second)
				})
				_, err := worker.Fit(t.Context(), r.cfg)
				if test.failed && (!errors.Is(err, syscall.ENOSPC) || failed != test.failures || !strings.Contains(err.Error(), fmt.Sprintf("failed %d times in a row", failed))) {
					t.Errorf("Fit: got error %v after %d failures, want %v after %d", err, failed, syscall.ENOSPC, test.failures)
				}
				if !test.failed && (err != nil || steps != 16 || failed == 0) {
					t.Errorf("Fit: got error %v after %d steps and %d failures, want none after 16 and some", err, steps, failed)
				}
				if !slices.Equal(saved, test.want) {
					t.Errorf("complete checkpoints at %v, want %v", saved, test.want)
				}
				for _, name := range bucket.Names() {
					folder, _, _ := strings.Cut(strings.TrimPrefix(name, "run/step-"), "/")
					if step := strings.TrimLeft(folder, "0"); !slices.Contains(saved, step) {
						t.Errorf("%s is left of a checkpoint that failed", name)
					}
				}
			})
		})
	}
}

// An older checkpoint that cannot be removed costs no newer one, also where the newer one becomes
// complete just before the next is due.
func TestAnOlderCheckpointThatCannotBeRemovedCostsNoNewerOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bucket, uri := checkpointtest.New()
		complete := make(chan struct{})
		refused, taken := 0, ""
		bucket.Fault = func(ctx context.Context, op, name string) error {
			switch {
			case op == "commit" && name == "run/step-00000004/complete.json":
				select {
				case <-complete:
				case <-ctx.Done():
				}
			case op == "commit" && name == "run/step-00000006/complete.json":
				taken += "; step 6 is complete"
			case op == "remove" && strings.HasPrefix(name, "run/step-00000002/") && refused == 0:
				refused++
				return syscall.EACCES
			case op == "remove" && strings.HasPrefix(name, "run/step-00000004/"):
				taken += "; " + name
			}
			return nil
		}
		r := newFitRig(t, false)
		r.cfg.Checkpoint = worker.CheckpointConfig{Dir: uri, EverySteps: 2, Keep: 1, EveryEpochs: 100}
		r.cfg.MaxSteps, r.cfg.Evaluator = 7, nil
		r.cfg.Feed = settledFeed{r.cfg.Feed}
		r.cfg.Observers = afterStep(func(done int) {
			if done == 6 { // what this step tells of the checkpoint is said already, and the next one is due
				close(complete)
				synctest.Wait()
			}
		})
		if _, err := worker.Fit(t.Context(), r.cfg); err != nil || refused != 1 {
			t.Errorf("Fit: got error %v after %d removals that failed, want none after 1", err, refused)
		}
		if !strings.HasPrefix(taken, "; step 6 is complete") {
			t.Errorf("removed of step 4, in this order: %q, want nothing before step 6 is complete", taken)
		}
	})
}

// A manifest whose write failed may be in place all the same. It goes before the parts that it
// names, so that no checkpoint is left without them.
func TestACheckpointThatIsDroppedLeavesNoManifest(t *testing.T) {
	bucket, uri := checkpointtest.New()
	const manifest = "run/step-00000002/complete.json"
	bucket.Fault = func(_ context.Context, op, name string) error {
		if op == "committed" && name == manifest {
			return syscall.EIO
		}
		return nil
	}
	r := newFitRig(t, false)
	r.cfg.Checkpoint = worker.CheckpointConfig{Dir: uri, EverySteps: 2, EveryEpochs: 100}
	r.cfg.MaxSteps, r.cfg.Evaluator = 7, nil
	if _, err := worker.Fit(t.Context(), r.cfg); err != nil {
		t.Fatal(err)
	}
	for _, name := range bucket.Names() {
		if strings.HasPrefix(name, "run/step-00000002/") {
			t.Errorf("%s is left of a checkpoint that was dropped", name)
		}
	}
}

// By the clock: one every so often, none while the last one is being written, and no step waits for
// the place.
func TestCheckpointsByTheClock(t *testing.T) {
	for _, test := range []struct {
		takes time.Duration // a commit
		want  []string      // of 14 steps of a minute, saved every 150 s, which a step learns when it begins; the 8th is an epoch's last
	}{
		{0, []string{"step-00000004", "step-00000009", "step-00000013"}},
		{80 * time.Second, []string{"step-00000004", "step-00000012"}},
	} {
		synctest.Test(t, func(t *testing.T) {
			bucket, uri := checkpointtest.New()
			var saved []string
			bucket.Fault = func(_ context.Context, op, name string) error {
				if op == "commit" {
					time.Sleep(test.takes)
					if folder, ok := strings.CutSuffix(strings.TrimPrefix(name, "run/"), "/complete.json"); ok {
						saved = append(saved, folder)
					}
				}
				return nil
			}
			r := newFitRig(t, false)
			r.cfg.Checkpoint = worker.CheckpointConfig{Dir: uri, Every: 150 * time.Second, EveryEpochs: 9}
			r.cfg.MaxSteps, r.cfg.Evaluator = 14, nil
			r.cfg.Feed = settledFeed{r.cfg.Feed}
			begin := time.Now()
			var took time.Duration
			r.cfg.Observers = afterStep(func(int) {
				time.Sleep(time.Minute)
				took = time.Since(begin)
			})
			if _, err := worker.Fit(t.Context(), r.cfg); err != nil {
				t.Fatal(err)
			}
			if took != 14*time.Minute || !slices.Equal(saved, test.want) {
				t.Errorf("commits of %v: 14 steps of a minute took %v with checkpoints %v, want 14m0s and %v", test.takes, took, saved, test.want)
			}
		})
	}
}

// A settledFeed gives a batch once all other goroutines of the bubble wait, so that what a step
// begins with does not depend on who is faster.
type settledFeed struct{ worker.Feed }

func (f settledFeed) Next(ctx context.Context) ([]int, error) {
	synctest.Wait()
	return f.Feed.Next(ctx)
}

// A checkpoint is not complete before the slowest worker has written its part, though rank 0 has
// long written its own.
func TestACheckpointWaitsForThePartOfEachWorker(t *testing.T) {
	bucket, uri := checkpointtest.New()
	release := make(chan struct{})
	bucket.Fault = func(ctx context.Context, op, name string) error {
		if op == "commit" && name == "run/step-00000002/worker-1.safetensors" {
			select {
			case <-release:
			case <-ctx.Done():
			}
		}
		return nil
	}
	var before, after []string
	var group errgroup.Group
	for rank, store := range jobtest.New(t, jobtest.Config{Workers: 2}).Stores(t, "dist_sync") {
		group.Go(func() error {
			rig := newRig(t, rigConfig{store: store, examples: 240})
			rig.cfg.Epochs, rig.cfg.Evaluator = 1, nil // of 15 steps
			rig.cfg.Checkpoint, rig.cfg.MaxSteps = worker.CheckpointConfig{Dir: uri, EverySteps: 2, EveryEpochs: 2}, 4
			rig.cfg.Observers = afterStep(func(done int) {
				if rank == 1 && done == 4 { // the next is due, which waits for this one
					before = bucket.Names()
					close(release)
				}
			})
			_, err := worker.Fit(t.Context(), rig.cfg)
			return errors.Join(err, kvstore.Leave(store, err))
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	after = bucket.Names()
	const complete = "run/step-00000002/complete.json"
	if slices.Contains(before, complete) || !slices.Contains(after, complete) {
		t.Errorf("the bucket had %v before worker 1 had written its part and has %v now, want %s now alone", before, after, complete)
	}
}

// Where one worker cannot write its part all drop the checkpoint and train on; the next one is
// complete.
func TestACheckpointOfWhichOneWorkerCannotWriteItsPartIsDroppedByAll(t *testing.T) {
	for _, faulty := range []int{0, 1} {
		bucket, uri := checkpointtest.New()
		bucket.Fault = func(_ context.Context, op, name string) error {
			if op == "commit" && name == fmt.Sprintf("run/step-00000002/worker-%d.safetensors", faulty) {
				return syscall.ENOSPC
			}
			return nil
		}
		var group errgroup.Group
		for _, store := range jobtest.New(t, jobtest.Config{Workers: 2}).Stores(t, "dist_sync") {
			group.Go(func() error {
				rig := newRig(t, rigConfig{store: store, examples: 240})
				rig.cfg.Epochs, rig.cfg.Evaluator = 1, nil
				rig.cfg.Checkpoint, rig.cfg.MaxSteps = worker.CheckpointConfig{Dir: uri, EverySteps: 2}, 4
				_, err := worker.Fit(t.Context(), rig.cfg)
				return errors.Join(err, kvstore.Leave(store, err))
			})
		}
		if err := group.Wait(); err != nil {
			t.Fatalf("worker %d cannot write its part: %v", faulty, err)
		}
		want := []string{"complete.json", "store.safetensors", "worker-0.safetensors", "worker-1.safetensors"}
		for i := range want {
			want[i] = "run/step-00000004/" + want[i]
		}
		if names := bucket.Names(); !slices.Equal(names, want) {
			t.Errorf("worker %d could not write its part of step 2: the bucket has %v, want %v", faulty, names, want)
		}
	}
}

// A server dies in the middle: the job ends, and the next one goes on from what is there to the
// bits of a job in which none died; the number of servers may be another one.
func TestAJobWhoseServerDiesGoesOnFromItsNewestCheckpoint(t *testing.T) {
	type result struct {
		values [][]float32
		err    error
	}
	run := func(servers int, checkpoint worker.CheckpointConfig, at func(job *jobtest.Job, rank, done int)) (r result) {
		job := jobtest.New(t, jobtest.Config{Workers: 2, Servers: servers})
		r.values = make([][]float32, 2)
		var group errgroup.Group
		for rank, store := range job.Stores(t, "dist_sync") {
			group.Go(func() error {
				rig := newRig(t, rigConfig{store: store})
				rig.cfg.Checkpoint, rig.cfg.Evaluator = checkpoint, nil
				rig.cfg.Observers = afterStep(func(done int) { at(job, rank, done) })
				_, err := worker.Fit(t.Context(), rig.cfg)
				r.values[rank] = rig.values()
				return errors.Join(err, kvstore.Leave(store, err))
			})
		}
		r.err = group.Wait()
		return r
	}
	nothing := func(*jobtest.Job, int, int) {}
	whole := run(2, worker.CheckpointConfig{}, nothing)
	if whole.err != nil {
		t.Fatal(whole.err)
	}
	dir := t.TempDir()
	checkpoint := worker.CheckpointConfig{Dir: dir, EverySteps: 2}
	if r := run(2, checkpoint, func(job *jobtest.Job, rank, done int) {
		if rank == 1 && done == 6 {
			job.KillServer(1, false)
		}
	}); r.err == nil {
		t.Fatal("a job whose server died: got no error")
	}
	checkpoint.Resume = true
	again := run(3, checkpoint, nothing)
	if again.err != nil {
		t.Fatal(again.err)
	}
	for rank := range whole.values {
		if i := firstDifference(again.values[rank], whole.values[rank]); i >= 0 {
			t.Errorf("rank %d: value %d differs from the job in which no server died", rank, i)
		}
	}
}
