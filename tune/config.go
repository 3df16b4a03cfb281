package tune

import (
	"cmp"
	"log/slog"
	"slices"
	"time"
)

// A Point is a set of parameters by name, to be tried before others. A parameter
// that is left out is proposed; an axis of the grid takes all its values.
type Point map[string]any

// A ResumeMode says what to do with a study that Config.Dir already holds.
type ResumeMode string

const (
	// ResumeNever, the zero mode, returns ErrExists if there is one.
	ResumeNever ResumeMode = ""
	// ResumeAuto resumes the study if there is one, and starts one if not. Trials that
	// were running continue from their checkpoints.
	ResumeAuto ResumeMode = "auto"
	// ResumeErrored is ResumeAuto, and failed trials continue from their checkpoints.
	ResumeErrored ResumeMode = "errored"
	// RestartErrored is ResumeAuto, and failed trials start over.
	RestartErrored ResumeMode = "restart errored"
	// ErroredOnly continues failed trials from their checkpoints and runs no others:
	// neither those that were running nor new ones.
	ErroredOnly ResumeMode = "errored only"
	// ResumeNew runs new trials only: those that were running are stopped.
	ResumeNew ResumeMode = "new"
)

// A Scope says which of its reports a trial is ranked by.
type Scope string

const (
	// BestReport, the zero Scope, is the best of all its reports.
	BestReport Scope = ""
	// LastReport is the newest one.
	LastReport Scope = "last"
)

// defaultName is the name of a study without one.
const defaultName = "study"

// defaultFirstFailures is Config.FirstFailures where it is 0.
const defaultFirstFailures = 5

// MaxParallel bounds the trials that run at once.
const MaxParallel = 10_000

// AsManyAsFit is a Config.Parallel without a number.
const AsManyAsFit = -1

