package adapt

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// rules are the names that Factor knows.
var rules = []string{"adascale", "adamscale", "linear", "sqrt", "legw"}

// Rules are the names of the rules that Factor knows.
func Rules() []string { return slices.Clone(rules) }

// DefaultRule is the rule for an optimizer: "adamscale" for those that divide by a second moment,
// "adascale" for the others. Names are those of package optim.
func DefaultRule(optimizer string) string {
	switch optimizer {
	case "adam", "adamw", "rmsprop", "adagrad", "lamb":
		return "adamscale"
	}
	return "adascale"
}

// ValidateRule is an error where Factor does not know the rule or where the rule needs more of
// Progress than p has.
func ValidateRule(rule string, p Progress) error {
	_, err := Factor(rule, Noise{}, 1, p)
	return err
}

// Factor is what the learning rate, chosen at the initial batch size, is multiplied by for the one
// step at this scale. The stored rate stays as it is. Each parameter group has the factor of its
// own noise.
//
//	adascale   r(S), the gain (arXiv 2007.05105); for SGD
//	adamscale  √r(S), with the noise of the preconditioned gradient; for Adam's family
//	linear     S
//	sqrt       √S
//	legw       √S · min(p/T, 1), T = W·S·|D|/M0 (arXiv 1901.08256): a warm-up of W epochs at M0 becomes one of W·S epochs
//
// S is scale, p is Progress.Steps, W Progress.WarmupEpochs, |D| Progress.Examples, M0
// Progress.InitialBatch. Only legw reads Progress.
func Factor(rule string, n Noise, scale float64, p Progress) (float64, error) {
	if !slices.Contains(rules, rule) {
		return 0, fmt.Errorf("adapt: learning-rate rule %q is unknown, want one of %s", rule, strings.Join(rules, ", "))
	}
	if !(scale > 0) || !finite(scale) {
		return 0, fmt.Errorf("adapt: learning-rate rule %s: scale is %g, want a positive number", rule, scale)
	}
	switch rule {
	case "adascale":
		return n.Gain(scale), nil
	case "adamscale":
		return math.Sqrt(n.Gain(scale)), nil
	case "linear":
		return scale, nil
	case "sqrt":
		return math.Sqrt(scale), nil
	}
	if !(p.WarmupEpochs >= 0) || !finite(p.WarmupEpochs) {
		return 0, fmt.Errorf("adapt: learning-rate rule legw: Progress.WarmupEpochs is %g, want at least 0", p.WarmupEpochs)
	}
	if p.WarmupEpochs == 0 {
		return math.Sqrt(scale), nil
	}
	if err := p.Validate(); err != nil {
		return 0, fmt.Errorf("adapt: learning-rate rule legw: %w", err)
	}
	steps := p.WarmupEpochs * scale * p.epochSteps()
	return math.Sqrt(scale) * min(p.Steps/steps, 1), nil
}
