package worker

import (
	"context"
	"fmt"
	"time"
)

// runDivision trains until there is a reason to do something else than steps: the ending.
func (r *run) runDivision(ctx context.Context, e *epochRun) (ending, error) {
	if err := r.openDivision(ctx, e); err != nil {
		return notEnded, err
	}
	e.openSpan(r.epochs.span())
	r.beginSteps(&e.info)
	defer func() { r.clock.pause(r.timesOf(&e.info)) }()
	if r.owed.evaluate {
		r.owed.evaluate = false
		if err := r.evaluateWithin(ctx, e); err != nil {
			return notEnded, err
		}
	}
	for r.moreToDo() {
		agreed, err := r.runStep(ctx, e)
		if err != nil {
			return notEnded, err
		}
		if how, err := r.afterStep(ctx, e, agreed); err != nil || how != notEnded {
			return how, err
		}
	}
	return r.closeDivision(ctx, e)
}

// openDivision prepares the feed and the programs for the division's steps. A change may have come
// when a checkpoint was due: then it is written here.
func (r *run) openDivision(ctx context.Context, e *epochRun) error {
	r.ahead.drop()
	if err := r.epochs.divide(); err != nil {
		return err
	}
	if r.adapt != nil {
		if err := r.adapt.begin(); err != nil {
			return err
		}
	}
	if err := r.division.checkShortRuns(r.trainer.devices.programs); err != nil {
		return err
	}
	d := r.division
	if d.over() || r.epochs.over() {
		return nil
	}
	if len(d.cuts) > 0 && d.step == 0 && r.saver.schedule.due(r.trainer.Steps()) {
		if err := r.save(ctx, e); err != nil {
			return err
		}
	}
	r.bad.pass(d.pass)
	return r.cfg.Feed.Begin(ctx, d.pass, d.step)
}

// moreToDo reports whether the division has a step to come.
func (r *run) moreToDo() bool { return !r.division.over() && !r.finished() && !r.epochs.over() }

// afterStep does what all have agreed on after a step, and what is due after it.
func (r *run) afterStep(ctx context.Context, e *epochRun, agreed verdict) (ending, error) {
	if err := r.heed(agreed); err != nil {
		return notEnded, err
	}
	if agreed.change {
		if err := r.boundary(ctx, e); err != nil {
			return notEnded, err
		}
	}
	switch {
	case agreed.stop != goingOn:
		return stopAgreed, nil
	case agreed.change:
		return membersChanged, nil
	}
	resized, err := r.resize(e, agreed)
	if err != nil {
		return notEnded, err
	}
	// The last step is left to the epoch's end, which saves the averaged statistics.
	if r.epochs.over() {
		return notEnded, nil
	}
	how, err := r.afterSteps(ctx, e, agreed.save || r.saver.schedule.due(r.trainer.Steps()), r.evaluationDue())
	if err == nil && how == notEnded && resized {
		how = batchChanged
	}
	return how, err
}

// heed counts the step that was agreed on, and lets the parts act on it.
func (r *run) heed(agreed verdict) error {
	d := r.division
	d.step++
	if r.members.elastic != nil {
		r.members.elastic.Progress(r.trainer.Steps(), uint64(r.epochs.number()))
	}
	r.stop = agreed.stop
	if err := r.saver.heard(agreed); err != nil {
		return err
	}
	if err := r.bad.heard(agreed, d.seat.workers); err != nil {
		return fmt.Errorf("worker: epoch %d step %d: %w", d.pass, d.stepOfPass()-1, err)
	}
	return nil
}

// afterSteps evaluates and saves in the middle of an epoch, once all workers are known to have done
// the step. A new best model is saved, too.
func (r *run) afterSteps(ctx context.Context, e *epochRun, save, evaluate bool) (ending, error) {
	if !save && !evaluate {
		return notEnded, nil
	}
	if changed, err := r.callRoll(ctx, e); err != nil {
		return notEnded, err
	} else if changed {
		return membersChanged, nil
	}
	if evaluate {
		if err := r.evaluateWithin(ctx, e); err != nil {
			return notEnded, err
		}
	}
	if save || evaluate && r.evaluations.isBest(r.trainer.Steps()) {
		return notEnded, r.save(ctx, e)
	}
	return notEnded, nil
}

// closeDivision ends the division's last round, finds out whether all workers have got through it,
// and says what comes next. The epoch's last step may have had no effect: then the epoch goes on.
func (r *run) closeDivision(ctx context.Context, e *epochRun) (ending, error) {
	if err := r.trainer.Sync(ctx); err != nil {
		return notEnded, err
	}
	if a := r.adapt; a != nil {
		r.epochs.measure(r.trainer.Steps())
		if err := a.scaling.checkEffect(a.epochs.finished); err != nil {
			return notEnded, err
		}
	}
	if r.division.divided != nil {
		if changed, err := r.callRoll(ctx, e); err != nil {
			return notEnded, err
		} else if changed && !r.finished() {
			return membersChanged, nil
		} else if changed {
			return runEnded, nil
		}
	}
	r.closeSpan(e)
	switch {
	case r.finished():
		return runEnded, nil
	case r.epochs.over():
		return epochEnded, nil
	case r.division.over():
		return passEnded, nil
	}
	return notEnded, nil
}

// evaluateWithin evaluates in the middle of an epoch. All workers do, after the same step, whose
// time ends here.
func (r *run) evaluateWithin(ctx context.Context, e *epochRun) error {
	if err := r.trainer.Flush(ctx); err != nil {
		return err
	}
	begin := time.Now()
	r.clock.pause(r.timesOf(&e.info))
	defer r.beginSteps(&e.info)
	v := Evaluation{Step: r.epochs.step(), Done: r.trainer.Steps(), Train: begin.Sub(e.begin) - e.evaluating}
	err := r.trainer.AverageState(ctx)
	if err == nil {
		v.Scores, err = r.evaluations.run(ctx, r.division.seat, r.trainer.Steps())
	}
	if err != nil {
		return fmt.Errorf("worker: evaluate after %d steps of epoch %d: %w", v.Step, r.epochs.number(), err)
	}
	v.Time = time.Since(begin)
	e.evaluated(v)
	r.observers.evaluated(r.epochs.number(), v)
	return nil
}

// evaluationDue reports whether the step that was done last is the first one at or beyond a
// multiple of EvaluateSteps, of progress with Adapt. It is the same on all workers.
func (r *run) evaluationDue() bool {
	return r.evaluations.due(r.epochs.progressed(r.trainer.Steps()))
}

// save begins a checkpoint of this step.
func (r *run) save(ctx context.Context, e *epochRun) error {
	if err := r.settle(ctx); err != nil {
		return err
	}
	at := r.position()
	at.loss = e.mean
	return r.saver.save(ctx, at)
}
