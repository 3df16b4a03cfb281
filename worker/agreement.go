package worker

import (
	"context"
	"fmt"
	"math"
	"sync/atomic"
)

// agreementKey is the key by which the workers agree, in each step, on what they do after it. Each
// pushes flags, and all see the same sums over the sum of weights, so all decide alike. Its value
// is in checkpoints, so its name has its size: one of another version is not taken for it.
var agreementKey = fmt.Sprintf("paragon/agreed/%d", lanes)

// What a worker pushes to the agreement's key.
const (
	laneStop         = iota // stopAll: it was asked to stop; 1: it was told to leave. All stop if the sum reaches the number of workers
	laneChange              // 1: a change of the membership is pending
	laneMark                // the number of the step modulo marks, plus one
	laneOne                 // 1
	laneSave                // 1: it is time for a checkpoint
	laneWriting             // 1: its part of a checkpoint is not written yet
	laneComplete            // 1: the checkpoint that was written is complete
	laneWish                // 1: rank 0 wishes for another batch
	laneLocalBatch          // of this local batch
	laneAccumulation        // and accumulation
	laneRequested           // 1: laneStop is raised because the job was asked to stop with a checkpoint
	laneFailed              // 1: its part of a checkpoint could not be written
	laneBad                 // damaged examples that it left out and has not told of; rank 0 adds those told before
	lanes
)

// stopAll makes the sum of the lane reach any number of workers: it is more than a job may have.
const stopAll = 1 << 20

// marks is how many steps have marks of their own. A stale value is that of one of the last few
// steps; 1000 marks are far more than these, and exact in a float32 that was multiplied and divided
// by a weight.
const marks = 1000

// A verdict is what all workers agreed on after a step.
type verdict struct {
	known                   bool // there was an agreement
	stop, change            bool
	requested               bool // the job was asked to stop with a checkpoint
	save, writing, complete bool // of checkpoints
	failed                  bool // some part of a checkpoint could not be written
	wish                    bool // the next steps have another batch
	batch                   batch
	bad                     float64 // damaged examples left out, for each worker
}

// agreement lets all workers stop, or make a change, after the same step, whichever of them is
// asked or hears of it first. Its methods are called by one goroutine at a time, except ask.
//
// All living workers get the same result for a step: its round closes once, and the next one only
// with all of them. The weights are the examples of the step, whatever its gradients weigh. If all
// weights are 0 (the only worker with examples was lost) the value remains that of an earlier step.
// Its mark shows that, on all workers alike, and then nothing was agreed.
type agreement struct {
	trainer *Trainer
	asked   atomic.Bool
	request <-chan struct{}       // closed when the job is asked to stop with a checkpoint; nil: it never is
	told    *atomic.Bool          // this worker was told to leave; nil: it is never
	pending func() bool           // a change of the membership is pending and can be made after this step; nil: there are none
	lanes   func(flags []float32) // raises those of others; nil: none
	flags   []float32             // pushed
	sums    []float32             // pulled
	mark    float32               // of the exchange under way
	done    chan error
	cancel  context.CancelFunc // of the exchange under way; nil: there is none
	alone   bool               // in an asynchronous store there is no common step
}

func newAgreement(ctx context.Context, t *Trainer) (*agreement, error) {
	a := &agreement{trainer: t, flags: make([]float32, lanes), sums: make([]float32, lanes), done: make(chan error, 1), alone: t.async()}
	a.request = t.cfg.Store.StopRequested()
	if a.alone {
		return a, nil
	}
	if err := t.cfg.Store.InitAverage(ctx, agreementKey, a.flags); err != nil {
		return nil, fmt.Errorf("worker: init %s: %w", agreementKey, err)
	}
	return a, nil
}

// ask makes this worker, and so all, stop after a coming step. Any goroutine may call it.
func (a *agreement) ask() { a.asked.Store(true) }

// requested reports whether this worker knows that the job was asked to stop with a checkpoint.
func (a *agreement) requested() bool {
	select {
	case <-a.request:
		return true
	default:
		return false
	}
}

// begin starts the exchange of a step, when the store has the weight of its gradients.
func (a *agreement) begin(ctx context.Context, step uint64) {
	if a.alone {
		return
	}
	a.mark = float32(1 + step%marks)
	clear(a.flags)
	switch {
	case a.requested():
		a.flags[laneStop], a.flags[laneRequested] = stopAll, 1
	case a.asked.Load():
		a.flags[laneStop] = stopAll
	case a.told != nil && a.told.Load():
		a.flags[laneStop] = 1
	}
	if a.pending != nil && a.pending() {
		a.flags[laneChange] = 1
	}
	if a.lanes != nil {
		a.lanes(a.flags)
	}
	a.flags[laneMark], a.flags[laneOne] = a.mark, 1
	ctx, a.cancel = context.WithCancel(ctx)
	pusher := a.trainer.contribution.agreeing
	go func() {
		a.done <- pusher.PushPull(ctx, agreementKey, [][]float32{a.flags}, [][]float32{a.sums})
	}()
}

// end waits for the exchange that begin started, if it did, and tells what all do now.
func (a *agreement) end() (v verdict, err error) {
	switch {
	case a.alone:
		requested := a.requested()
		return verdict{stop: requested || a.asked.Load(), requested: requested}, nil
	case a.cancel == nil:
		return v, nil
	}
	err = <-a.done
	a.cancel()
	a.cancel = nil
	if err != nil {
		return v, fmt.Errorf("worker: agree on stopping: %w", err)
	}
	// Each lane is a sum over the same sum of weights; all marks are alike.
	if one := a.sums[laneOne]; one > 0 && math.Abs(float64(a.sums[laneMark]/one-a.mark)) < 0.5 {
		v = verdict{known: true, stop: a.sums[laneStop] >= one, change: a.sums[laneChange] > 0, requested: a.sums[laneRequested] > 0,
			save: a.sums[laneSave] > 0, writing: a.sums[laneWriting] > 0, complete: a.sums[laneComplete] > 0, failed: a.sums[laneFailed] > 0}
		v.bad = float64(a.sums[laneBad] / one)
		if wish := a.sums[laneWish]; wish > 0 { // of one worker; the numbers are below 2²⁰, so rounding does not matter
			v.wish = true
			v.batch = batch{int(math.Round(float64(a.sums[laneLocalBatch] / wish))), int(math.Round(float64(a.sums[laneAccumulation] / wish)))}
		}
	}
	return v, nil
}

// anyFailed tells all workers whether one of them failed. All call it between the same steps, when
// nothing of the store is under way.
func (a *agreement) anyFailed(ctx context.Context, failed bool) (bool, error) {
	if a.alone {
		return failed, nil
	}
	clear(a.flags)
	if failed {
		a.flags[laneFailed] = 1
	}
	if err := a.trainer.cfg.Store.PushPull(ctx, agreementKey, [][]float32{a.flags}, [][]float32{a.sums}); err != nil {
		return false, fmt.Errorf("worker: agree on a checkpoint: %w", err)
	}
	return a.sums[laneFailed] > 0, nil
}

// close cuts short the exchange that begin started and end has not seen, after a step that failed.
func (a *agreement) close() {
	if a.cancel != nil {
		a.cancel()
		<-a.done
	}
}
