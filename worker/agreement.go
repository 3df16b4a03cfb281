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
	// laneStop is stopAll where it was asked to stop, and 1 where it was told to leave. All
	// stop if the sum reaches the number of workers.
	laneStop = iota
	// laneChange is 1 where a change of the membership is pending. If any worker's is, the
	// change is made after this step. See agreement for a loss that nobody knows of yet.
	laneChange
	// laneMark is the number of the step modulo marks, plus one, and laneOne is 1.
	laneMark
	laneOne
	// laneSave is 1 where it is time for a checkpoint, laneWriting where its part of one is not
	// written yet, and laneComplete where the checkpoint that was written is complete.
	laneSave
	laneWriting
	laneComplete
	// laneWish is 1 where rank 0 wishes for another batch, of this local batch and
	// accumulation.
	laneWish
	laneLocalBatch
	laneAccumulation
	// laneRequested is 1 where laneStop is raised because the job was asked to stop with a
	// checkpoint.
	laneRequested
	// laneFailed is 1 where its part of a checkpoint could not be written.
	laneFailed
	// laneBad counts damaged examples that it left out and has not told of. Rank 0 adds those
	// told before.
	laneBad
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
	// known says that there was an agreement. The rest is zero where there was none.
	known bool
	stop  stopKind
	// change says that the pending change of the membership is made now.
	change bool
	// save says that a checkpoint is due. writing, complete and failed are of the one under
	// way: some worker still writes its part, it is complete, some part could not be written.
	save, writing, complete, failed bool
	// wish says that the next steps have another batch.
	wish  bool
	batch batch
	// bad are the damaged examples left out, for each worker.
	bad float64
}

// agreement lets all workers stop, or make a change, after the same step, whichever of them is
// asked or hears of it first. Its methods are called by one goroutine at a time, except ask.
//
// All living workers get the same result for a step: its round closes once, and the next one only
// with all of them. The weights are the examples of the step, whatever its gradients weigh. If all
// weights are 0 (the only worker with examples was lost) the value remains that of an earlier step.
// Its mark shows that, on all workers alike, and then nothing was agreed.
//
// # How workers find a change of the membership
//
// A worker hears by itself of a change that is pending: somebody joins, leaves or was lost. But all
// must make it after the same step, which they find in two ways:
//
//   - After every step the agreement tells of the changes that a worker knew of when it pushed its
//     flags (laneChange). That costs no round trip, and may come one step late.
//   - The roll (run.callRoll, package rollcall) costs a round trip, and tells whether a worker was
//     lost in the step just done. It is called where all workers must have done that: before
//     evaluations and checkpoints, around a stop's checkpoint, and at the end of a division. Where
//     the feed cannot be divided it alone tells, between epochs.
//
// Both lead to run.boundary. AwaitPending, there, finds nothing: it waits until this worker, too,
// has heard of the change of which the others have told it. A loss is acted on so:
//
//	step k      a worker is lost, and the others' flags were pushed before they heard of it:
//	            the rounds close without it, and no change is agreed
//	step k + 1  flags have laneChange: those who are left do the step, and verdict.change is true
//	after that  boundary: they arrive, and share what is left of the epoch
//
// If one of them had heard of it before it pushed its flags, the change is made after step k.
//
// In an asynchronous store there is no common step: each worker agrees with itself alone.
type agreement struct {
	store averager
	alone bool
	env   agreementEnv
	// request is closed when the job is asked to stop with a checkpoint; nil: it never is.
	request <-chan struct{}
	asked   atomic.Bool

	// flags are pushed, and sums are pulled. The exchange under way owns them.
	flags, sums []float32
	// mark is that of the exchange under way, done has its result, and cancel ends it; nil:
	// there is none.
	mark   float32
	done   chan error
	cancel context.CancelFunc
}

