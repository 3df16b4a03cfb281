package curvetest

import (
	"math"
	"math/rand/v2"

	"github.com/paragon-train/paragon/tune"
)

// A Problem is a family of learning curves over a search space.
type Problem struct {
	Name string
	// Kind is one of Kinds.
	Kind  string
	Space tune.Space
	// Last is the last step of the longest trainings. Steps begin at 1.
	Last int
	// Best is the greatest final accuracy of the space, Chance what a training has that learned
	// nothing.
	Best, Chance float64

	surface surface
	curve   curve
	length  length
	// noise is the standard deviation of a report, offset that of what a training has from its
	// own seed.
	noise, offset float64
	// warmup is the part of the steps in which a training begins to learn.
	warmup float64
}

// A curve gives the part of the way from chance to the final accuracy that a training has gone at
// x, a part of its steps in (0, 1]. It is 1 at x = 1.
type curve interface {
	part(c *place, x float64) float64
}

// diverging is a curve of trainings some of which diverge.
type diverging interface {
	// broken says whether the training has diverged at x, and what it reports then.
	broken(c *place, x float64) (value float64, is bool)
}

// A place is a point of the space as curves see it.
type place struct {
	// rate is how far the learning rate is above its best one, in units of its range; along and
	// across are the same of two other parameters, 0 where the point or the space does not have
	// them.
	rate, along, across float64
	// speed is by how much the training learns faster than one at the best point, as the
	// logarithm of a factor of about 1. It has nothing to do with how it ends.
	speed float64
	// final is the accuracy at the end if the training does not diverge, quality how far it is
	// on the way from chance to the best one, from 0 to 1.
	final, quality float64
}

// A length is how long trainings take.
type length struct {
	// epochs, if not "", is the parameter with the number of steps.
	epochs string
	// patience says that some trainings end by themselves before their last step, those that
	// learn fast.
	patience bool
	// width, if not "", is the parameter on which the seconds of a step depend.
	width string
}

func (p *Problem) place(q tune.Params) place {
	c := place{quality: math.Exp(-p.surface.loss(q))}
	c.final = p.Chance + (p.Best-p.Chance)*c.quality
	c.rate = p.surface.distance(q, 0)
	c.along = p.surface.distance(q, 1)
	c.across = p.surface.distance(q, 2)
	c.speed = p.surface.speed(q)
	return c
}

// Steps is the last step of a training with these parameters.
func (p *Problem) Steps(q tune.Params) int {
	steps := p.Last
	if p.length.epochs != "" {
		steps = q.Int(p.length.epochs)
	}
	if p.length.patience {
		c := p.place(q)
		steps = int(math.Round(float64(steps) * min(1, 0.6-1.2*c.rate)))
		steps = min(max(steps, p.Last/5), p.Last)
	}
	return steps
}

// Seconds is how long a step takes. A full training of most problems takes a second for each of
// Last steps; where trainings differ it is about that on average over the space.
func (p *Problem) Seconds(q tune.Params) float64 {
	if p.length.width == "" {
		return 1
	}
	w, _ := p.Space.Param(p.length.width)
	v, _ := q.Get(p.length.width)
	return 0.55 * math.Pow(4, w.ToUnit(v)) // 0.55 to 2.2
}

// FullTraining is the seconds of training that count as one full training.
func (p *Problem) FullTraining() float64 { return float64(p.Last) }

// True is the accuracy at a step without noise; NaN, or chance, after a divergence.
func (p *Problem) True(q tune.Params, step int) float64 {
	c := p.place(q)
	x := min(float64(step)/float64(p.Steps(q)), 1)
	if d, ok := p.curve.(diverging); ok {
		if v, broken := d.broken(&c, x); broken {
			return v
		}
	}
	begun := math.Expm1(-square(x/p.warmup)) / math.Expm1(-square(1/p.warmup))
	return p.Chance + (c.final-p.Chance)*p.curve.part(&c, x)*begun
}

// square is x².
func square(x float64) float64 { return x * x }

// Final is the accuracy at the end, without noise. A training that diverges ends with chance.
func (p *Problem) Final(q tune.Params) float64 {
	v := p.True(q, p.Steps(q))
	if math.IsNaN(v) {
		return p.Chance
	}
	return v
}

// Value is what a training with this seed reports at a step: the accuracy of True with noise,
// within 0 and 100, or NaN.
func (p *Problem) Value(q tune.Params, step int, seed uint64) float64 {
	v := p.True(q, step)
	if math.IsNaN(v) {
		return v
	}
	if p.offset > 0 {
		v += p.offset * rand.New(rand.NewPCG(seed, 0)).NormFloat64()
	}
	v += p.noise * rand.New(rand.NewPCG(seed, uint64(step))).NormFloat64()
	return min(max(v, 0), 100)
}
