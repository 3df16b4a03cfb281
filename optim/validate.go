package optim

import (
	"fmt"
	"math"
	"path"
	"slices"
	"strings"
)

// Limits on what a config may carry, so that one that came over a network
// stays small.
const (
	maxFactors    = 10_000
	maxMilestones = 10_000
)

// Validate returns an error that names the first field that breaks a rule, its
// value and the rule.
func (c Config) Validate() error {
	r, ok := rules[c.Name]
	if !ok {
		return fmt.Errorf("optim: Name: unknown optimizer %q, want one of %s", c.Name, strings.Join(Names(), ", "))
	}
	for _, check := range []func() (field string, got any, want string){
		func() (string, any, string) { return c.checkNumbers(r) },
		func() (string, any, string) { return c.checkChoices(r) },
		c.checkSchedule,
		c.checkChanges,
		func() (string, any, string) { return checkFactors("LearningRateFactors", c.LearningRateFactors) },
		func() (string, any, string) { return checkFactors("WeightDecayFactors", c.WeightDecayFactors) },
	} {
		if field, got, want := check(); field != "" {
			return fmt.Errorf("optim: %s: %s: got %v, want %s", c.Name, field, got, want)
		}
	}
	return nil
}

// Each check below returns the first wrong field, what it holds and what it should, or an empty
// name.

// checkNumbers checks the numbers that a rule, which may not use all of them, has in its formula.
func (c *Config) checkNumbers(r rule) (field string, got any, want string) {
	for _, f := range []struct {
		name  string
		value float64
		// below is the upper bound, exclusive; zero is none.
		below float64
	}{
		{"LearningRate", c.LearningRate, 0},
		{"Momentum", c.Momentum, 1},
		{"WeightDecay", c.WeightDecay, 0},
		{"Beta1", c.Beta1, 1},
		{"Beta2", c.Beta2, 1},
		{"Epsilon", c.Epsilon, 0},
		{"Rho", c.Rho, 1},
		{"InitialAccumulator", c.InitialAccumulator, 0},
		{"L1", c.L1, 0},
		{"Beta", c.Beta, 0},
		{"TrustCoefficient", c.TrustCoefficient, 0},
		{"ClipGradient", c.ClipGradient, 0},
		{"ClipNorm", c.ClipNorm, 0},
		{"ClipGlobalNorm", c.ClipGlobalNorm, 0},
	} {
		if f.below > 0 && !(f.value >= 0 && f.value < f.below) {
			return f.name, f.value, fmt.Sprintf("at least 0 and below %v", f.below)
		}
		if !nonNegative(f.value) {
			return f.name, f.value, "a finite number, at least 0"
		}
		if f.value != 0 && !r.uses(f.name) && !common(f.name) {
			return f.name, f.value, "0: " + c.Name + " does not use it"
		}
	}
	return "", nil, ""
}

// checkChoices checks what is one of a few values, and the rescaling.
func (c *Config) checkChoices(r rule) (field string, got any, want string) {
	switch {
	case c.Centered && !r.uses("Centered"):
		return "Centered", true, "false: " + c.Name + " does not use it"
	case c.Velocity != "" && c.Velocity != Gradients:
		return "Velocity", fmt.Sprintf("%q", c.Velocity), `"" or "gradients"`
	case c.Velocity != "" && c.Momentum == 0:
		return "Velocity", fmt.Sprintf("%q", c.Velocity), `"" without Momentum`
	case math.IsNaN(c.Rescale) || math.IsInf(c.Rescale, 0):
		return "Rescale", c.Rescale, "a finite number"
	case c.ClipGlobalNorm > 0 && c.ClipNorm > 0:
		return "ClipGlobalNorm", c.ClipGlobalNorm, fmt.Sprintf("0 with ClipNorm %v: gradients are clipped by the norm of each key or by that of all keys", c.ClipNorm)
	case c.Reduction != "" && c.Reduction != Sum && c.Reduction != Mean:
		return "Reduction", fmt.Sprintf("%q", c.Reduction), `"sum" or "mean"`
	}
	return "", nil, ""
}

