package worker

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/paragon-train/paragon/internal/observe/trace"
)

// runStep does one step and tells the observers.
func (r *run) runStep(ctx context.Context, e *epochRun) (agreed verdict, err error) {
	select {
	case <-r.cfg.Stop:
		r.stop.ask()
	default:
	}
	if r.leave.needed.Load() {
		r.stop.ask()
	}
	step := r.trainer.Steps()
	r.trainer.hooks.weighed = func() { r.stop.begin(ctx, step) }
	info := &e.info
	defer func() { info.Times.Data += r.ahead.end() }()
	meet := !r.trainer.roundEnds() && r.step+1 == r.cfg.Feed.Steps()
	begin := r.planStep()
	loss, done, err := r.runMicroBatches(ctx, info)
	examples := done.examples
	if err != nil {
		return agreed, err
	}
	if r.adapt != nil {
		r.adapt.stepped()
		info.Batches = append(info.Batches, r.adapt.global)
	}
	if meet { // with local steps, all agree at the end of a division although no round ends
		if err := r.trainer.weighLocal(ctx); err != nil {
			return agreed, err
		}
		r.stop.begin(ctx, step)
	}
	if finite := !math.IsNaN(loss) && !math.IsInf(loss, 0); !finite && done.weight > 0 && !r.diverged {
		r.diverged = true
		r.trainer.cfg.Logger.Warn("the loss is not finite, so training has diverged or an example is bad; try a lower learning rate or gradient clipping, or kvstore.WithGuard, "+
			"which keeps single bad gradients out (logged once)", "loss", loss, "epoch", r.numEpoch(), "steps", r.trainer.Steps(), "rank", r.rank)
	}
	told := r.stepInfo(info, loss, examples)
	r.report(told)
	for _, o := range r.cfg.Observers {
		o.Step(told)
	}
	if done.weight > 0 {
		e.mean.Add(loss, done.weight)
	}
	info.Examples += examples
	info.Losses = append(info.Losses, loss)
	r.used += examples
	e.span.Steps++
	e.span.Examples += examples
	waiting := time.Now()
	agreed, err = r.stop.end()
	info.Times.Wait += time.Since(waiting)
	if t := &r.trainer.trace; t.on() {
		t.waited(t.recorder.At(waiting), "")
	}
	if r.adapt != nil && err == nil {
		err = r.adapt.timed(begin, r.examplesOfStep(), r.trainer.cfg.Store)
	}
	return agreed, err
}

// runMicroBatches does the runs of one step, one for each micro-batch, and returns the mean loss
// over their labels or examples.
func (r *run) runMicroBatches(ctx context.Context, info *EpochInfo) (loss float64, done amount, err error) {
	want := r.examplesOfStep()
	for last := false; !last; {
		runBegin, waited := r.runBegin()
		begin, read := time.Now(), r.trainer.trace.span(trace.Data)
		batch, ok := r.ahead.take()
		if !ok {
			batch = nextOf(ctx, r.cfg.Feed)
		}
		info.Times.Data += time.Since(begin)
		read()
		if batch.err != nil {
			return 0, done, fmt.Errorf("worker: epoch %d step %d: next batch: %w", r.epoch, r.before+r.step, batch.err)
		}
		r.bad.leaveOut(batch.bad, r.epoch)
		n := 0
		for _, count := range batch.counts {
			n += count
		}
		if n == 0 && want > 0 {
			return 0, done, fmt.Errorf("worker: epoch %d step %d: next batch: feed %T returned none of the %d examples that are left of the step", r.epoch, r.before+r.step, r.cfg.Feed, want)
		}
		want -= n
		last = want <= 0
		r.trainer.hooks.gradient = nil
		if !last || r.moreSteps() {
			r.trainer.hooks.gradient = func() { r.ahead.begin(ctx) }
		}
		if last {
			err = r.trainer.Step(ctx, batch.counts)
		} else {
			err = r.trainer.Accumulate(ctx, batch.counts)
		}
		if err != nil {
			return 0, done, err
		}
		sum, weight := r.trainer.devices.loss()
		loss += sum
		done = done.plus(amount{n, weight})
		if !last {
			info.Times.Data += r.ahead.end()
			r.runEnd(runBegin, waited)
		}
	}
	if done.weight > 0 {
		loss /= done.weight
	}
	return loss, done, nil
}

// examplesOfStep is how many examples of this worker's share the next step uses, where the feed may
// bring them in several runs; 0: in one.
func (r *run) examplesOfStep() int {
	feed, ok := r.cfg.Feed.(BatchFeed)
	if !ok {
		return 0
	}
	return feed.Used(r.rank, r.step+1) - feed.Used(r.rank, r.step)
}

// moreSteps reports whether, as far as is known, another step follows the next one before the feed
// begins again.
func (r *run) moreSteps() bool {
	return r.step+1 < r.cfg.Feed.Steps() && !(r.cfg.MaxSteps > 0 && r.trainer.Steps()+1 >= r.cfg.MaxSteps)
}
