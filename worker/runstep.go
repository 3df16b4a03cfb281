package worker

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/paragon-train/paragon/internal/observe/trace"
)

// runStep does one step, tells the observers, and returns what all workers agreed on after it.
func (r *run) runStep(ctx context.Context, e *epochRun) (agreed verdict, err error) {
	r.passOnRequests()
	step := r.trainer.Steps()
	r.trainer.hooks.weighed = func() { r.agreement.begin(ctx, step, r.trainer.contribution.agreeing) }
	info := &e.info
	defer func() { info.Times.Data += r.ahead.end() }()
	// With local steps all agree at the end of a division although no round ends there.
	meet := !r.trainer.roundEnds() && r.division.step+1 == r.cfg.Feed.Steps()
	global, begin := r.planStep()
	loss, done, err := r.runMicroBatches(ctx, info)
	if err != nil {
		return agreed, err
	}
	if r.adapt != nil {
		r.adapt.stepped()
		info.Batches = append(info.Batches, global)
	}
	if meet {
		if err := r.trainer.weighLocal(ctx); err != nil {
			return agreed, err
		}
		r.agreement.begin(ctx, step, r.trainer.contribution.agreeing)
	}
	r.warnOfDivergence(loss, done)
	told := r.stepInfo(info, loss, done.examples, global)
	r.store.ReportStep(told.reported())
	r.observers.step(told)
	e.add(loss, done)
	r.division.used += done.examples
	agreed, err = r.awaitAgreement(info)
	if r.adapt != nil && err == nil {
		err = r.adapt.timed(begin, r.division.nextOwn(), r.trainer.Steps())
	}
	return agreed, err
}

// passOnRequests makes all workers stop after a coming step, if this one was asked to, or was told
// to leave and cannot leave alone.
func (r *run) passOnRequests() {
	select {
	case <-r.cfg.Stop:
		r.agreement.ask()
	default:
	}
	if r.leave.refused() {
		r.agreement.ask()
	}
}

// planStep finds out how many examples the next step uses on all workers, tells the adaptation, and
// returns when the step begins for that.
func (r *run) planStep() (global int, begin time.Time) {
	global = r.division.nextGlobal()
	if r.adapt != nil {
		begin = r.adapt.planStep(global)
	}
	return global, begin
}

// awaitAgreement waits for what all workers agree on after the step.
func (r *run) awaitAgreement(info *EpochInfo) (verdict, error) {
	waiting := time.Now()
	agreed, err := r.agreement.end()
	info.Times.Wait += time.Since(waiting)
	if t := &r.trainer.trace; t.on() {
		t.waited(t.recorder.At(waiting), "")
	}
	return agreed, err
}

// warnOfDivergence says once that a loss is not finite.
func (r *run) warnOfDivergence(loss float64, done amount) {
	finite := !math.IsNaN(loss) && !math.IsInf(loss, 0)
	if finite || done.weight == 0 || r.diverged {
		return
	}
	r.diverged = true
	r.logger.Warn("the loss is not finite, so training has diverged or an example is bad; try a lower learning rate or gradient clipping, or kvstore.WithGuard, "+
		"which keeps single bad gradients out (logged once)", "loss", loss, "epoch", r.epochs.number(), "steps", r.trainer.Steps(), "rank", r.division.seat.rank)
}

// runMicroBatches does the runs of one step, one for each micro-batch, and returns the mean loss
// over their labels or examples.
func (r *run) runMicroBatches(ctx context.Context, info *EpochInfo) (loss float64, done amount, err error) {
	want := r.division.nextOwn()
	for kind := accumulating; kind != closing; {
		var begin time.Time
		waited := r.trainer.times.Wait
		if r.adapt != nil {
			begin = r.adapt.now()
		}
		batch := r.nextBatch(ctx, info)
		if batch.err != nil {
			return 0, done, fmt.Errorf("worker: %v: next batch: %w", r.division, batch.err)
		}
		r.bad.leaveOut(batch.bad, r.division.pass)
		n := batch.examples()
		if n == 0 && want > 0 {
			return 0, done, fmt.Errorf("worker: %v: next batch: feed %T returned none of the %d examples that are left of the step", r.division, r.cfg.Feed, want)
		}
		if want -= n; want <= 0 {
			kind = closing
		}
		r.trainer.hooks.gradient = nil
		if kind == accumulating || r.moreSteps() {
			r.trainer.hooks.gradient = func() { r.ahead.begin(ctx) }
		}
		if err := r.trainer.run(ctx, batch.counts, kind); err != nil {
			return 0, done, err
		}
		sum, weight := r.trainer.devices.loss()
		loss += sum
		done = done.plus(amount{n, weight})
		if kind == accumulating {
			info.Times.Data += r.ahead.end()
			if r.adapt != nil {
				r.adapt.ranUntilNow(begin, r.trainer.times.Wait-waited)
			}
		}
	}
	if done.weight > 0 {
		loss /= done.weight
	}
	return loss, done, nil
}

// nextBatch returns the batch that was prefetched, or else reads it now.
func (r *run) nextBatch(ctx context.Context, info *EpochInfo) nextBatch {
	begin, read := time.Now(), r.trainer.trace.span(trace.Data)
	batch, ok := r.ahead.take()
	if !ok {
		batch = nextOf(ctx, r.cfg.Feed)
	}
	info.Times.Data += time.Since(begin)
	read()
	return batch
}

// moreSteps reports whether, as far as is known, another step follows the next one before the feed
// begins again.
func (r *run) moreSteps() bool {
	return r.division.step+1 < r.cfg.Feed.Steps() && !(r.cfg.MaxSteps > 0 && r.trainer.Steps()+1 >= r.cfg.MaxSteps)
}