func (c *Config) checkSchedule() (field string, got any, want string) {
	if field, got, want = c.Schedule.check(); field != "" {
		field = "Schedule." + field
	}
	return field, got, want
}

func (c *Config) checkChanges() (field string, got any, want string) {
	if len(c.Changes) > maxMilestones {
		return "Changes", fmt.Sprintf("%d entries", len(c.Changes)), fmt.Sprintf("at most %d", maxMilestones)
	}
	for i, ch := range c.Changes {
		field := fmt.Sprintf("Changes[%d]", i)
		if !nonNegative(ch.LearningRate) {
			return field + ".LearningRate", ch.LearningRate, "a finite number, at least 0"
		}
		if i > 0 && ch.Step <= c.Changes[i-1].Step {
			return field + ".Step", ch.Step, fmt.Sprintf("above %d, the one before it", c.Changes[i-1].Step)
		}
	}
	return "", nil, ""
}

func common(field string) bool {
	return slices.Contains([]string{"LearningRate", "ClipGradient", "ClipNorm", "ClipGlobalNorm"}, field)
}

func nonNegative(x float64) bool { return x >= 0 && !math.IsInf(x, 0) }

// check returns the first wrong field, what it holds and what it should, or an
// empty name.
func (s Schedule) check() (field string, got any, want string) {
	kinds := []string{"", "factor", "multistep", "exponential", "polynomial", "cosine"}
	if !slices.Contains(kinds, s.Kind) {
		return "Kind", fmt.Sprintf("%q", s.Kind), "empty (constant) or one of " + strings.Join(kinds[1:], ", ")
	}
	if !(s.Factor >= 0 && s.Factor <= 1) {
		return "Factor", s.Factor, "above 0 and at most 1"
	}
	if !nonNegative(s.Power) {
		return "Power", s.Power, "a finite number, at least 0"
	}
	if !nonNegative(s.Final) {
		return "Final", s.Final, "a finite number, at least 0"
	}
	if !nonNegative(s.WarmupFrom) {
		return "WarmupFrom", s.WarmupFrom, "a finite number, at least 0"
	}
	if (s.Kind == "polynomial" || s.Kind == "cosine") && s.Steps <= s.Warmup {
		return "Steps", s.Steps, fmt.Sprintf("above Warmup, %d", s.Warmup)
	}
	if s.Kind == "multistep" && len(s.Milestones) == 0 {
		return "Milestones", "none", "at least one step"
	}
	if len(s.Milestones) > maxMilestones {
		return "Milestones", fmt.Sprintf("%d steps", len(s.Milestones)), fmt.Sprintf("at most %d", maxMilestones)
	}
	for i := 1; i < len(s.Milestones); i++ {
		if s.Milestones[i] <= s.Milestones[i-1] {
			return fmt.Sprintf("Milestones[%d]", i), s.Milestones[i],
				fmt.Sprintf("above %d, the one before it", s.Milestones[i-1])
		}
	}
	return "", nil, ""
}

func checkFactors(name string, list []Factor) (field string, got any, want string) {
	if len(list) > maxFactors {
		return name, fmt.Sprintf("%d entries", len(list)), fmt.Sprintf("at most %d", maxFactors)
	}
	for i, f := range list {
		if f.Keys == "" {
			return fmt.Sprintf("%s[%d].Keys", name, i), `""`, "a key or a pattern"
		}
		if _, err := path.Match(f.Keys, ""); err != nil {
			return fmt.Sprintf("%s[%d].Keys", name, i), fmt.Sprintf("%q", f.Keys), "a key or a pattern of path.Match"
		}
		if !nonNegative(f.Factor) {
			return fmt.Sprintf("%s[%d].Factor", name, i), f.Factor, "a finite number, at least 0"
		}
	}
	return "", nil, ""
}
