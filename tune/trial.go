package tune

import (
	"slices"
	"time"

	"github.com/paragon-train/paragon/tune/internal/checkpoints"
	"github.com/paragon-train/paragon/tune/internal/studydir"
	"github.com/paragon-train/paragon/tune/jobs"
)

// A State is the state of a trial.
type State string

// The states of a trial.
const (
	// Pending is a trial that starts, or continues, as soon as a slot is free.
	Pending State = "pending"
	// Running is a trial with an attempt under way.
	Running State = "running"
	// Paused is a trial that the scheduler has paused, and may continue.
	Paused State = "paused"
	// Completed is a trial that was trained to its end.
	Completed State = "completed"
	// Pruned is a trial that the scheduler or a pruner has stopped early.
	Pruned State = "pruned"
	// Failed is a trial that has failed, with no budget left to try again.
	Failed State = "failed"
	// Stopped is a trial that was stopped with the study.
	Stopped State = "stopped"
)

// Final says whether the trial has ended. A failed trial may still be retried when the
// search is resumed.
func (s State) Final() bool {
	return s == Completed || s == Pruned || s == Failed || s == Stopped
}

// An Origin says where the parameters of a trial are from.
type Origin string

// The origins of parameters.
const (
	// FromElsewhere is a trial that was run elsewhere: see Study.AddTrial.
	FromElsewhere Origin = "elsewhere"
	// FromPoint is one of Config.Points.
	FromPoint Origin = "point"
	// FromDefault are the defaults of the space.
	FromDefault Origin = "default"
	// FromSuggester is a proposal of the Suggester. Axes of the grid take all their values.
	FromSuggester Origin = "suggester"
)

// A Report is one report of a trial.
type Report struct {
	Step int
	// Value is the study's metric as it was reported, the first objective's of several; NaN if
	// the report lacks it, or another metric of the objectives and constraints.
	// View.Score orients it.
	Value   float64
	Metrics Metrics
	// Seq is the number of the report's event in the log.
	Seq uint64
	// Attempt is the attempt that reported.
	Attempt int
	// Elapsed is how long the trial had trained by then, all attempts together.
	Elapsed time.Duration
	// At is how long the study had run by then.
	At time.Duration
	// Action is the decision.
	Action Action
	// Forecast is that of the decision, nil if it has none. It is read-only.
	Forecast *Forecast
}

// A Checkpoint is a folder that a trial saved at a step.
type Checkpoint struct {
	Step int
	// Attempt is the attempt that saved it.
	Attempt int
	Bytes   int64
}

// A Change is an exploit: the trial continued from another trial's checkpoint.
type Change struct {
	// Step is the trial's own step at which it was decided; -1: before its first report.
	Step int
	// Donor is the trial whose checkpoint it took, and DonorStep the checkpoint's step.
	Donor, DonorStep int
	// Before are the parameters until then.
	Before Params
}

// A Trial is one setting tried. A Trial of a View is read-only, and valid until the
// call the view was passed to returns; Clone makes a copy that remains valid.
type Trial struct {
	Number int
	Params Params
	Origin Origin
	State  State
	// Seed is the trial's own, derived from the study's seed and the number: with
	// it training can be repeated.
	Seed uint64
	// Reports are in order of increasing step.
	Reports []Report
	// Best is the index in Reports of the best finite value, the earliest of
	// equals, or -1. Feasible reports come before those that violate constraints.
	Best int
	// Rule says by which rule the trial was stopped or paused; "" if by none.
	Rule string
	// Error and Failure are those of the newest failed attempt.
	Error   string
	Failure Failure
	// Failures counts failed attempts by class.
	Failures map[Failure]int
	// Attempts is how many times the trial was started, from 1.
	Attempts int
	// Changes are the exploits of population-based training, in order.
	Changes []Change
	// Checkpoints are the saved ones, in order of increasing step.
	Checkpoints []Checkpoint
	// Location says where the newest attempt runs or ran.
	Location string
	// Placement is which replicas the newest attempt has or had, where an Allocator
	// decides that, and Training what its job last said of its training.
	Placement jobs.Placement
	Training  Training
	// StartedAt and EndedAt are on the study's clock; EndedAt is 0 until the trial
	// is final.
	StartedAt, EndedAt time.Duration
	// Elapsed is how long the trial has trained, up to the newest event of it.
	Elapsed time.Duration

	run runState
}

