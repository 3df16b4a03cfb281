package schedule

import (
	"fmt"
	"math/rand/v2"

	"github.com/paragon-train/paragon/tune"
)

// OptunaHyperband is Optuna's Hyperband pruner: several sets of asynchronous halving by OptunaRule,
// each with a lowest rung of its own; a checksum of the study's seed and the trial's number says
// which one a trial belongs to.
type OptunaHyperband struct {
	tune.FIFO
	// MinStep is the lowest rung. Zero is 1.
	MinStep int
	// MaxStep says how many sets there are: one for each factor Eta between MinStep and
	// MaxStep. It must be set.
	MaxStep int
	// Eta is the factor from rung to rung. Zero is 3.
	Eta float64

	budgets []int
	sets    []*ASHA
}

// Validate says what is wrong with the fields.
func (o *OptunaHyperband) Validate() error {
	if o.MaxStep < 1 || o.MinStep < 0 || o.MinStep > o.MaxStep || o.Eta != 0 && !(o.Eta > 1) {
		return fmt.Errorf("schedule: OptunaHyperband: MinStep %d, MaxStep %d, Eta %v: want 0 ≤ MinStep ≤ MaxStep, and Eta above 1", o.MinStep, o.MaxStep, o.Eta)
	}
	return nil
}

// Reported implements tune.Scheduler.
func (o *OptunaHyperband) Reported(v tune.View, trial int, rng *rand.Rand) tune.Decision {
	if err := o.Validate(); err != nil {
		return invalid(err)
	}
	least, eta := max(o.MinStep, 1), o.Eta
	if eta == 0 {
		eta = 3
	}
	if o.budgets == nil {
		o.budgets = OptunaBudgets(least, o.MaxStep, eta)
		rungs := float64(least)
		for range o.budgets {
			o.sets = append(o.sets, &ASHA{Rule: OptunaRule, MinStep: int(rungs + 0.5), Eta: eta})
			rungs *= eta
		}
	}
	b := optunaBracket(o.budgets, fmt.Sprint(v.Seed()), trial)
	d := o.sets[b].Reported(v, trial, rng)
	if d.Rule != "" {
		d.Rule = fmt.Sprintf("bracket %d, %s", b, d.Rule)
	}
	return d
}