// Config says what to search for and how. The zero value of each field but
// Space is usable.
type Config struct {
	// Name of the study; "" is "study".
	Name string
	// Space is the parameters to search.
	Space Space
	// Fidelity, if not nil, is a parameter beside the Space that says how faithfully a trial is
	// tried. The Scheduler decides at which of its levels.
	Fidelity *Fidelity
	// Metric is the one to maximize or minimize. "" stands for the only metric in the
	// reports; if there are several, the study ends with an error that names them.
	Metric string
	// Mode says which values are good; see Auto.
	Mode Mode
	// Objectives are two or more metrics to maximize or minimize together, in place of Metric
	// and Mode. The search then looks for the trials that no other dominates (Result.Front),
	// and there is no best one. View.Metric, View.Mode and View.Result are those of the first
	// objective.
	Objectives []Objective
	// Constraints are bounds of metrics. A trial that violates one ranks below all feasible
	// ones, those that violate less first, and is never the best, nor on the front. Schedulers
	// do not know them: they compare the metric alone. Only among the best by which
	// schedule.Predict measures is no trial that violates one.
	Constraints []Constraint
	// Scope says which of its reports a trial is ranked by. With several Objectives it is
	// always the newest.
	Scope Scope
	// Samples is how many times the space is sampled; each sample runs the whole grid.
	// 0 is 1; -1 is no limit: the study ends by Timeout, a pruner, or an exhausted
	// Suggester.
	Samples int
	// Points are tried first, each in place of one sample. A point that fixes all axes of
	// the grid is one trial; otherwise it is one trial for each point of the other axes.
	// All points are tried, even if there are more than Samples.
	Points []Point
	// DefaultFirst tries the defaults of the space after the points, in place of a sample.
	DefaultFirst bool
	// Seed makes the study repeatable.
	Seed uint64
	// Suggester proposes parameters; nil is Random.
	Suggester Suggester
	// Scheduler stops and pauses trials; nil is FIFO. An Allocator also divides nodes among
	// them.
	Scheduler Scheduler
	// DefaultScheduler takes the place of a nil Scheduler in a study that begins. A study that
	// goes on, and began with FIFO, keeps it. It is no Allocator.
	DefaultScheduler Scheduler
	// Pruners end trials or the study.
	Pruners []Pruner
	// KeepDiverged passes values that are not finite to the scheduler; otherwise such a
	// value ends its trial.
	KeepDiverged bool
	// Parallel is how many trials run at once, or take part in the division of an Allocator; 0
	// is 1. At most MaxParallel. AsManyAsFit is as many as a Placer has places for, with hosts
	// that come while the search runs; not for an Allocator.
	Parallel int
	// Resources are those of one trial.
	Resources Resources
	// Timeout ends the study when it has run for this long, summed over all resumes.
	// 0 is no limit.
	Timeout time.Duration
	// Deadline is when the best has to be known; the zero Time is never. A new trial starts
	// only if one like those before ends in time, and a paused trial continues only if it
	// reaches its next rung in time. At the deadline running trials are asked to stop, and the
	// study ends with what it has: see Result.Missed. A study that is resumed may have another
	// deadline; after one that has passed it ends at once.
	Deadline time.Time
	// ReportTimeout is how long a trial may run without a report. Then its ctx is
	// cancelled, and the trial fails with class Silent. 0 is no limit.
	ReportTimeout time.Duration
	// Grace is how long an attempt may take to return when asked to. Then its ctx is
	// cancelled, and after the same time again it is abandoned: the search continues
	// without it. 0 is 30 seconds.
	Grace time.Duration
	// Retries are the numbers of retries by class of failure.
	Retries Retries
	// MaxFailed ends the study with an error when this many trials have failed for good.
	// 0 is no limit, 1 stops at the first.
	MaxFailed int
	// FirstFailures ends the study with an error when so many trials have failed for good, the
	// newest by its own code, before any trial reported the metric: more will hardly do better.
	// 0 is 5, -1 is no limit.
	FirstFailures int
	// Dir keeps the log, checkpoints and results; "" keeps none, and checkpoints go to
	// a temporary folder.
	Dir string
	// Resume says what to do with a study that Dir already holds.
	Resume ResumeMode
	// CheckpointBytes is the budget of all checkpoints together. When they exceed it,
	// unneeded ones are removed: older ones first, then those of finished trials, the
	// worst trials first. The newest checkpoint of the best trial, and of each trial that
	// may continue, is always kept. 0 is no limit.
	CheckpointBytes int64
	// Runner runs trials; nil calls the Trainable in this process.
	Runner Runner
	// Observers are told of all events.
	Observers []Observer
	// StatusListen is a loopback address, such as 127.0.0.1:0 (any free port), at which the
	// search serves a live page for browsers while it runs. Other addresses are an error. The
	// log has the page's link, which works once. "" (the default) serves no page.
	StatusListen string
	// Logger gets messages for people; nil is slog.Default.
	Logger *slog.Logger
	// Now is the clock of the study's times, for a program that drives a Study with simulated
	// trials. It must not go back. nil is time.Now. Run needs the real one.
	Now func() time.Time

	// logged are the rules of a study that is read from its log alone, with all that they
	// decided; nil: the rules are those above.
	logged *loggedRules
	// program is the Name that the program's Run has, if this study is made of that one
	// (Confirm, RunBest).
	program string
}

// programName is the study name by which a process of this program checks that its trial belongs to
// this study.
func (c *Config) programName() string { return cmp.Or(c.program, c.Name, defaultName) }

// several says whether there is more than one objective.
func (c *Config) several() bool { return len(c.Objectives) > 0 }

// shown are the parameters that trials have: those of the space, and the fidelity.
func (c *Config) shown() Space {
	f := c.Fidelity
	switch {
	case f == nil:
		return c.Space
	case f.whole():
		return append(slices.Clone(c.Space), Int(f.Parameter, int(f.Low), int(f.High)))
	}
	return append(slices.Clone(c.Space), Real(f.Parameter, f.Low, f.High))
}

// topStep is the step from which on a report counts for the best trial.
func (c *Config) topStep() int {
	if c.Fidelity == nil {
		return 0
	}
	return c.Fidelity.Step(c.Fidelity.High)
}

// off are the parameters that are searched: without the fidelity's.
func (c *Config) off(p Params) Params {
	if c.Fidelity == nil || !p.Has(c.Fidelity.Parameter) {
		return p
	}
	var list []pair
	for _, x := range p.list {
		if x.name != c.Fidelity.Parameter {
			list = append(list, x)
		}
	}
	return Params{list}
}