// Training is what an elastic job says of its training. The zero Training: nothing yet.
type Training struct {
	// GlobalBatch is the examples of a step; LocalBatch those of a replica at once, of which it
	// adds up Accumulation.
	GlobalBatch, LocalBatch, Accumulation int
	// Goodput and Throughput are examples a second; Goodput counts those that a step of the
	// initial batch needs for the same progress.
	Goodput, Throughput float64
	// Gain is the progress of a step in steps of the initial batch, NoiseScale the gradients'
	// noise scale in examples.
	Gain, NoiseScale float64
}

// Name is the trial's name in messages and folders: trial-000007.
func (t *Trial) Name() string { return studydir.TrialName(t.Number) }

// Clone returns a copy that never changes.
func (t *Trial) Clone() Trial {
	c := *t
	c.Reports = slices.Clone(t.Reports)
	c.Changes = slices.Clone(t.Changes)
	c.Placement = slices.Clone(t.Placement)
	c.Checkpoints = slices.Clone(t.Checkpoints)
	if t.Failures != nil {
		c.Failures = make(map[Failure]int, len(t.Failures))
		for class, n := range t.Failures {
			c.Failures[class] = n
		}
	}
	c.run = runState{}
	return c
}

// Last returns the newest report that has the study's metric, and whether there is one.
func (t *Trial) Last() (Report, bool) {
	for i := len(t.Reports) - 1; i >= 0; i-- {
		if t.Reports[i].judged() {
			return t.Reports[i], true
		}
	}
	return Report{}, false
}

// judged says whether the report has the study's metric.
func (r Report) judged() bool { return r.Action != Unjudged }

// AtStep returns the report of a step, and whether there is one.
func (t *Trial) AtStep(step int) (Report, bool) {
	i, ok := t.find(step)
	if !ok {
		return Report{}, false
	}
	return t.Reports[i], true
}

// find is the index of a step's report, or the one at which it would be.
func (t *Trial) find(step int) (int, bool) {
	return slices.BinarySearchFunc(t.Reports, step, func(r Report, step int) int { return r.Step - step })
}

// LastStep returns the step of the newest report. ok is false before the first report: training
// then begins at the program's own first step, not after step 0.
func (t *Trial) LastStep() (step int, ok bool) {
	if len(t.Reports) == 0 {
		return 0, false
	}
	return t.Reports[len(t.Reports)-1].Step, true
}

// Step returns the step of the newest report, or -1 before the first.
//
// Deprecated: Step()+1 looks like the step to train next, and is 0 before the first report: a
// program that counts its steps from 1 silently trains one more. Use LastStep, which says whether
// there was a report.
func (t *Trial) Step() int {
	if step, ok := t.LastStep(); ok {
		return step
	}
	return -1
}

// name is the checkpoint's among those of all trials.
func (c Checkpoint) name(trial int) checkpoints.Name {
	return checkpoints.Name{Trial: trial, Step: c.Step, Attempt: c.Attempt}
}

// saved is the checkpoint among those of all trials.
func (c Checkpoint) saved(trial int) checkpoints.Saved {
	return checkpoints.Saved{Name: c.name(trial), Bytes: c.Bytes}
}

// Forecast returns the newest forecast of how the trial ends. nil: there is none, or it has trained
// to its end.
func (t *Trial) Forecast() *Forecast {
	if t.State == Completed {
		return nil
	}
	for i := len(t.Reports) - 1; i >= 0; i-- {
		if f := t.Reports[i].Forecast; f != nil {
			return f
		}
	}
	return nil
}

// Reason is Rule and, where the trial was stopped by a forecast, what that was, in words.
func (t *Trial) Reason() string {
	if n := len(t.Reports); n > 0 && t.State == Pruned {
		if r := t.Reports[n-1]; r.Action == Stop {
			return (&Decision{Rule: t.Rule, Forecast: r.Forecast}).Reason()
		}
	}
	return t.Rule
}
