package curvetest

import (
	"fmt"
	"math"
	"math/rand/v2"
)

// The kinds of learning curves.
const (
	// Steady curves have about the same shape: an early report ranks trainings as the last one
	// does.
	Steady = "steady"
	// Crossing curves: a high learning rate learns fast and ends badly, a good one learns
	// slowly.
	Crossing = "crossing"
	// Late bloomers are at chance for a time that has little to do with how they end.
	Late = "late bloomers"
	// Divergence: past some learning rate a training is good for a while, and then falls to
	// chance or reports NaN. The best learning rate is close.
	Divergence = "divergence"
	// Noise: a report is off by several points.
	Noise = "noise"
	// Plateaus: trainings stay where they are for long, at different heights, and then improve.
	Plateaus = "plateaus"
	// Phases: the learning rate drops late, and trainings jump, the more the higher it was.
	Phases = "two phases"
	// Lengths: the last step is a parameter or trainings end early by themselves, and a step's
	// time depends on parameters.
	Lengths = "lengths"
)

// Kinds are the kinds in the order of tables.
func Kinds() []string {
	return []string{Steady, Crossing, Late, Divergence, Noise, Plateaus, Phases, Lengths}
}

// perKind is how many problems a kind has for tuning, and as many for judging.
const perKind = 2

// Tuning are problems of every kind to choose constants by.
func Tuning() []Problem { return half(0) }

// Judging are problems of every kind to judge by. No constant is chosen by them.
func Judging() []Problem { return half(1) }

func half(which int) []Problem {
	var all []Problem
	for _, kind := range Kinds() {
		for i := range perKind {
			all = append(all, Draw(kind, uint64(2*i+which)))
		}
	}
	return all
}

// Draw draws a problem of a kind. Even seeds are for tuning, odd ones for judging; Tuning and
// Judging have the lowest of them.
func Draw(kind string, seed uint64) Problem {
	number := -1
	for i, k := range Kinds() {
		if k == kind {
			number = i
		}
	}
	if number < 0 {
		panic(fmt.Sprintf("curvetest: kind %q: want one of %q", kind, Kinds()))
	}
	rng := rand.New(rand.NewPCG(seed, 0xc04e5+uint64(number)))
	lasts := []int{27, 50, 81, 100}
	p := Problem{
		Name:   fmt.Sprintf("%s %d", kind, seed),
		Kind:   kind,
		Last:   lasts[(seed/2+seed+uint64(number))%4],
		Best:   between(rng, 70, 97),
		Chance: []float64{1, 10, 50}[rng.IntN(3)],
		noise:  between(rng, 0.2, 0.8),
		warmup: between(rng, 0.02, 0.06),
		offset: between(rng, 0.05, 0.3),
	}
	if p.Chance == 50 {
		p.Best = between(rng, 88, 98)
	}
	n := 2 + int((seed*3+uint64(number)*2)%7)
	if kind != Steady && kind != Noise {
		// The curves depend on three numbers.
		n = max(n, 3)
	}
	if kind == Lengths {
		// There are n+1 values of steps.
		n = min(n, 7)
	}
	p.Space, p.surface = drawSurface(rng, n, p.Best, p.Chance)
	base := saturating{rate: between(rng, 2.5, 5), speed: 1}
	switch kind {
	case Steady:
		base.speed = 0.2
		p.curve = base
	case Crossing:
		p.curve = crossing{slow: between(rng, 0.5, 1), ratio: between(rng, 20, 40), byRate: between(rng, 4, 7), byLoss: between(rng, 4.5, 6)}
	case Late:
		p.curve = late{from: between(rng, 0.05, 0.12), to: between(rng, 0.65, 0.8), width: between(rng, 0.03, 0.07), byOther: between(rng, 3, 5)}
	case Divergence:
		p.curve = breaking{saturating: base, margin: between(rng, 0.03, 0.08), soon: between(rng, 0.3, 0.5), chance: p.Chance, nan: seed/2%2 == 0}
	case Noise:
		p.curve = base
		p.noise, p.offset = between(rng, 2, 4), between(rng, 0.3, 1)
	case Plateaus:
		p.curve = plateau{saturating: base, height: between(rng, 0.4, 0.6), spread: between(rng, 0.8, 1.4), until: between(rng, 0.45, 0.65)}
	case Phases:
		p.curve = phases{saturating: base, drops: []float64{between(rng, 0.45, 0.6), between(rng, 0.72, 0.85)}[:1+rng.IntN(2)], gap: between(rng, 0.2, 0.35)}
	case Lengths:
		p.curve = base
		p.setLengths(rng, seed)
	}
	return p
}

