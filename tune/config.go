package tune

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"math"
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

// A FieldError says what is wrong with a field of a Config.
type FieldError struct {
	Field string // such as Samples, Points[1] or Resources.StartTimeout
	Err   error  // what came, and what was wanted
}

// Error is "tune: config: Samples: got -5, want ...".
func (e *FieldError) Error() string { return fmt.Sprintf("tune: config: %s: %v", e.Field, e.Err) }

func (e *FieldError) Unwrap() error { return e.Err }

// fieldErrors gathers what is wrong with the fields of a Config.
type fieldErrors []error

func (f *fieldErrors) bad(field, format string, args ...any) {
	*f = append(*f, &FieldError{field, fmt.Errorf(format, args...)})
}

// Validate says which fields are wrong, and why. Its error joins one for each mistake; those of
// fields other than Space are a *FieldError.
func (c *Config) Validate() error {
	var all fieldErrors
	if err := c.Space.Validate(); err != nil {
		all = append(all, err)
	}
	if c.Mode > Min {
		all.bad("Mode", "got %d, want tune.Max or tune.Min", c.Mode)
	}
	if c.Metric != "" {
		if _, err := c.Mode.resolve(c.Metric); err != nil {
			all.bad("Mode", "%w", err)
		}
	}
	c.validateGoals(&all)
	c.validateFidelity(&all)
	c.validateNumbers(&all)
	c.validateRules(&all)
	if len(all) == 0 {
		c.validatePoints(&all)
	}
	return errors.Join(all...)
}

// validateNumbers checks fields that are numbers or one of a few words.
func (c *Config) validateNumbers(all *fieldErrors) {
	if c.Scope != BestReport && c.Scope != LastReport {
		all.bad("Scope", "got %q, want BestReport or LastReport", c.Scope)
	}
	if c.Samples < -1 {
		all.bad("Samples", "got %d, want -1 (no limit), 0 (one) or more", c.Samples)
	}
	if c.Parallel != AsManyAsFit && (c.Parallel < 0 || c.Parallel > MaxParallel) {
		all.bad("Parallel", "got %d, want 0 (one) to %d, or AsManyAsFit", c.Parallel, MaxParallel)
	}
	for _, d := range []struct {
		name  string
		value time.Duration
	}{{"Timeout", c.Timeout}, {"ReportTimeout", c.ReportTimeout}, {"Grace", c.Grace}, {"Resources.StartTimeout", c.Resources.StartTimeout}} {
		if d.value < 0 {
			all.bad(d.name, "got %v, want 0 or more", d.value)
		}
	}
	if c.CheckpointBytes < 0 {
		all.bad("CheckpointBytes", "got %d, want 0 (no limit) or more", c.CheckpointBytes)
	}
	if c.MaxFailed < 0 {
		all.bad("MaxFailed", "got %d, want 0 (no limit) or more", c.MaxFailed)
	}
	if c.FirstFailures < -1 {
		all.bad("FirstFailures", "got %d, want -1 (no limit), 0 (5) or more", c.FirstFailures)
	}
	switch c.Resume {
	case ResumeNever, ResumeAuto, ResumeErrored, RestartErrored, ErroredOnly, ResumeNew:
	default:
		all.bad("Resume", "got %q, want one of the ResumeModes", c.Resume)
	}
}

// validateRules asks the rules that can check themselves, and checks Resources.
func (c *Config) validateRules(all *fieldErrors) {
	for _, part := range []struct {
		name string
		rule any
	}{{"Suggester", c.Suggester}, {"Scheduler", c.Scheduler}, {"DefaultScheduler", c.DefaultScheduler}} {
		if v, ok := part.rule.(interface{ Validate() error }); ok {
			if err := v.Validate(); err != nil {
				all.bad(part.name, "%w", err)
			}
		}
	}
	if a, ok := c.DefaultScheduler.(Allocator); ok {
		all.bad("DefaultScheduler", "%T divides nodes among trials: name it as Scheduler", a)
	}
	r := c.Resources
	if min(r.Hosts, r.Slots, r.CPUsPerSlot, r.GPUs, r.Servers) < 0 {
		all.bad("Resources", "got %+v, want no number below 0", r)
	}
}

// validatePoints checks the grid and the Points of a Space that is valid.
func (c *Config) validatePoints(all *fieldErrors) {
	if n := gridSize(c.Space, Params{}); n > math.MaxInt32 {
		all.bad("Space", "the grid has more than %d points", math.MaxInt32)
	}
	for i, p := range c.Points {
		if _, err := c.Space.point(p); err != nil {
			all.bad(fmt.Sprintf("Points[%d]", i), "%w", err)
		}
	}
}

// programName is the study name by which a process of this program checks that its trial belongs to
// this study.
func (c *Config) programName() string { return cmp.Or(c.program, c.Name, defaultName) }
