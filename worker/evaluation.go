package worker

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/paragon-train/paragon/internal/observe/trace"
	"github.com/paragon-train/paragon/kvstore"
)

// evaluate measures the model, and reports the scores.
func (r *run) evaluate(ctx context.Context) (Scores, error) {
	done := r.trainer.trace.span(trace.Evaluate)
	scores, err := r.measure(ctx)
	if e, ok := r.cfg.Evaluator.(*ImageEvaluator); ok && err == nil {
		err = e.checkBad(scores)
	}
	if err == nil {
		err = r.evaluateAverages(ctx, &scores)
	}
	done()
	if err == nil && r.early != nil {
		err = r.early.judge(ctx, r, &scores)
	}
	if err == nil {
		r.trainer.cfg.Store.ReportEvaluation(reported(&scores))
	}
	return scores, err
}

// reported is what the store tells of an evaluation.
func reported(scores *Scores) kvstore.Evaluation {
	e := kvstore.Evaluation{Loss: scores.Loss, Accuracy: scores.Accuracy}
	for _, m := range scores.Metrics {
		e.Others = append(e.Others, kvstore.Score(m))
	}
	return e
}

// measure evaluates what is in the programs now.
func (r *run) measure(ctx context.Context) (Scores, error) {
	if r.tally != nil && r.workers > 1 {
		return r.evaluateDivided(ctx, r.cfg.Evaluator.(DividedEvaluator))
	}
	return r.cfg.Evaluator.Evaluate(ctx)
}

// evaluateOnce is evaluate at the end of an epoch, or the evaluation within it after which the run
// has ended early: nothing was trained since.
func (r *run) evaluateOnce(ctx context.Context, info *EpochInfo) (Scores, error) {
	if n := len(info.Evaluations); n > 0 && info.Evaluations[n-1].Done == r.trainer.Steps() && r.early != nil && r.early.stopped {
		return info.Evaluations[n-1].Scores, nil
	}
	return r.evaluate(ctx)
}

// isBest reports whether the evaluation after this step was the best so far, and early stopping
// keeps the best.
func (r *run) isBest() bool {
	return r.early != nil && r.early.better && r.early.state.Steps == r.trainer.Steps()
}

// beginTally makes the key by which divided evaluations are added up. A worker that joins has it
// before it is ready.
func (r *run) beginTally(ctx context.Context) (err error) {
	if e, ok := r.cfg.Evaluator.(DividedEvaluator); ok && !r.trainer.async() {
		r.tally, err = newTally(ctx, r.trainer, "evaluated", e.Sums())
	}
	return err
}

// evaluationDue reports whether the step that was done last is the first one at or beyond a
// multiple of EvaluateSteps. It is the same on all workers.
func (r *run) evaluationDue() bool {
	every := float64(r.cfg.EvaluateSteps)
	if every == 0 {
		return false
	}
	now := float64(r.trainer.Steps())
	before := now - 1
	if a := r.adapt; a != nil {
		now, before = a.progress.Steps, a.newest.before // now less the gain is not always the same bits
	}
	return math.Floor(now/every) > math.Floor(before/every)
}

// evaluateWithin evaluates in the middle of an epoch. All workers do, after the same step, whose
// time ends here.
func (r *run) evaluateWithin(ctx context.Context, e *epochRun) error {
	if err := r.trainer.Flush(ctx); err != nil {
		return err
	}
	begin := time.Now()
	r.clock.pause(r, &e.info)
	defer r.beginSteps(&e.info)
	v := Evaluation{Step: r.stepOfEpoch(), Done: r.trainer.Steps(), Train: begin.Sub(e.begin) - e.evaluating}
	err := r.trainer.AverageState(ctx)
	if err == nil {
		v.Scores, err = r.evaluate(ctx)
	}
	if err != nil {
		return fmt.Errorf("worker: evaluate after %d steps of epoch %d: %w", v.Step, r.numEpoch(), err)
	}
	v.Time = time.Since(begin)
	e.evaluating += v.Time
	e.from = e.from.Add(v.Time)
	e.info.Evaluations = append(e.info.Evaluations, v)
	for _, o := range r.cfg.Observers {
		if o, ok := o.(EvaluationObserver); ok {
			o.Evaluated(r.numEpoch(), v)
		}
	}
	return nil
}
