package schedule

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/paragon-train/paragon/tune"
)

// Patience stops a trial whose newest Reports+1 values do not improve on the best before them by
// MinDelta. With a scheduler Inner it is a condition on Inner: a trial that Inner would stop
// continues while it still improves.
type Patience struct {
	// Inner may be nil.
	Inner tune.Scheduler
	// Reports is the number of reports without improvement that are tolerated.
	Reports int
	// MinDelta is the least improvement that counts. With zero any does.
	MinDelta float64
}

// Validate says what is wrong with the fields.
func (p *Patience) Validate() error {
	if p.Reports < 0 || p.MinDelta < 0 {
		return fmt.Errorf("schedule: Patience: Reports %d, MinDelta %v: want 0 or more", p.Reports, p.MinDelta)
	}
	return validate(p.Inner)
}

// Started implements tune.Scheduler.
func (p *Patience) Started(v tune.View, trial int) {
	if p.Inner != nil {
		p.Inner.Started(v, trial)
	}
}

// Ended implements tune.Scheduler.
func (p *Patience) Ended(v tune.View, trial int) {
	if p.Inner != nil {
		p.Inner.Ended(v, trial)
	}
}

// Next implements tune.Scheduler.
func (p *Patience) Next(v tune.View) tune.TrialChoice {
	if p.Inner != nil {
		return p.Inner.Next(v)
	}
	return tune.TrialChoice{}
}

// Reported implements tune.Scheduler.
func (p *Patience) Reported(v tune.View, trial int, rng *rand.Rand) tune.Decision {
	if err := p.Validate(); err != nil {
		return invalid(err)
	}
	d := explain(tune.Stop, "", math.NaN())
	if p.Inner != nil {
		d = p.Inner.Reported(v, trial, rng)
	}
	if d.Action != tune.Stop {
		return d
	}
	before, after, n := math.Inf(-1), math.Inf(-1), 0
	reports := v.Trial(trial).Reports
	for i := len(reports) - 1; i >= 0; i-- {
		if reports[i].Action == tune.Unjudged {
			continue
		}
		s := v.Score(reports[i].Value)
		if n++; n <= p.Reports+1 {
			after = max(after, s)
		} else {
			before = max(before, s)
		}
	}
	rule := fmt.Sprintf("patience of %d reports", p.Reports)
	if d.Rule != "" {
		rule = d.Rule + ", " + rule
	}
	if n <= p.Reports+1 || before+p.MinDelta <= after {
		if p.Inner == nil {
			return tune.Go()
		}
		d.Action, d.Rule = tune.Continue, rule+": it still improves"
		return d
	}
	d.Rule = rule
	if p.Inner == nil {
		d.Value, d.Cutoff = v.Score(after), v.Score(before+p.MinDelta)
	}
	return d
}

// validate asks a scheduler what is wrong with it, if it can say.
func validate(s tune.Scheduler) error {
	if c, ok := s.(interface{ Validate() error }); ok {
		return c.Validate()
	}
	return nil
}

// Threshold stops a trial whose newest value lies outside bounds, as it was reported: accuracy
// below Lower, loss above Upper.
type Threshold struct {
	tune.FIFO
	// Lower and Upper are the bounds; a zero is no bound unless its Has field is set.
	Lower, Upper       float64
	HasLower, HasUpper bool
	// Warmup is the step below which nothing is stopped.
	Warmup int
	// Interval is the number of steps between two checks. Zero is 1.
	Interval int
}

// Reported implements tune.Scheduler.
func (h *Threshold) Reported(v tune.View, trial int, _ *rand.Rand) tune.Decision {
	t := v.Trial(trial)
	last, ok := t.Last()
	if !ok || !due(t, last.Step, h.Warmup, max(h.Interval, 1)) {
		return tune.Go()
	}
	d := explain(tune.Continue, fmt.Sprintf("threshold at step %d", last.Step), last.Value)
	switch {
	case math.IsNaN(last.Value):
		d.Action = tune.Stop
	case (h.HasLower || h.Lower != 0) && last.Value < h.Lower:
		d.Action, d.Cutoff = tune.Stop, h.Lower
	case (h.HasUpper || h.Upper != 0) && last.Value > h.Upper:
		d.Action, d.Cutoff = tune.Stop, h.Upper
	default:
		return tune.Go()
	}
	return d
}
