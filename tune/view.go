package tune

import (
	"iter"
	"time"
)

// A View is what suggesters, schedulers, pruners and observers see of a study.
// It is read-only, and valid until the call it was passed to returns.
type View interface {
	Space() Space
	// Metric and Mode are the study's, or the first objective's of several. Metric is ""
	// before the first report if Config.Metric is not set.
	Metric() string
	Mode() Mode
	// Objectives are all of them, in the order of the config: one, or several. Modes are
	// Max or Min.
	Objectives() []Objective
	// Constraints are the study's.
	Constraints() []Constraint
	// Fidelity is the study's, nil if it has none. With one a report is the result of a run of
	// its own at a level, whose step it has: values of different steps must not be compared.
	Fidelity() *Fidelity
	// Seed is the study's.
	Seed() uint64
	// Len is how many trials there are; their numbers are 0 to Len()-1.
	Len() int
	// Trial returns a trial, or nil if there is none of this number.
	Trial(number int) *Trial
	// Trials goes through all of them, by number.
	Trials() iter.Seq[*Trial]
	// Count is how many trials are in this state.
	Count(State) int
	// Score orients a value so that larger is better; -Inf if it is not finite.
	Score(value float64) float64
	// Result is the value by which a trial is ranked, as it was reported: its best
	// or, by Config.Scope, its last. NaN: it has none yet.
	Result(t *Trial) float64
	// Values are those of all objectives, from the same report; nil: it has none yet.
	Values(t *Trial) []float64
	// Violation is the sum over the constraints of how far that report is beyond the
	// bound, as a share of its magnitude; 0: feasible. NaN: it has no report yet.
	Violation(t *Trial) float64
	// Fixed are the parameters of a trial that the suggester does not choose: axes
	// of the grid and values of a point. Space.Fill takes them.
	Fixed(number int) Params
	// Exhausted says that there will be no new trials.
	Exhausted() bool
	// Plan is what the study is to do.
	Plan() Plan
	// Elapsed is how long the study had run at the newest event, summed over all
	// resumes. It does not change between events.
	Elapsed() time.Duration
}

// A Plan is what a study is to do.
type Plan struct {
	// Trials is how many there are to be; -1: no limit is known.
	Trials int
	// Parallel is how many run at once, or AsManyAsFit.
	Parallel int
	// Deadline is Config.Deadline; the zero Time is never. Ends is when that is on the clock of
	// View.Elapsed, by the newest event.
	Deadline time.Time
	Ends     time.Duration
	// Missed says for people what the deadline has kept from being done: trials that were not
	// started, not continued or stopped. "" is nothing.
	Missed string
	// Suggester and Scheduler name the types: suggest.TPE, schedule.ASHA.
	Suggester, Scheduler string
}
