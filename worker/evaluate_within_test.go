package worker_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/paragon-train/paragon/kvstore"
	"github.com/paragon-train/paragon/worker"
)

// An evaluationLog is an observer that notes evaluations within epochs.
type evaluationLog struct{ seen []string }

func (l *evaluationLog) Begin(worker.Run)       {}
func (l *evaluationLog) Step(worker.StepInfo)   {}
func (l *evaluationLog) Epoch(worker.EpochInfo) {}
func (l *evaluationLog) End()                   {}
func (l *evaluationLog) Evaluated(epoch int, e worker.Evaluation) {
	l.seen = append(l.seen, fmt.Sprintf("%d.%d %d", epoch, e.Step, e.Done))
}

// Evaluations come after every so many steps of the job, but for the last step of an epoch, whose
// end evaluates anyway; with Adapt by progress. They change nothing of the training.
func TestEvaluationsWithinEpochs(t *testing.T) {
	for name, c := range map[string]struct {
		adapt bool
		want  []string // epoch.step, steps of the job
	}{
		"fixed": {false, []string{"0.5 5", "1.2 10", "1.7 15", "2.4 20"}},
		// Scale-invariant steps: 1 each up to step 3, then those of the batches that were
		// decided; an epoch has 7.5.
		"adaptive": {true, nil},
	} {
		run := func(every int) (*fitRig, []worker.EpochInfo, []string) {
			r, l := newRig(t, rigConfig{}), &evaluationLog{}
			if c.adapt {
				decided(r)
			}
			r.cfg.EvaluateSteps, r.cfg.Observers = every, []worker.Observer{l}
			epochs, err := worker.Fit(t.Context(), r.cfg)
			if err != nil {
				t.Fatal(err)
			}
			return r, epochs, l.seen
		}
		r, epochs, seen := run(5)
		plain, _, none := run(0)
		if i := firstDifference(r.values(), plain.values()); i >= 0 || len(none) > 0 {
			t.Errorf("%s: value %d differs from a run without evaluations, which has %v", name, i, none)
		}
		if c.want != nil && !slices.Equal(seen, c.want) {
			t.Errorf("%s: evaluations after %v, want %v", name, seen, c.want)
		}
		if c.adapt && len(seen) < 3 || len(seen) > 4 {
			t.Errorf("%s: evaluations after %v, want one in each 5 of the 22.5 initial steps but at the ends of the epochs", name, seen)
		}
		var again []string
		for _, e := range epochs {
			for _, v := range e.Evaluations {
				again = append(again, fmt.Sprintf("%d.%d %d", e.Epoch, v.Step, v.Done))
				if v.Scores.Examples != e.Test.Examples || v.Train <= 0 || v.Train > e.Train {
					t.Errorf("%s: epoch %d: %+v, want the scores of %d examples, within the %v of training", name, e.Epoch, v, e.Test.Examples, e.Train)
				}
			}
		}
		if !slices.Equal(again, seen) {
			t.Errorf("%s: the epochs have %v, the observer %v", name, again, seen)
		}
	}
}

// A countedStore counts the steps and evaluations that are reported.
type countedStore struct {
	kvstore.Store
	steps, evaluations *int
}

func (s countedStore) ReportStep(r kvstore.StepReport) {
	*s.steps++
	s.Store.ReportStep(r)
}

func (s countedStore) ReportEvaluation(e kvstore.Evaluation) {
	*s.evaluations++
	s.Store.ReportEvaluation(e)
}

// Before an evaluation the step is reported, so that its time does not have that of the evaluation.
func TestEvaluationsAreNotInTheTimeOfSteps(t *testing.T) {
	var steps, evaluations int
	var reported []int
	r := newRig(t, rigConfig{store: countedStore{newStore(t, "device"), &steps, &evaluations}})
	r.cfg.Epochs, r.cfg.EvaluateSteps = 2, 3
	r.cfg.Evaluator = evaluatorFunc(func(context.Context) { reported = append(reported, steps) })
	if _, err := worker.Fit(t.Context(), r.cfg); err != nil {
		t.Fatal(err)
	}
	if want := []int{3, 6, 8, 9, 12, 15, 16}; !slices.Equal(reported, want) || evaluations != len(want) {
		t.Errorf("evaluations, of which %d were reported, after the reports of %v steps, want %v", evaluations, reported, want)
	}
}

// A stopwatch is an observer that takes the time from the begin of a run to the end of its newest
// epoch.
type stopwatch struct {
	begin       time.Time
	whole, took time.Duration // took: of the steps
}

func (s *stopwatch) Begin(worker.Run)       { s.begin = time.Now() }
func (s *stopwatch) Step(i worker.StepInfo) { s.took += i.Took }
func (s *stopwatch) Epoch(worker.EpochInfo) { s.whole = time.Since(s.begin) }
func (s *stopwatch) End()                   {}

// The times of epochs, of their spans and of steps leave evaluations out: with those of the
// evaluations they are at most the time of all.
func TestTimesOfTrainingLeaveEvaluationsOut(t *testing.T) {
	r, watch := newRig(t, rigConfig{}), new(stopwatch)
	r.cfg.Epochs, r.cfg.EvaluateSteps, r.cfg.Observers = 2, 2, []worker.Observer{watch}
	r.cfg.Evaluator = evaluatorFunc(func(context.Context) {
		for begin := time.Now(); time.Since(begin) < 2*time.Millisecond; { // it computes
		}
	})
	epochs, err := worker.Fit(t.Context(), r.cfg)
	if err != nil {
		t.Fatal(err)
	}
	var train, spans, evaluations time.Duration
	for _, e := range epochs {
		train, evaluations = train+e.Train, evaluations+e.TestTime
		for _, s := range e.Spans {
			spans += s.Train
		}
		for _, v := range e.Evaluations {
			evaluations += v.Time
		}
	}
	if evaluations < 8*2*time.Millisecond {
		t.Errorf("evaluations took %v, want at least 8 of 2 ms", evaluations)
	}
	for what, took := range map[string]time.Duration{"epochs": train, "spans": spans, "steps": watch.took} {
		if took <= 0 || took+evaluations > watch.whole {
			t.Errorf("%s took %v and evaluations %v, want together at most the %v of all", what, took, evaluations, watch.whole)
		}
	}
}

func TestEvaluateStepsIsCheckedByName(t *testing.T) {
	for want, c := range map[string]struct {
		rig    rigConfig
		change func(c *worker.FitConfig)
	}{
		"EvaluateSteps is -1, want at least 1":             {rigConfig{}, func(c *worker.FitConfig) { c.EvaluateSteps = -1 }},
		"EvaluateSteps is 5 without an Evaluator":          {rigConfig{}, func(c *worker.FitConfig) { c.Evaluator = nil }},
		"EvaluateSteps is 5 with store dist_async, want 0": {rigConfig{store: newStore(t, "dist_async")}, nil},
		"EvaluateSteps is 5 with a store of 2 local steps": {rigConfig{local: 2}, nil},
	} {
		r := newRig(t, c.rig)
		r.cfg.EvaluateSteps = 5
		if c.change != nil {
			c.change(&r.cfg)
		}
		if _, err := worker.Fit(t.Context(), r.cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got error %v, want one with %q", err, want)
		}
	}
}
