package tune

import (
	"fmt"
	"math"
	"math/rand/v2"
)

// A Scheduler decides about running trials.
//
// It is a state machine: Started, Reported and Ended are called once for each
// event, in the order of the log, and may change its state. The same events give
// the same decisions: on resume they are fed to it again and compared with the
// log. A study calls it from one goroutine at a time; one Scheduler serves one study.
// FIFO can be embedded for the methods that one does not need.
type Scheduler interface {
	// Started is called when an attempt of a trial starts: a new trial, one that
	// goes on after a pause or an exploit, or one tried again after a failure or a
	// restart of the search (then Trial.Attempts is above 1).
	Started(v View, trial int)
	// Reported decides about a new report that has the metric, with a view that
	// includes it. It is not called for a report that is answered by a pruner, by an
	// order given before, or by its value not being finite. rng is derived from the
	// study's seed, the trial, the step and how often the trial has exploited.
	Reported(v View, trial int, rng *rand.Rand) Decision
	// Ended is called when a trial has become final, whatever the reason; the
	// trial's State says which. One that is Stopped or Failed may be started again
	// when the study is resumed: Started says so.
	Ended(v View, trial int)
	// Next says what a free slot does. It must not change the scheduler's state, for
	// how often it is asked is not in the log; Started tells what was done.
	Next(v View) Pick
}

// An Action is what is decided about a trial at a report.
type Action string

const (
	// Continue lets the trial go on. It is what the zero Decision means.
	Continue Action = "continue"
	// Stop ends the trial early: it becomes Pruned.
	Stop Action = "stop"
	// Complete ends the trial since it has all it was to get: it becomes Completed.
	Complete Action = "complete"
	// Pause ends the attempt and keeps the trial, to go on later from its checkpoint.
	Pause Action = "pause"
	// Exploit ends the attempt; the trial goes on at once from the newest checkpoint of
	// Donor, with Params.
	Exploit Action = "exploit"
	// GoOn, in an Order, lets a paused trial go on as soon as a slot is free.
	GoOn Action = "go on"
	// Unjudged marks a report that does not have the study's metric.
	Unjudged Action = "unjudged"
)

// A Decision is what a Scheduler says to a report. All but Action, Donor, Params
// and Others is there to explain it.
type Decision struct {
	Action Action
	// Rule names the rule in a few words: "asha rung 3".
	Rule string
	// Rung is the number of the rung or bracket position, from 0, where the rule has one.
	Rung int
	// Value is what was compared, Cutoff with what; NaN where there was nothing.
	// Both as reported, not oriented.
	Value, Cutoff float64
	// Competitors are the trials it was compared with.
	Competitors []int
	// Donor and Params are those of Exploit. Empty Params are the donor's.
	Donor  int
	Params Params
	// Others are orders for other trials.
	Others []Order
}

// Go is the decision to continue, with nothing to explain.
func Go() Decision {
	return Decision{Action: Continue, Value: math.NaN(), Cutoff: math.NaN()}
}

// An Order is a decision about another trial than the one that reported. A
// running trial hears of it at its next report, which is then not judged again;
// a paused one is stopped, completed, changed or let go on at once. An order to
// a trial that is final has no effect; of several the last one counts.
type Order struct {
	Trial  int
	Action Action // Stop, Complete, Pause (of a running one), GoOn (of a paused one), Exploit
	Rule   string
	// Donor and Params are those of Exploit. A paused trial that exploits goes on
	// when it is ordered to, or when Next chooses it.
	Donor  int
	Params Params
}

// A Pick is what a free slot does.
type Pick struct {
	Kind PickKind
	// Trial is the paused trial to go on with, if Kind is PickTrial.
	Trial int
	// Rule explains it: "promote to rung 2".
	Rule string
}

// A PickKind is the kind of a Pick.
type PickKind uint8

const (
	// PickNew starts a new trial. It is the zero Pick. If there are no more new
	// ones it is PickWait.
	PickNew PickKind = iota
	// PickTrial goes on with a paused trial.
	PickTrial
	// PickWait leaves the slot free until another event. If nothing runs any more, the
	// study is over.
	PickWait
)

// String names the pick.
func (c Pick) String() string {
	switch c.Kind {
	case PickNew:
		return "a new trial"
	case PickTrial:
		return fmt.Sprintf("trial %d", c.Trial)
	default:
		return "wait"
	}
}

// FIFO lets every trial run to its end, in the order of their numbers. It is the
// Scheduler of a study that has no other, and can be embedded in others.
type FIFO struct{}

// Started implements Scheduler.
func (FIFO) Started(View, int) {}

// Reported implements Scheduler.
func (FIFO) Reported(View, int, *rand.Rand) Decision { return Go() }

// Ended implements Scheduler.
func (FIFO) Ended(View, int) {}

// Next implements Scheduler.
func (FIFO) Next(View) Pick { return Pick{} }

// A Pruner ends trials, or the whole study, by a rule of its own. It is asked
// after each report that has the metric, before the scheduler, and is a pure
// function of the view; caches are allowed as for a Suggester.
type Pruner interface {
	// Prune says whether the trial that reported, or the whole study, ends here.
	Prune(v View, trial int) Halt
}

// A Halt is the answer of a Pruner. The zero Halt lets trial and study go on.
type Halt struct {
	// Trial ends the trial that reported: Complete if it is finished, Stop if it is
	// pruned; "" lets it go on.
	Trial Action
	// Study ends the whole study: running trials are stopped.
	Study bool
	// Rule says why: "accuracy reached 0.9".
	Rule string
}