// An agreementEnv is what an agreement asks of this worker before it pushes. It asks while the step
// computes, on a device's goroutine: Fit's own is in Trainer.Step meanwhile, and changes nothing.
type agreementEnv struct {
	// leaving reports whether this worker was told to leave.
	leaving func() bool
	// changing reports whether a change of the membership is pending, and the feed's examples
	// can be divided anew after this step. The change that a worker's loss makes after this was
	// asked comes after a later step.
	changing func() bool
	// raise raises the lanes of others.
	raise func(flags []float32)
}

// newAgreement makes the agreement's key. begin is called only once env is set.
func newAgreement(ctx context.Context, store averager, alone bool, request <-chan struct{}) (*agreement, error) {
	a := &agreement{store: store, alone: alone, request: request, flags: make([]float32, lanes), sums: make([]float32, lanes), done: make(chan error, 1)}
	if a.alone {
		return a, nil
	}
	if err := store.InitAverage(ctx, agreementKey, a.flags); err != nil {
		return nil, fmt.Errorf("worker: init %s: %w", agreementKey, err)
	}
	return a, nil
}

// ask makes this worker, and so all, stop after a coming step. Any goroutine may call it.
func (a *agreement) ask() { a.asked.Store(true) }

// known is what this worker knows by itself about stopping.
func (a *agreement) known() stopKind {
	select {
	case <-a.request:
		return stopForCheckpoint
	default:
	}
	if a.asked.Load() {
		return stopAsked
	}
	return goingOn
}

// begin starts the exchange of a step, when the store has the weight of its gradients. The weight of
// pusher is the step's examples.
func (a *agreement) begin(ctx context.Context, step uint64, pusher pushPuller) {
	if a.alone {
		return
	}
	a.mark = float32(1 + step%marks)
	clear(a.flags)
	switch kind := a.known(); {
	case kind == stopForCheckpoint:
		a.flags[laneStop], a.flags[laneRequested] = stopAll, 1
	case kind == stopAsked:
		a.flags[laneStop] = stopAll
	case a.env.leaving():
		a.flags[laneStop] = 1
	}
	if a.env.changing() {
		a.flags[laneChange] = 1
	}
	a.env.raise(a.flags)
	a.flags[laneMark], a.flags[laneOne] = a.mark, 1
	ctx, a.cancel = context.WithCancel(ctx)
	go func() {
		a.done <- pusher.PushPull(ctx, agreementKey, [][]float32{a.flags}, [][]float32{a.sums})
	}()
}

// end waits for the exchange that begin started, if it did, and tells what all do now.
func (a *agreement) end() (verdict, error) {
	switch {
	case a.alone:
		return verdict{stop: a.known()}, nil
	case a.cancel == nil:
		return verdict{}, nil
	}
	err := <-a.done
	a.cancel()
	a.cancel = nil
	if err != nil {
		return verdict{}, fmt.Errorf("worker: agree on stopping: %w", err)
	}
	return a.read(), nil
}

// read makes a verdict of the sums, each of which is over the same sum of weights. All marks are
// alike. The numbers of a wish are one worker's and below 2²⁰, so rounding does not matter.
func (a *agreement) read() (v verdict) {
	one := a.sums[laneOne]
	if !(one > 0) || !(math.Abs(float64(a.sums[laneMark]/one-a.mark)) < 0.5) {
		return v
	}
	v = verdict{known: true, change: a.sums[laneChange] > 0, save: a.sums[laneSave] > 0, writing: a.sums[laneWriting] > 0,
		complete: a.sums[laneComplete] > 0, failed: a.sums[laneFailed] > 0, bad: float64(a.sums[laneBad] / one)}
	switch {
	case !(a.sums[laneStop] >= one):
	case a.sums[laneRequested] > 0:
		v.stop = stopForCheckpoint
	default:
		v.stop = stopAsked
	}
	if wish := a.sums[laneWish]; wish > 0 {
		v.wish = true
		v.batch = batch{int(math.Round(float64(a.sums[laneLocalBatch] / wish))), int(math.Round(float64(a.sums[laneAccumulation] / wish)))}
	}
	return v
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
	if err := a.store.PushPull(ctx, agreementKey, [][]float32{a.flags}, [][]float32{a.sums}); err != nil {
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
