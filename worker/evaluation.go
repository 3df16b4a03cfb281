package worker

import (
	"context"
	"math"
	"slices"

	"github.com/paragon-train/paragon/internal/observe/trace"
	"github.com/paragon-train/paragon/kvstore"
	"github.com/paragon-train/paragon/metrics"
)

// evaluations measure the model for a run, at the end of epochs and within them, and follow how
// good it has become. All workers evaluate after the same step and get the same scores.
type evaluations struct {
	evaluator Evaluator
	// every is FitConfig.EvaluateSteps.
	every   int
	devices *devices
	trace   *stepTrace
	// report tells the store of scores.
	report func(kvstore.Evaluation)

	// tally adds up what the workers found; nil: evaluations are not divided.
	tally *tally
	// early is nil where the run ends as configured.
	early *earlyStop
	// averages are measured too; nil: none are kept.
	averages *averages
}

// run evaluates the model after so many steps, and reports the scores.
func (v *evaluations) run(ctx context.Context, at seat, steps uint64) (Scores, error) {
	scores, err := v.measureAll(ctx, at)
	if err != nil {
		return scores, err
	}
	if v.early != nil {
		if err := v.early.judge(ctx, at, steps, &scores, v.devices.modelArrays(0)); err != nil {
			return scores, err
		}
	}
	v.report(reported(&scores))
	return scores, nil
}

// measureAll measures the parameters and their averages.
func (v *evaluations) measureAll(ctx context.Context, at seat) (Scores, error) {
	defer v.trace.span(trace.Evaluate)()
	scores, err := v.measure(ctx, at)
	if err != nil {
		return scores, err
	}
	if e, ok := v.evaluator.(*ImageEvaluator); ok {
		if err := e.checkBad(scores); err != nil {
			return scores, err
		}
	}
	if v.averages == nil {
		return scores, nil
	}
	v.averages.swap(v.devices.own)
	averaged, err := v.measure(ctx, at)
	v.averages.swap(v.devices.own)
	if err == nil {
		scores.addAverages(&averaged)
	}
	return scores, err
}

// measure evaluates what is in the programs now.
func (v *evaluations) measure(ctx context.Context, at seat) (Scores, error) {
	if v.tally != nil && at.workers > 1 {
		return evaluateDivided(ctx, v.evaluator.(DividedEvaluator), v.tally, at)
	}
	return v.evaluator.Evaluate(ctx)
}

// due reports whether an evaluation within an epoch falls between two numbers of steps, or of
// progress: on a multiple of every above the first, up to the second.
func (v *evaluations) due(before, now float64) bool {
	if v.every == 0 {
		return false
	}
	every := float64(v.every)
	return math.Floor(now/every) > math.Floor(before/every)
}

// stopped reports whether the run ends early.
func (v *evaluations) stopped() bool { return v.early != nil && v.early.stopped }

// isBest reports whether the evaluation after so many steps was the best so far, and early stopping
// keeps the best.
func (v *evaluations) isBest(steps uint64) bool {
	return v.early != nil && v.early.better && v.early.state.Steps == steps
}

// reported is what the store tells of an evaluation.
func reported(scores *Scores) kvstore.Evaluation {
	e := kvstore.Evaluation{Loss: scores.Loss, Accuracy: scores.Accuracy}
	for _, m := range scores.Metrics {
		e.Others = append(e.Others, kvstore.Score(m))
	}
	return e
}

// addAverages adds the scores of the averages of weights to those of the parameters.
func (s *Scores) addAverages(averaged *Scores) {
	add := func(name string, value float64) {
		s.Metrics = append(s.Metrics, metrics.Measured{Name: "ema_" + name, Value: value})
	}
	// The evaluator may keep the list that it gave.
	s.Metrics = slices.Clip(s.Metrics)
	add("loss", averaged.Loss)
	if !math.IsNaN(averaged.Accuracy) {
		add("accuracy", averaged.Accuracy)
	}
	for _, m := range averaged.Metrics {
		add(m.Name, m.Value)
	}
}
