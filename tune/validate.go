package tune

import (
	"errors"
	"fmt"
	"math"
	"time"
)

// A FieldError says what is wrong with a field of a Config.
type FieldError struct {
	// Field is the name, such as Samples, Points[1] or Resources.StartTimeout.
	Field string
	// Err says what came, and what was wanted.
	Err error
}

// Error is "tune: config: Samples: got -5, want ...".
func (e *FieldError) Error() string { return fmt.Sprintf("tune: config: %s: %v", e.Field, e.Err) }

func (e *FieldError) Unwrap() error { return e.Err }

// fieldErrors gathers what is wrong with the fields of a Config.
type fieldErrors []error

// bad adds what is wrong with a field.
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

// validateGoals checks Objectives and Constraints.
func (c *Config) validateGoals(all *fieldErrors) {
	named := map[string]string{}
	if c.Metric != "" {
		named[c.Metric] = "Metric"
	}
	switch n := len(c.Objectives); {
	case n == 0:
	case c.Metric != "" || c.Mode != Auto:
		all.bad("Objectives", "Metric or Mode are set, too: want one of them")
	case n == 1 || n > MaxObjectives:
		all.bad("Objectives", "got %d, want 2 to %d, or Metric and Mode for one", n, MaxObjectives)
	}
	for i, o := range c.Objectives {
		what := fmt.Sprintf("Objectives[%d]", i)
		switch {
		case o.Metric == "":
			all.bad(what, "it has no Metric")
		case o.Mode > Min:
			all.bad(what, "its Mode is %d, want tune.Max or tune.Min", o.Mode)
		case named[o.Metric] != "":
			all.bad(what, "metric %q is that of %s, too", o.Metric, named[o.Metric])
		default:
			if _, err := o.Mode.resolve(o.Metric); err != nil {
				all.bad(what, "%w", err)
			}
		}
		named[o.Metric] = what
	}
	if len(c.Constraints) > 0 && c.Metric == "" && len(c.Objectives) == 0 {
		all.bad("Constraints", "they need Metric or Objectives: with several metrics in a report, say which one is to be good")
	}
	for i, x := range c.Constraints {
		what := fmt.Sprintf("Constraints[%d]", i)
		if x.Metric == "" {
			all.bad(what, "it has no Metric")
		}
		if math.IsNaN(x.Bound) || math.IsInf(x.Bound, 0) {
			all.bad(what, "its Bound is %v, want a finite number", x.Bound)
		}
	}
	if len(c.Objectives) == 0 {
		return
	}
	single := func(field string, rule any, instead string) {
		if s, ok := rule.(SingleObjective); ok && s.SingleObjective() {
			all.bad(field, "%T judges trials by one metric, and there are %d Objectives: %s", rule, len(c.Objectives), instead)
		}
	}
	single("Suggester", c.Suggester, "use suggest.MOTPE or suggest.NSGA2 (motpe or nsga2 in a study file)")
	single("Scheduler", c.Scheduler, "use tune.FIFO (fifo in a study file)")
	single("DefaultScheduler", c.DefaultScheduler, "leave it out")
	for i, p := range c.Pruners {
		single(fmt.Sprintf("Pruners[%d]", i), p, "use one that limits steps or time")
	}
}

// validateFidelity checks Fidelity, and that the rest goes with it.
func (c *Config) validateFidelity(all *fieldErrors) {
	f := c.Fidelity
	if f == nil {
		return
	}
	if err := f.Validate(); err != nil {
		all.bad("Fidelity", "%w", err)
		return
	}
	if _, ok := c.Space.Param(f.Parameter); ok {
		all.bad("Fidelity", "parameter %q is in the space, too: the rule decides its value, so take it out of the space", f.Parameter)
	}
	scheduler, field := c.Scheduler, "Scheduler"
	if scheduler == nil {
		// The default takes its place.
		scheduler, field = c.DefaultScheduler, "DefaultScheduler"
	}
	if scheduler == nil && f.Low < f.High && c.logged == nil {
		all.bad("Fidelity", "there is no Scheduler, so nothing decides which trials run at more than %s %v: want one, such as schedule.ASHA{Rule: schedule.Promotion}", f.Parameter, f.Low)
	}
	if _, ok := scheduler.(Allocator); ok {
		all.bad("Fidelity", "%T divides nodes among trials as they train, and a trial of this study begins anew at each level: want another Scheduler", scheduler)
	}
	refuse := func(field string, rule any) {
		if s, ok := rule.(Stepwise); ok && s.Stepwise() {
			all.bad(field, "%T follows a trial over its steps, and with a Fidelity each step is a training of its own: use schedule.ASHA without Guard, Hyperband, Predict or MedianStopping (promotion, asha, hyperband, predict or median in a study file)", rule)
		}
	}
	refuse(field, scheduler)
	for i, p := range c.Pruners {
		refuse(fmt.Sprintf("Pruners[%d]", i), p)
	}
}
