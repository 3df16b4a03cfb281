package worker

import (
	"math"

	"github.com/paragon-train/paragon/optim"
)

// normEvery: of one step in so many the servers take the norm of the mean gradient, for people to
// look at. It costs them up to 5 % of a round, and so at most 0.1 % of a step of which rounds are a
// third.
const normEvery = 16

// canMeasureNorm reports whether the servers can take the norm of the trainer's gradients at next
// to no cost: the optimizer is there, and is not of Adam's family, for which they would take
// another norm at a larger cost.
func (t *Trainer) canMeasureNorm() bool {
	if t.update != nil || t.local != nil {
		return false
	}
	o, err := optim.New(t.cfg.Optimizer)
	return err == nil && !o.HasSecondMoment()
}

// measuresNorm reports whether the step to come is measured. All workers have the same step. With
// one worker the servers would have to compare rounds.
func (t *Trainer) measuresNorm() bool {
	if !t.measurable || t.steps%normEvery != 0 || t.cfg.Store.NumWorkers() < 2 {
		return false
	}
	store, ok := t.cfg.Store.(interface{ MeasuresNorms() bool }) // compression may have been set since
	return ok && store.MeasuresNorms()
}

// takeNorm takes what the servers have measured of the last step, whose exchanges have all
// returned.
func (t *Trainer) takeNorm() {
	if !t.normed {
		return
	}
	t.normed = false
	sum, count := 0.0, 0
	for i, key := range t.keys {
		n, ok := t.cfg.Store.Norms(key)
		if i == 0 {
			count = n.Count
		}
		if !ok || n.Count != count || n.Biased {
			return // a worker was lost between its pushes of two keys, or the guard has refused some
		}
		sum += n.SqrMean
	}
	t.norm = math.Sqrt(sum)
}
