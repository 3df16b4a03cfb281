package tune

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
)

// A Scheduler decides about running trials.
//
// It is a state machine: Started, Reported and Ended are called once for each
// event, in the order of the log, and may change its state. The same events must
// give the same decisions: on resume the events are replayed and the decisions
// compared with the log. A study calls it from one goroutine at a time; one
// Scheduler serves one study. Embed FIFO for methods that are not needed.
type Scheduler interface {
	// Started is called when an attempt of a trial starts: of a new trial, after a
	// pause or an exploit, or as a retry after a failure or a restart of the search
	// (then Trial.Attempts is above 1).
	Started(v View, trial int)
	// Reported decides about a new report that has the metric, with a view that
	// includes it. It is not called if a pruner or an earlier order has decided, or
	// if the value is not finite. rng is derived from the study's seed, the trial, the
	// step and the number of the trial's exploits.
	Reported(v View, trial int, rng *rand.Rand) Decision
	// Ended is called when a trial has become final, whatever the reason; the
	// trial's State says which. One that is Stopped or Failed may be started again
	// when the study is resumed: Started says so.
	Ended(v View, trial int)
	// Next says what a free slot does. It must not change the scheduler's state, since
	// the log does not record how often it is called; Started says what was done.
	Next(v View) TrialChoice
}

// An Action is the decision about a trial at a report.
type Action string

const (
	// Continue lets the trial continue. It is the action of the zero Decision.
	Continue Action = "continue"
	// Stop ends the trial early: it becomes Pruned.
	Stop Action = "stop"
	// Complete ends the trial, which has trained to its end: it becomes Completed.
	Complete Action = "complete"
	// Pause ends the attempt; the trial may continue later from its checkpoint.
	Pause Action = "pause"
	// Exploit ends the attempt; the trial continues at once from the newest checkpoint of
	// Donor, with Params.
	Exploit Action = "exploit"
	// GoOn, in a TrialDecision, continues a paused trial as soon as a slot is free.
	GoOn Action = "go on"
	// Unjudged marks a report that does not have the study's metric.
	Unjudged Action = "unjudged"
)

// A Decision is a Scheduler's answer to a report. All fields but Action, Donor,
// Params and Others explain it.
type Decision struct {
	Action Action
	// Rule names the rule in a few words: "asha rung 3".
	Rule string
	// Rung is the number of the rung or bracket position, from 0, where the rule has one.
	Rung int
	// Value is the value that was compared, and Cutoff the one it was compared with, both
	// as reported, not oriented; NaN: there was none.
	Value, Cutoff float64
	// Competitors are the trials it was compared with.
	Competitors []int
	// Forecast is how the trial is predicted to end, of a rule that predicts it; else nil. It
	// must not be changed later.
	Forecast *Forecast
	// Donor and Params are those of Exploit. Empty Params stand for the donor's.
	Donor  int
	Params Params
	// Others are orders for other trials.
	Others []TrialDecision
}

// Go is the decision to continue, with nothing to explain.
func Go() Decision {
	return Decision{Action: Continue, Value: math.NaN(), Cutoff: math.NaN()}
}

// A TrialDecision is a decision about another trial than the one that reported. A
// running trial receives it as the answer to its next report, which is then not
// judged; for a paused trial it takes effect at once. An order for a trial in a final
// state has no effect; of several orders the last one counts.
type TrialDecision struct {
	Trial int
	// Action is Stop, Complete, Pause (of a running trial), GoOn (of a paused one) or Exploit.
	Action Action
	Rule   string
	// Donor and Params are those of Exploit. A paused trial that exploits continues
	// after a GoOn, or when Next chooses it.
	Donor  int
	Params Params

	// allocated says that the pause is the Allocator's, which has given the trial no replica.
	allocated bool
}

// A TrialChoice is what a free slot does.
type TrialChoice struct {
	Kind ChoiceKind
	// Trial is the paused trial to continue, if Kind is ChoosePaused.
	Trial int
	// Step is the step of the level at which a new trial begins, in a study with a Fidelity.
	// Zero is the lowest level.
	Step int
	// Rule explains it: "promote to rung 2".
	Rule string
}

// A ChoiceKind is the kind of a TrialChoice.
type ChoiceKind uint8

const (
	// ChooseNew starts a new trial. It is the zero TrialChoice. If there are no more new trials
	// it acts as ChooseNone.
	ChooseNew ChoiceKind = iota
	// ChoosePaused continues a paused trial.
	ChoosePaused
	// ChooseNone leaves the slot free until another event. If no trial is running, the
	// study is over.
	ChooseNone
)

// String names the pick.
func (c TrialChoice) String() string {
	switch c.Kind {
	case ChooseNew:
		return "a new trial"
	case ChoosePaused:
		return fmt.Sprintf("trial %d", c.Trial)
	default:
		return "wait"
	}
}

// FIFO lets every trial run to its end, in the order of their numbers. It is the
// default Scheduler, and can be embedded in others.
type FIFO struct{}

// Started implements Scheduler.
func (FIFO) Started(View, int) {}

// Reported implements Scheduler.
func (FIFO) Reported(View, int, *rand.Rand) Decision { return Go() }

// Ended implements Scheduler.
func (FIFO) Ended(View, int) {}

// Next implements Scheduler.
func (FIFO) Next(View) TrialChoice { return TrialChoice{} }

// A Pruner ends trials, or the whole study, by a rule. It is asked after each report
// that has the metric, before the scheduler. It must be a pure function of the view;
// caches are allowed as for a Suggester.
type Pruner interface {
	// Prune says whether the trial that reported, or the whole study, ends here.
	Prune(v View, trial int) StopDecision
}

// A StopDecision is the answer of a Pruner. The zero StopDecision lets trial and study go on.
type StopDecision struct {
	// Trial ends the trial that reported: Complete if it is finished, Stop if it is
	// pruned; "" lets it go on.
	Trial Action
	// StopAll ends the whole study: running trials are stopped.
	StopAll bool
	// Rule says why: "accuracy reached 0.9".
	Rule string
}

// Reason is Rule and, where the decision has a Forecast, what it is from, in words.
func (d *Decision) Reason() string {
	if d.Forecast == nil {
		return d.Rule
	}
	return cmp.Or(d.Rule, "predicted") + ": " + d.Forecast.String()
}
