package schedule

import (
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/paragon-train/paragon/tune"
)

// Any combines schedulers: the first one that does not continue a trial decides. All of them see
// every event. Next is that of the first one that has a paused trial to continue.
//
// At most one of them may be a scheduler that pauses trials (promotion, Hyperband, population-based
// training): such a scheduler sees the decisions of others only by the end of a trial.
type Any []tune.Scheduler

// Validate says what is wrong with the schedulers.
func (a Any) Validate() error { return validateAll(a) }

// validateAll says what is wrong with schedulers within another.
func validateAll(all []tune.Scheduler) error {
	for i, s := range all {
		if s == nil {
			return fmt.Errorf("schedule: scheduler %d of %d is nil", i, len(all))
		}
		if _, ok := s.(tune.Allocator); ok {
			return fmt.Errorf("schedule: scheduler %d of %d is %T, which divides nodes: put the others into it, as in Goodput{Inner: ...}", i, len(all), s)
		}
		if err := validate(s); err != nil {
			return err
		}
	}
	return nil
}

// Started implements tune.Scheduler.
func (a Any) Started(v tune.View, trial int) {
	for _, s := range a {
		s.Started(v, trial)
	}
}

// Ended implements tune.Scheduler.
func (a Any) Ended(v tune.View, trial int) {
	for _, s := range a {
		s.Ended(v, trial)
	}
}

// Next implements tune.Scheduler.
func (a Any) Next(v tune.View) tune.TrialChoice { return firstPick(a, v) }

// firstPick is the first choice of a paused trial; without one a new trial may start, unless a
// scheduler wants none.
func firstPick(all []tune.Scheduler, v tune.View) tune.TrialChoice {
	wait := tune.TrialChoice{}
	for _, s := range all {
		switch p := s.Next(v); p.Kind {
		case tune.ChoosePaused:
			return p
		case tune.ChooseNone:
			wait = p
		}
	}
	return wait
}

// Reported implements tune.Scheduler.
func (a Any) Reported(v tune.View, trial int, rng *rand.Rand) tune.Decision {
	result := tune.Go()
	for _, s := range a {
		d := s.Reported(v, trial, rng)
		others := append(result.Others, d.Others...)
		if result.Action == tune.Continue && (d.Action != tune.Continue && d.Action != "" || result.Rule == "") {
			result = d
		}
		result.Others = others
	}
	return result
}

// All combines schedulers and stops a trial only if all of them do. It is for schedulers that only
// stop trials: every other decision counts as Continue, except Complete, which any one of them may
// give.
type All []tune.Scheduler

// Validate says what is wrong with the schedulers.
func (a All) Validate() error { return validateAll(a) }

// Started implements tune.Scheduler.
func (a All) Started(v tune.View, trial int) { Any(a).Started(v, trial) }

// Ended implements tune.Scheduler.
func (a All) Ended(v tune.View, trial int) { Any(a).Ended(v, trial) }

// Next implements tune.Scheduler.
func (a All) Next(v tune.View) tune.TrialChoice { return firstPick(a, v) }

// Reported implements tune.Scheduler.
func (a All) Reported(v tune.View, trial int, rng *rand.Rand) tune.Decision {
	var rules []string
	result, stop := tune.Go(), len(a) > 0
	for _, s := range a {
		d := s.Reported(v, trial, rng)
		if d.Action == tune.Complete {
			return d
		}
		if d.Action != tune.Stop {
			stop = false
		}
		if d.Rule != "" {
			rules = append(rules, d.Rule)
			result.Value, result.Cutoff, result.Rung, result.Competitors = d.Value, d.Cutoff, d.Rung, d.Competitors
			if d.Forecast != nil {
				result.Forecast = d.Forecast
			}
		}
	}
	result.Rule = strings.Join(rules, " and ")
	if stop {
		result.Action = tune.Stop
	}
	return result
}
