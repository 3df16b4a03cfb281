package worker

import (
	"context"
	"fmt"

	"github.com/paragon-train/paragon/internal/observe/joblog"
)

// An adapting run goes through passes over the data, which scheduler and sampler call epochs, and
// through epochs of progress, which users see. Without Adapt the two are the same.

// numEpoch is the current epoch.
func (r *run) numEpoch() int {
	if r.adapt != nil {
		return r.adapt.epochs.finished
	}
	return r.division.pass
}

// stepOfEpoch is the next step within the epoch.
func (r *run) stepOfEpoch() int {
	if r.adapt != nil {
		return r.adapt.epochs.step
	}
	return r.division.stepOfPass()
}

// stepsOfEpoch is how many steps the epoch has, as far as is known.
func (r *run) stepsOfEpoch() int {
	if r.adapt != nil {
		return r.adapt.stepsOfEpoch(r.division.seat.workers)
	}
	return r.division.before + r.cfg.Feed.Steps()
}

// epochOver reports whether all steps of the epoch are done.
func (r *run) epochOver() bool {
	if r.adapt != nil {
		return r.adapt.epochDone()
	}
	return r.division.over()
}

// beginAdapting begins with a state that a checkpoint had; nil: anew. joined: it is that of workers
// that run, whose batch fits already.
func (r *run) beginAdapting(ctx context.Context, state *adaptState, joined bool) error {
	workers := r.store.NumWorkers()
	a, err := newAdaptation(r.cfg.Adapt, r.trainer, r.cfg.Feed.(BatchFeed), workers, state)
	if err != nil {
		return err
	}
	if state != nil {
		r.division.segments = state.Segments
	}
	if !joined {
		a.fitTo(workers)
		if err := a.agreeAtStart(ctx, r.store); err != nil {
			return err
		}
	}
	a.beginBatch(r.trainer.Steps())
	r.trainer.follow(a)
	r.adapt, r.division.state = a, feedOutdated
	return nil
}

// resize changes the batch, if all workers have agreed on that after the step, or the configuration
// says so.
func (r *run) resize(e *epochRun, agreed verdict) (resized bool, err error) {
	a := r.adapt
	if a == nil {
		return false, nil
	}
	to, ok := a.resizeTo(r.trainer.Steps(), agreed)
	if !ok {
		return false, nil
	}
	if err := to.check(); err != nil {
		return false, fmt.Errorf("worker: epoch %d step %d: agree on a batch: %w", r.numEpoch(), r.stepOfEpoch(), err)
	}
	r.closeSpan(e)
	before := a.batch
	a.take(to)
	i := a.info(r.division.seat.workers)
	r.logger.Info("the batch changes", "steps", r.trainer.Steps(), "from", before.String(), "to", to.String(), "local batch", to.LocalBatch, "accumulation", to.Accumulation,
		"global", i.Batch, "scale", i.Scale, "gain", i.Gain, "noise scale", i.NoiseScale, joblog.BatchChanged.With())
	e.openSpan(r.newSpan())
	return true, a.feed.Resize(r.division.step, to.perStep())
}

// measureSteps adds what was measured of the newest step, whose exchanges have all returned.
func (r *run) measureSteps() {
	if r.adapt != nil {
		r.adapt.scaling.measure(r.trainer.Steps())
	}
}
