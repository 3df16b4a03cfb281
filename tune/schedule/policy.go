package schedule

import (
	"encoding/json"
	"fmt"

	"github.com/paragon-train/paragon/tune"
)

// A Policy is a schedule of parameters: those that a trial of a population was trained with at each
// step, including the trials that it was copied from. Training with it repeats the trial without
// the population:
//
//	for step := 1; step <= last; step++ {
//		p := policy.At(step)
//		...
//	}
type Policy []PolicyStep

// A PolicyStep has the parameters that apply after a step.
type PolicyStep struct {
	// After is the last step that was trained with the parameters before.
	After  int         `json:"after"`
	Params tune.Params `json:"params"`
	// Trial is the one of the population that trained with them.
	Trial int `json:"trial"`
}

// PolicyOf traces a trial back to its start through the log of its population (PBT.Log).
func PolicyOf(log []Exploit, v tune.View, trial int) (Policy, error) {
	t := v.Trial(trial)
	if t == nil {
		return nil, fmt.Errorf("schedule: PolicyOf: there is no trial %d of %d", trial, v.Len())
	}
	var reversed Policy
	params := t.Params
	for i := len(log) - 1; i >= 0; i-- {
		e := log[i]
		if e.Trial != trial {
			continue
		}
		reversed = append(reversed, PolicyStep{After: e.DonorStep, Params: e.After, Trial: trial})
		// What the donor was trained with then is what its next exploit changed.
		donor := v.Trial(e.Donor)
		if donor == nil {
			return nil, fmt.Errorf("schedule: PolicyOf: trial %d went on from trial %d, which is not known", trial, e.Donor)
		}
		trial, params = e.Donor, donor.Params
		for _, later := range log[i+1:] {
			if later.Trial == trial {
				params = later.Before
				break
			}
		}
	}
	policy := Policy{{After: 0, Params: params, Trial: trial}}
	for i := len(reversed) - 1; i >= 0; i-- {
		policy = append(policy, reversed[i])
	}
	return policy, nil
}

// At returns the parameters for a step.
func (p Policy) At(step int) tune.Params {
	var now tune.Params
	for i, s := range p {
		if i == 0 || s.After < step {
			now = s.Params
		}
	}
	return now
}

// ReadPolicy reads what json.Marshal wrote of a Policy.
func ReadPolicy(b []byte) (Policy, error) {
	var p Policy
	if err := json.Unmarshal(b, &p); err != nil {
		return nil, fmt.Errorf("schedule: read policy: %w", err)
	}
	if len(p) == 0 {
		return nil, fmt.Errorf("schedule: read policy: it has no steps")
	}
	for i := range p[1:] {
		if p[i+1].After < p[i].After {
			return nil, fmt.Errorf("schedule: read policy: entry %d is after step %d, the one before it after step %d", i+1, p[i+1].After, p[i].After)
		}
	}
	return p, nil
}
