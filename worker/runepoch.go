package worker

import (
	"context"
	"fmt"
	"time"

	"github.com/paragon-train/paragon/metrics"
)

// runEpoch trains what is left of the epoch, averages the running statistics, evaluates and saves.
func (r *run) runEpoch(ctx context.Context) error {
	e := &epochRun{info: EpochInfo{Epoch: r.epochs.number(), First: r.epochs.step()}, mean: r.owed.loss}
	r.owed.loss, r.owed.endEpoch = metrics.Mean{}, false
	// Where this worker joined when all had agreed to stop, it stops with them.
	if r.stop != goingOn {
		return r.stopNow(ctx, e, r.agreement.known())
	}
	if r.division.divided == nil {
		if err := r.changeBetweenEpochs(ctx); err != nil {
			return err
		}
	}
	r.saver.spent = 0
	e.begin = time.Now()
	how, err := r.trainEpoch(ctx, e)
	switch {
	case err != nil:
		return err
	case how == stopAgreed:
		return r.stopNow(ctx, e, r.stop)
	}
	if r.division.over() || r.finished() || r.epochs.number()+1 >= r.cfg.Epochs {
		r.division.tellAllUsed()
	}
	if err := r.trainer.AverageState(ctx); err != nil {
		return err
	}
	r.sumUp(e)
	if err := r.evaluateEpoch(ctx, &e.info); err != nil {
		return err
	}
	r.done = append(r.done, e.info)
	r.observers.epoch(e.info)
	if err := r.settle(ctx); err != nil {
		return err
	}
	return r.saver.afterEpoch(ctx, r.position(), r.epochs.number()+1, r.evaluations.isBest(r.trainer.Steps()))
}

// trainEpoch goes through the divisions of the epoch.
func (r *run) trainEpoch(ctx context.Context, e *epochRun) (ending, error) {
	for {
		how, err := r.runDivision(ctx, e)
		if err != nil || !how.goesOn() {
			return how, err
		}
		if how == passEnded {
			r.division.tellAllUsed()
			r.epochs.nextPass()
		}
	}
}

// sumUp fills in what the epoch's training was.
func (r *run) sumUp(e *epochRun) {
	info := &e.info
	info.Times.Add(r.trainer.TakeTimes())
	info.Staleness, info.Caught = r.trainer.TakeStaleness(), r.trainer.TakeCaught()
	info.Times.Save, info.Train = r.saver.spent, time.Since(e.begin)-e.evaluating
	info.Loss, info.Done, info.Bad = e.mean.Value(), r.trainer.Steps(), r.bad.count()
	if r.adapt != nil {
		info.Adapt = r.adapt.epochInfo(r.division.seat.workers, info.Train)
	}
}

// evaluateEpoch evaluates at the end of an epoch. Where an evaluation within it has ended the run
// early, that is the epoch's: nothing was trained since.
func (r *run) evaluateEpoch(ctx context.Context, info *EpochInfo) error {
	if r.cfg.Evaluator == nil {
		return nil
	}
	begin := time.Now()
	var scores Scores
	if n := len(info.Evaluations); n > 0 && info.Evaluations[n-1].Done == r.trainer.Steps() && r.evaluations.stopped() {
		scores = info.Evaluations[n-1].Scores
	} else {
		var err error
		if scores, err = r.evaluations.run(ctx, r.division.seat, r.trainer.Steps()); err != nil {
			return fmt.Errorf("worker: evaluate after epoch %d: %w", r.epochs.number(), err)
		}
	}
	info.Test, info.TestTime = &scores, time.Since(begin)
	return nil
}
