package worker_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/internal/testing/countmodel"
	"github.com/paragon-train/paragon/internal/testing/jobtest"
	"github.com/paragon-train/paragon/kvstore"
	"github.com/paragon-train/paragon/nn"
	"github.com/paragon-train/paragon/worker"
)

// A pace is how long the parts of a worker's steps take, up to 10 % more or less.
type pace struct {
	compute, data, network time.Duration
}

// A slowedJob has three workers, whose steps take a second each until one of them is slowed.
type slowedJob struct {
	*testing.T
	job *jobtest.Job

	named int // after so many steps of worker 0 somebody was slow
	first []control.Slow
	last  []control.Slow
}

const (
	slowed   = 1 // the worker
	slowFrom = 25
	allSteps = 55
)

var usual = pace{compute: time.Second, data: 20 * time.Millisecond, network: 10 * time.Millisecond}

func (j *slowedJob) of(rank, step int, slow pace) pace {
	if rank == slowed && step >= slowFrom {
		return slow
	}
	return usual
}

func jittered(random *rand.Rand, d time.Duration) time.Duration {
	return time.Duration(float64(d) * (.9 + .2*random.Float64()))
}

// ask asks the scheduler who is slow, after a step of worker 0.
func (j *slowedJob) ask(step int) {
	var why control.Why
	_, err := control.Ask(j.Context(), func(ctx context.Context, request []byte) ([]byte, error) {
		answer, err := j.job.Control(ctx, string(request))
		return []byte(answer), err
	}, control.Request{Op: control.OpWhy}, &why)
	if err != nil {
		j.Error(err)
	}
	if j.last = why.Slow; len(j.last) > 0 && j.named == 0 {
		j.named, j.first = step, j.last
	}
}

// want checks who was named, and when.
func (j *slowedJob) want(what, cause string, ratio float64, within int) {
	j.Helper()
	j.Logf("%s: after %d steps: %v", what, j.named-slowFrom, j.first)
	if j.named < slowFrom || j.named > slowFrom+within {
		j.Errorf("%s: someone was named after %d steps, want %d to %d: %v", what, j.named, slowFrom, slowFrom+within, j.first)
	}
	for _, got := range [][]control.Slow{j.first, j.last} {
		if len(got) != 1 || got[0].Rank != slowed || got[0].Host != fmt.Sprint("worker", slowed) || got[0].Cause != cause || math.Abs(got[0].Ratio-ratio) > .5*max(ratio-1, 0)+.02 ||
			got[0].Gap < .1 || got[0].Gap > .5 || got[0].StepSeconds < 1 || got[0].StepSeconds > 1.5 {
			j.Errorf("%s: got %+v, want worker %d, whose %s takes %g times the others'", what, got, slowed, cause, ratio)
		}
	}
}

// Of three workers one becomes slower by 30 %. The scheduler names it within ten steps, and says
// why; it names neither those that wait for it, nor anybody before.
func TestTheSlowedWorkerIsNamedWithinTenSteps(t *testing.T) {
	for _, tc := range []struct {
		cause string
		slow  pace
		ratio float64
	}{
		{control.SlowCompute, pace{1300 * time.Millisecond, usual.data, usual.network}, 1.3},
		{control.SlowData, pace{usual.compute, 320 * time.Millisecond, usual.network}, 16},
		{control.SlowNetwork, pace{usual.compute, usual.data, 310 * time.Millisecond}, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			const workers = 3
			j := &slowedJob{T: t, job: jobtest.New(t, jobtest.Config{Workers: workers, Servers: 2, Heartbeat: time.Second})}
			var running sync.WaitGroup
			for rank, store := range j.job.Stores(t, "dist_sync") {
				running.Go(func() { j.train(store, rank, tc.slow) })
			}
			running.Wait()
			j.want(tc.cause, tc.cause, tc.ratio, 10)
		})
	}
}

// train is a training loop of its own, which reports its steps.
func (j *slowedJob) train(store kvstore.Store, rank int, slow pace) {
	random := rand.New(rand.NewPCG(5, uint64(rank)))
	keys := []string{"a", "b", "c", "d"}
	for _, key := range keys {
		if err := store.Init(j.Context(), key, make([]float32, 8)); err != nil {
			j.Error(err)
			return
		}
	}
	gradient, value := make([]float32, 8), make([]float32, 8)
	for step := range allSteps {
		p := j.of(rank, step, slow)
		begin := time.Now()
		time.Sleep(jittered(random, p.data))
		data := time.Since(begin)
		time.Sleep(jittered(random, p.compute))
		compute := time.Since(begin) - data
		time.Sleep(jittered(random, p.network)) // until what it sends has arrived
		for _, key := range keys {
			if err := store.PushPull(j.Context(), key, [][]float32{gradient}, [][]float32{value}); err != nil {
				j.Errorf("worker %d: %v", rank, err)
				return
			}
		}
		total := time.Since(begin)
		store.ReportStep(kvstore.StepReport{Examples: 1, Total: total, Compute: compute, Data: data, Wait: total - data - compute})
		if rank == 0 {
			j.ask(step + 1)
		}
	}
}

// The same with Fit, where an observer of one worker takes longer. Between a worker's push and its
// next forward pass the observer's time is hidden, so it takes three steps until the others begin
// to wait, from which on ten are enough.
func TestFitsSlowedWorkerIsNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const workers = 3
		j := &slowedJob{T: t, job: jobtest.New(t, jobtest.Config{Workers: workers, Servers: 2, Heartbeat: time.Second})}
		var running sync.WaitGroup
		for rank, store := range j.job.Stores(t, "dist_sync") {
			running.Go(func() {
				random := rand.New(rand.NewPCG(5, uint64(rank)))
				j.fit(store, rank, workers, &busyObserver{step: func(step int) {
					time.Sleep(jittered(random, j.of(rank, step, pace{compute: 1300 * time.Millisecond}).compute))
					if rank == 0 {
						j.ask(step)
					}
				}})
			})
		}
		running.Wait()
		j.want("fit", control.SlowCompute, 1.3, 3+10)
	})
}

// A busyObserver takes time after each step.
type busyObserver struct {
	worker.Observer // none
	steps           int
	step            func(step int)
}

func (*busyObserver) Begin(worker.Run)       {}
func (*busyObserver) Epoch(worker.EpochInfo) {}
func (*busyObserver) End()                   {}
func (p *busyObserver) Step(worker.StepInfo) {
	p.steps++
	p.step(p.steps)
}

// fit trains countmodel for one epoch.
func (j *slowedJob) fit(store kvstore.Store, rank, workers int, observer worker.Observer) {
	program, err := countmodel.Compile(2 * workers * allSteps)
	if err != nil {
		j.Error(err)
		return
	}
	defer program.Close()
	trainer, err := worker.NewTrainer(j.Context(), worker.Config{Store: store, Programs: []*nn.Program{program}, Optimizer: countmodel.Optimizer})
	if err != nil {
		j.Error(err)
		return
	}
	defer trainer.Close()
	feed, err := countmodel.NewFeed(program, 2, workers, rank, 1)
	if err != nil {
		j.Error(err)
		return
	}
	if _, err := worker.Fit(j.Context(), worker.FitConfig{Trainer: trainer, Feed: feed, Epochs: 1, Observers: []worker.Observer{observer}}); err != nil {
		j.Errorf("worker %d: %v", rank, err)
	}
}