// setLengths makes the number of steps or the time of a step depend on the parameters.
func (p *Problem) setLengths(rng *rand.Rand, seed uint64) {
	if seed/2%2 == 0 {
		p.length.patience = true
	} else {
		p.length.epochs = "epochs"
		p.Space, p.surface = withEpochs(rng, p.Space, p.surface, p.Last)
	}
	p.length.width = p.surface.axes[1].param.Name
}

// saturating is the curve (1 − e^(−rate·x)) / (1 − e^(−rate)), somewhat faster with a higher
// learning rate.
type saturating struct{ rate, speed float64 }

func (s saturating) part(c *place, x float64) float64 {
	return saturate(s.rate*math.Exp(0.6*c.rate+s.speed*c.speed), x)
}

// saturate grows from 0 at x = 0 to 1 at x = 1, the faster at first the larger the rate.
func saturate(rate, x float64) float64 { return -math.Expm1(-rate*x) / -math.Expm1(-rate) }

// sigmoid is the logistic function.
func sigmoid(x float64) float64 { return 1 / (1 + math.Exp(-x)) }

// crossing has a rate from slow to slow·ratio: fast with a high learning rate, and where the end is
// bad.
type crossing struct{ slow, ratio, byRate, byLoss float64 }

func (s crossing) part(c *place, x float64) float64 {
	return saturate(s.slow*math.Pow(s.ratio, sigmoid(s.byRate*c.rate+s.byLoss*(1-c.quality)-2.5)), x)
}

// late rises as a sigmoid in the middle of a time from..to, which depends on two parameters.
type late struct{ from, to, width, byOther float64 }

func (s late) part(c *place, x float64) float64 {
	middle := s.from + (s.to-s.from)*sigmoid(s.byOther*(c.along-c.across)-2*c.rate)
	at := func(x float64) float64 { return sigmoid((x - middle) / s.width) }
	rise := (at(x) - at(0)) / (at(1) - at(0))
	return 0.06*saturate(4, x) + 0.94*rise
}

// breaking diverges where the learning rate, for its other parameter, is more than margin above the
// best one: sooner the higher it is.
type breaking struct {
	saturating
	margin, soon float64
	chance       float64
	nan          bool
}

func (s breaking) broken(c *place, x float64) (float64, bool) {
	beyond := c.rate + 0.15*c.along - s.margin
	if beyond <= 0 || x < 0.8*math.Exp(-beyond/s.soon) {
		return 0, false
	}
	if s.nan {
		return math.NaN(), true
	}
	return s.chance, true
}

func (s breaking) part(c *place, x float64) float64 {
	return saturate(s.rate*math.Exp(4*c.rate+0.5*s.speed*c.speed), x)
}

// plateau stays at a part of the final accuracy until a time, both of which depend on the
// parameters.
type plateau struct {
	saturating
	height, spread, until float64
}

func (s plateau) part(c *place, x float64) float64 {
	height := min(max(s.height+s.spread*(0.5*c.along+0.35*c.rate), 0.12), 0.95)
	until := min(max(s.until+0.5*c.across, 0.2), 0.85)
	first := height * saturate(12, x)
	if x <= until {
		return first
	}
	then := saturate(4, (x-until)/(1-until))
	return first + (1-height*saturate(12, 1))*then
}

// phases stays below where it ends by gap, more with a higher learning rate, and jumps when the
// learning rate drops.
type phases struct {
	saturating
	drops []float64
	gap   float64
}

func (s phases) part(c *place, x float64) float64 {
	gap := min(max(s.gap*(1+4*c.rate), 0.01), 0.7)
	part := s.saturating.part(c, min(2.5*x, 1)) * (1 - gap)
	for _, at := range s.drops {
		if x > at {
			part += gap / float64(len(s.drops)) * saturate(6, min((x-at)/(1-s.drops[len(s.drops)-1]), 1))
		}
	}
	return part
}
