package schedule

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/paragon-train/paragon/tune"
)

// Explore says how population-based training changes parameters: each mutated parameter is either
// resampled from its distribution, or moved: a choice to a neighbour in the list, a number by one
// of Factors.
type Explore struct {
	// Mutate names the parameters that change. Nil is all searched parameters that are not
	// fixed for the trial.
	Mutate []string
	// Resample is the probability of resampling. Zero is 0.25; below zero is never.
	Resample float64
	// Factors are what a number is multiplied by, each as likely. Zeros are 1.2 and 0.8.
	Factors [2]float64
	// Unclipped lets numbers leave the parameter's bounds, as Ray Tune does. Such parameters
	// are outside the space, and a study refuses them; it is for calls of From only.
	Unclipped bool
	// Custom, if not nil, changes the result further. It must depend only on its arguments.
	Custom func(p tune.Params, rng *rand.Rand) (tune.Params, error)
}

// validate says what is wrong with the fields.
func (e *Explore) validate() error {
	if e.Resample > 1 || e.Factors[0] < 0 || e.Factors[1] < 0 {
		return fmt.Errorf("schedule: Explore: Resample %v, Factors %v: want at most 1, and numbers above 0", e.Resample, e.Factors)
	}
	return nil
}

// From returns the donor's parameters, changed, and says how in a few words. fixed are kept.
func (e *Explore) From(space tune.Space, donor, fixed tune.Params, rng *rand.Rand) (tune.Params, string, error) {
	resample := e.Resample
	if resample == 0 {
		resample = 0.25
	}
	factors := e.Factors
	if factors == [2]float64{} {
		factors = [2]float64{1.2, 0.8}
	}
	changed := make(map[string]any)
	var how []string
	for _, p := range space {
		value, ok := donor.Get(p.Name)
		if !ok || !p.Searched() || !p.Active(donor) || fixed.Has(p.Name) || e.Mutate != nil && !slices.Contains(e.Mutate, p.Name) {
			continue
		}
		next := e.move(p.Spec, value, resample, factors, rng)
		changed[p.Name] = next
		if next != value {
			how = append(how, fmt.Sprintf("%s %v → %v", p.Name, value, next))
		}
	}
	if e.Unclipped {
		for name, value := range changed {
			var err error
			if donor, err = donor.With(name, value); err != nil {
				return tune.Params{}, "", err
			}
		}
		return donor, describe(how), nil
	}
	out, err := space.Fill(fixed, func(p tune.Param, _ tune.Params) (any, error) {
		if v, ok := changed[p.Name]; ok {
			if v, err := p.Check(v); err == nil {
				return v, nil
			}
		}
		if v, ok := donor.Get(p.Name); ok {
			if v, err := p.Check(v); err == nil {
				return v, nil
			}
		}
		// The donor did not have the branch of the parameter.
		return p.Sample(rng), nil
	})
	if err == nil && e.Custom != nil {
		out, err = e.Custom(out, rng)
	}
	return out, describe(how), err
}

// describe joins what was changed, for the log.
func describe(how []string) string {
	if len(how) == 0 {
		return "the same parameters"
	}
	return strings.Join(how, ", ")
}

// move changes one value. Integers are cut, not rounded, as Ray Tune does.
func (e *Explore) move(p tune.Spec, value any, resample float64, factors [2]float64, rng *rand.Rand) any {
	if rng.Float64() < resample {
		return p.Sample(rng)
	}
	up := rng.IntN(2) == 0
	switch p.Kind {
	case tune.KindBool, tune.KindChoice:
		i := slices.IndexFunc(p.Values, func(v any) bool { return v == value })
		if i < 0 {
			return p.Sample(rng)
		}
		if up {
			return p.Values[min(i+1, len(p.Values)-1)]
		}
		return p.Values[max(i-1, 0)]
	}
	factor := factors[1]
	if up {
		factor = factors[0]
	}
	switch n := value.(type) {
	case int64:
		next := int64(math.Trunc(float64(n) * factor))
		if !e.Unclipped {
			return p.Snap(float64(next))
		}
		return next
	case float64:
		if !e.Unclipped {
			return p.Snap(n * factor)
		}
		return n * factor
	}
	return p.Sample(rng)
}
