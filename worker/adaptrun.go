package worker

import (
	"context"
	"fmt"

	"github.com/paragon-train/paragon/internal/observe/joblog"
)

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
	r.trainer.setPlan(a)
	r.adapt, r.epochs.adapt, r.division.state = a, a, feedOutdated
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
		return false, fmt.Errorf("worker: epoch %d step %d: agree on a batch: %w", r.epochs.number(), r.epochs.step(), err)
	}
	r.closeSpan(e)
	before := a.batch
	a.take(to)
	i := a.info(r.division.seat.workers)
	r.logger.Info("the batch changes", "steps", r.trainer.Steps(), "from", before.String(), "to", to.String(), "local batch", to.LocalBatch, "accumulation", to.Accumulation,
		"global", i.Batch, "scale", i.Scale, "gain", i.Gain, "noise scale", i.NoiseScale, joblog.BatchChanged.With())
	e.openSpan(r.epochs.span())
	return true, a.feed.Resize(r.division.step, to.perStep())
}
