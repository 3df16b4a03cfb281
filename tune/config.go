package tune

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"time"
)

// A Point is parameters by name, to be tried before others. A parameter that is
// left out is proposed, or gone through if it is an axis of the grid.
type Point map[string]any

// A ResumeMode says what becomes of a study that Config.Dir already holds.
type ResumeMode string

const (
	// ResumeNever, the zero mode, is an error if there is one (ErrExists).
	ResumeNever ResumeMode = ""
	// ResumeAuto goes on if there is one: trials that were running go on from their
	// checkpoints. If there is none it begins one.
	ResumeAuto ResumeMode = "auto"
	// ResumeErrored is ResumeAuto, and failed trials go on from their checkpoints.
	ResumeErrored ResumeMode = "errored"
	// RestartErrored is ResumeAuto, and failed trials run again from the start.
	RestartErrored ResumeMode = "restart errored"
	// ErroredOnly runs failed trials again, from their checkpoints, and nothing else:
	// neither those that were running nor new ones.
	ErroredOnly ResumeMode = "errored only"
	// ResumeNew runs new trials only: those that were running are stopped.
	ResumeNew ResumeMode = "new"
)

// A Scope says which value of a trial counts among others.
type Scope string

const (
	// BestReport, the zero Scope, is the best of all its reports.
	BestReport Scope = ""
	// LastReport is the newest one.
	LastReport Scope = "last"
)

// defaultName is the name of a study that was given none.
const defaultName = "study"

// MaxParallel bounds the trials that run at once.
const MaxParallel = 10_000

// Config says what to search for and how. The zero value of each field but
// Space is usable.
type Config struct {
	// Name of the study; "" is "study".
	Name string
	// Space is what is searched.
	Space Space
	// Metric is the one to make large or small. "" is the only one that is reported;
	// if there are several, the first report ends the study with an error that names them.
	Metric string
	// Mode says which values are good; see Auto.
	Mode Mode
	// Scope says which of a trial's values counts among others.
	Scope Scope
	// Samples is how many times the space is sampled, and with each sample the whole
	// grid is gone through. 0 is 1; -1 is no limit: the study ends by Timeout, a
	// pruner, or an exhausted Suggester.
	Samples int
	// Points are tried first, each in place of one sample. A point that fixes all axes of
	// the grid is one trial; one that does not is a trial for each point of the rest.
	// All are tried, even if there are more than Samples.
	Points []Point
	// DefaultFirst tries the defaults of the space after the points, in place of a sample.
	DefaultFirst bool
	// Seed makes the study repeatable.
	Seed uint64
	// Suggester proposes parameters; nil is Random.
	Suggester Suggester
	// Scheduler stops and pauses trials; nil is FIFO.
	Scheduler Scheduler
	// Pruners end trials or the study.
	Pruners []Pruner
	// KeepDiverged asks the scheduler also about values that are not finite; else
	// such a value ends its trial.
	KeepDiverged bool
	// Parallel is how many trials run at once; 0 is 1. At most MaxParallel.
	Parallel int
	// Resources are those of one trial.
	Resources Resources
	// Timeout ends the study when it has run so long, over all times it was resumed.
	// 0 is no limit.
	Timeout time.Duration
	// ReportTimeout is how long a trial may run without a report. Then its ctx is
	// cancelled, and it has failed with class Silent. 0 is no limit.
	ReportTimeout time.Duration
	// Grace is how long an attempt may take to return once it was told to; then its
	// ctx is cancelled, and after as long again it is given up: the search goes on
	// without waiting for it. 0 is 30 seconds.
	Grace time.Duration
	// Retries are budgets of further tries by class of failure.
	Retries Retries
	// MaxFailed ends the study with an error when so many trials have failed for good.
	// 0 is no limit, 1 stops at the first.
	MaxFailed int
	// Dir keeps the log, checkpoints and results; "" keeps none, and checkpoints go to
	// a temporary folder.
	Dir string
	// Resume says what becomes of a study that Dir already holds.
	Resume ResumeMode
	// CheckpointBytes is the budget of all checkpoints together. When they exceed it,
	// those nobody needs are removed: older ones first, then those of trials that are
	// over, the worst first. Newest checkpoints of trials that may go on and of the
	// best trial are kept in any case. 0 is no limit.
	CheckpointBytes int64
	// Runner runs trials; nil calls the Trainable in this process.
	Runner Runner
	// Observers are told of all events.
	Observers []Observer
	// Logger says what people should know; nil is slog.Default.
	Logger *slog.Logger

	program string // the Name that the program's Run has, if the study is another one made of it (Confirm, RunBest)
}

// Validate says which field is wrong, and why.
func (c *Config) Validate() error {
	var all []error
	bad := func(format string, args ...any) { all = append(all, fmt.Errorf("tune: config: "+format, args...)) }
	if err := c.Space.Validate(); err != nil {
		all = append(all, err)
	}
	if c.Mode > Min {
		bad("Mode is %d: want tune.Max or tune.Min", c.Mode)
	}
	if c.Metric != "" {
		if _, err := c.Mode.resolve(c.Metric); err != nil {
			all = append(all, err)
		}
	}
	if c.Scope != BestReport && c.Scope != LastReport {
		bad("Scope is %q: want BestReport or LastReport", c.Scope)
	}
	if c.Samples < -1 {
		bad("Samples is %d: want -1 (no limit), 0 (one) or more", c.Samples)
	}
	if c.Parallel < 0 || c.Parallel > MaxParallel {
		bad("Parallel is %d: want 0 (one) to %d", c.Parallel, MaxParallel)
	}
	for _, d := range []struct {
		name  string
		value time.Duration
	}{{"Timeout", c.Timeout}, {"ReportTimeout", c.ReportTimeout}, {"Grace", c.Grace}, {"Resources.StartTimeout", c.Resources.StartTimeout}} {
		if d.value < 0 {
			bad("%s is %v: want 0 or more", d.name, d.value)
		}
	}
	if c.CheckpointBytes < 0 {
		bad("CheckpointBytes is %d: want 0 (no limit) or more", c.CheckpointBytes)
	}
	if c.MaxFailed < 0 {
		bad("MaxFailed is %d: want 0 (no limit) or more", c.MaxFailed)
	}
	switch c.Resume {
	case ResumeNever, ResumeAuto, ResumeErrored, RestartErrored, ErroredOnly, ResumeNew:
	default:
		bad("Resume is %q: want one of the ResumeModes", c.Resume)
	}
	for _, part := range []any{c.Suggester, c.Scheduler} {
		if v, ok := part.(interface{ Validate() error }); ok {
			if err := v.Validate(); err != nil {
				bad("%w", err)
			}
		}
	}
	r := c.Resources
	if min(r.Hosts, r.Slots, r.CPUsPerSlot, r.GPUs, r.Servers) < 0 {
		bad("Resources are %+v: want no number below 0", r)
	}
	if len(all) == 0 {
		if n := gridSize(c.Space, Params{}); n > math.MaxInt32 {
			bad("the grid has more than %d points", math.MaxInt32)
		}
		for i, p := range c.Points {
			if _, err := c.Space.point(p); err != nil {
				bad("Points[%d]: %w", i, err)
			}
		}
	}
	return errors.Join(all...)
}

// programName is the Name by which trials that are processes of the program itself find out that they are of this study.
func (c *Config) programName() string { return cmp.Or(c.program, c.Name, defaultName) }
