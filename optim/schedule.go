package optim

import "math"

// A Schedule gives the learning rate of each step. Steps count from 0, and the
// rate of step s is the one that update s uses.
//
// Below, η₀ is Config.LearningRate:
//
//	""           η₀
//	factor       max(η₀·Factor^⌊s/Every⌋, Final)
//	multistep    max(η₀·Factor^(number of Milestones ≤ s), Final)
//	exponential  max(η₀·Factor^(s/Every), Final)
//	polynomial   Final + (η₀−Final)·(1−p)^Power
//	cosine       Final + (η₀−Final)·(1+cos πp)/2
//
// with p = (s−Warmup)/(Steps−Warmup), held at 1 from step Steps on. In the
// first Warmup steps the rate rises in a straight line instead, from
// WarmupFrom: it is WarmupFrom + (η₀−WarmupFrom)·(s+1)/Warmup.
type Schedule struct {
	// Kind is one of the names above. Empty is constant.
	Kind string `json:"kind,omitempty"`
	// Every is the length of a stair of factor, and of exponential's unit, in
	// steps. Zero means 1.
	Every uint64 `json:"every,omitempty"`
	// Factor is what one stair multiplies by, in (0, 1]. Zero means 0.1.
	Factor float64 `json:"factor,omitempty"`
	// Milestones are the steps at which multistep goes one stair down; they
	// must rise.
	Milestones []uint64 `json:"milestones,omitempty"`
	// Steps is the step at which polynomial and cosine arrive at Final. It
	// includes the warm-up and must be above it.
	Steps uint64 `json:"steps,omitempty"`
	// Power is polynomial's exponent. Zero means 2, as in MXNet; 1 is a line.
	Power float64 `json:"power,omitempty"`
	// Final is the lowest rate. Zero is zero.
	Final float64 `json:"final,omitempty"`
	// Warmup is the number of steps of warm-up. Zero is none.
	Warmup uint64 `json:"warmup,omitempty"`
	// WarmupFrom is where the warm-up's line starts. Zero is zero.
	WarmupFrom float64 `json:"warmup_from,omitempty"`
}

func (s Schedule) withDefaults() Schedule {
	switch s.Kind {
	case "factor", "exponential", "multistep":
		if s.Every == 0 && s.Kind != "multistep" {
			s.Every = 1
		}
		if s.Factor == 0 {
			s.Factor = 0.1
		}
	case "polynomial":
		if s.Power == 0 {
			s.Power = 2
		}
	}
	if len(s.Milestones) == 0 {
		s.Milestones = nil
	}
	return s
}

// LearningRateAt returns the learning rate that update number step uses,
// before a key's factor.
func (c Config) LearningRateAt(step uint64) float64 { return c.LearningRateBy(step, float64(step)) }

// LearningRateBy is LearningRateAt with the schedule read at progress, which
// need not be whole, in place of step: for jobs whose steps are worth more or
// less than one of the schedule's. Changes go by step.
func (c Config) LearningRateBy(step uint64, progress float64) float64 {
	base := c.LearningRate
	if base == 0 {
		base = rules[c.Name].learningRate
	}
	for i := len(c.Changes) - 1; i >= 0; i-- {
		if c.Changes[i].Step <= step {
			return c.Changes[i].LearningRate
		}
	}
	return c.Schedule.withDefaults().at(base, progress)
}

// at returns the rate at a step; between two steps the formulas are taken as they are, and the
// warm-up ends at base.
func (s Schedule) at(base, step float64) float64 {
	if step < float64(s.Warmup) {
		return s.WarmupFrom + (base-s.WarmupFrom)*min(step+1, float64(s.Warmup))/float64(s.Warmup)
	}
	progress := 1.0
	if step < float64(s.Steps) {
		progress = (step - float64(s.Warmup)) / float64(s.Steps-s.Warmup)
	}
	switch s.Kind {
	case "factor":
		return max(base*math.Pow(s.Factor, math.Floor(step/float64(s.Every))), s.Final)
	case "multistep":
		n := 0
		for _, m := range s.Milestones {
			if float64(m) <= step {
				n++
			}
		}
		return max(base*math.Pow(s.Factor, float64(n)), s.Final)
	case "exponential":
		return max(base*math.Pow(s.Factor, step/float64(s.Every)), s.Final)
	case "polynomial":
		return s.Final + (base-s.Final)*math.Pow(1-progress, s.Power)
	case "cosine":
		return s.Final + (base-s.Final)*(1+math.Cos(math.Pi*progress))/2
	}
	return base
}
