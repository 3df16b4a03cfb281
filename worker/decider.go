package worker

import (
	"time"

	"github.com/paragon-train/paragon/adapt"
)

// A decider is rank 0's choice of the batch. It does nothing by itself: choose makes a wish, the
// agreement of a step tells it to all workers, and they change together.
type decider struct {
	decisions []Decision
	profile   profile
	// model predicts the time of steps, since fitted; nil: it is not fitted.
	model  adapt.Model
	fitted time.Time
	// since are the examples of the job since the last choice.
	since int
	// blocks is the number of blocks of measurements when the batch or the workers last
	// changed.
	blocks int
	// wish is what the workers are to change to; nil: nothing.
	wish *batch
}

// A situation is what a choice is made by, after some number of steps.
type situation struct {
	// nodes and workers are the placement, and leads says that this worker is rank 0.
	nodes, workers int
	leads          bool
	steps          uint64
	batch          batch
	// perRun is how many examples a run has in a full step, and examples those of a pass.
	perRun, examples int
	limits           batchLimits
	// noise is that of the gradient, as far as the measurements bear it out, and bounded says
	// that they do. measured says that there are any, in so many blocks.
	noise             adapt.Noise
	bounded, measured bool
	blocks            int
}

const (
	refitAfter = 30 * time.Second
	// choicesOfPass is the most choices in a pass over the data.
	choicesOfPass = 8
	// worthIt is how much more goodput a change must promise.
	worthIt = 1.05
	// leastSteps are timed with the present batch before another one is chosen, and leastFresh
	// are blocks of measurements with it before a larger one is.
	leastSteps = 8
	leastFresh = 4
	// mostChange: a batch is at most so many times the one before, or that part of it.
	mostChange = 2

	// leastEfficiency is the efficiency of the largest batch that is chosen. A step's noise in
	// the parameters goes with the learning rate over the batch: where the rate grows by the
	// gain, that ratio becomes the efficiency's part of what it is at the initial batch. With
	// little noise left, training ends where test data fits worse (arXiv 1609.04836,
	// 1710.06451). Besides, a doubling from there on makes a step worth at most a quarter more.
	leastEfficiency = 0.4
	// keptEfficiency is the efficiency below which a batch becomes smaller: it lies lower, so
	// that a batch does not go up and down with each measurement.
	keptEfficiency = 0.32
)

func newDecider(cfg *AdaptConfig) decider {
	d := decider{decisions: cfg.Decisions}
	d.profile.changed()
	return d
}

// changed drops what was true of the steps before: the batch, the programs, the pass or the workers
// are others now, and so many blocks were measured.
func (d *decider) changed(blocks int) {
	d.wish = nil
	d.blocks = blocks
	d.profile.changed()
}

// workersChanged makes the next choice soon. A pass has so many examples.
func (d *decider) workersChanged(examples int) { d.since, d.model = examples, nil }

// lanes puts the wish of this rank where all workers see it: rank 0's.
func (d *decider) lanes(flags []float32, rank int) {
	if d.wish != nil && rank == 0 {
		flags[laneWish], flags[laneLocalBatch], flags[laneAccumulation] = 1, float32(d.wish.LocalBatch), float32(d.wish.Accumulation)
	}
}

// replay returns the decision that is due after so many steps.
func (d *decider) replay(steps uint64) (b batch, ok bool) {
	for _, x := range d.decisions {
		if x.Step == steps {
			return batch{x.LocalBatch, x.Accumulation}, true
		}
	}
	return b, false
}

// ready counts a step with so many examples on all workers, and reports whether it is time for a
// choice.
func (d *decider) ready(s situation, global int) bool {
	d.since += global
	if d.wish != nil || !s.leads || d.since < s.examples/choicesOfPass || !s.measured {
		return false
	}
	if d.profile.find(s.nodes, s.workers, s.perRun).Steps < leastSteps {
		return false
	}
	d.since = 0
	return true
}

// refit fits the model if it is too old.
func (d *decider) refit(now time.Time, fit func([]adapt.Timing) (adapt.Model, error)) error {
	if d.model != nil && now.Sub(d.fitted) < refitAfter {
		return nil
	}
	model, err := fit(d.profile.Timings())
	if err != nil {
		return err
	}
	d.model, d.fitted = model, now
	return nil
}

// choose wishes for another batch if one promises more and there are programs for it. The batch
// stays until the noise is measured. A size that cannot be compiled lowers the limit, and the next
// best one is tried.
func (d *decider) choose(s situation, p *programSets) error {
	if !s.bounded || len(d.decisions) > 0 || s.limits.configured.MaxBatch == 0 {
		return nil
	}
	for {
		best, ok := d.best(s, p)
		if !ok || best == s.batch {
			return nil
		}
		size := p.sizeFor(best.LocalBatch)
		if err := p.compile(best.LocalBatch); err != nil {
			return err
		}
		if p.failed[size] && size > p.base {
			s.limits.runs = min(s.limits.runs, p.most())
			continue
		}
		d.wish = &best
		return nil
	}
}

// goodput is that of the job by what is known now: a gain counts as far as the measurements bear it
// out.
func (d *decider) goodput(s situation) adapt.Goodput {
	return adapt.Goodput{Model: d.model, Noise: s.noise, InitialBatch: s.limits.initial}
}

// fresh reports whether enough was measured since the batch last changed that it may grow again.
// Where all was forgotten since, the count begins anew.
func (d *decider) fresh(blocks int) bool {
	if blocks < d.blocks {
		d.blocks = 0
	}
	return blocks-d.blocks >= leastFresh
}

// limitsFor are those of the batches of so many workers, among them that no batch has less than
// this efficiency, as far as the noise is borne out.
func (s situation) limitsFor(workers int, efficiency float64) adapt.Limits {
	l := s.limits.configured
	l.MaxLocal = s.limits.runs
	initial := s.limits.initial
	if most := s.noise.LargestScale(efficiency) * float64(initial); most < float64(l.MaxBatch) {
		least := max((initial-1)/workers+1, l.MinLocal)
		l.MaxBatch = min(max(int(most), least*workers), l.MaxBatch)
	}
	return l
}

// best is the batch with the highest goodput that is worth the change; not ok if none is, or none
// is within the limits. It is at most twice the present one, or half of it, and not larger before
// there are fresh measurements. A batch whose efficiency has become too low gets smaller, whatever
// the goodput.
func (d *decider) best(s situation, p *programSets) (b batch, ok bool) {
	g, limits := d.goodput(s), s.limitsFor(s.workers, leastEfficiency)
	initial, per := s.limits.initial, s.batch.perStep()
	most := per * s.workers
	waste := most > max(s.limitsFor(s.workers, keptEfficiency).MaxBatch, initial)
	if d.fresh(s.blocks) {
		most *= mostChange
	}
	least := (per-1)/mostChange + 1
	limits.MaxBatch = min(max(limits.MaxBatch, least*s.workers), max(most, initial))
	choice, err := g.Best(s.nodes, s.workers, limits)
	if err != nil {
		return b, false
	}
	search := batchSearch{g, s, limits}
	choice = search.fewerRuns(choice)
	b = batch{LocalBatch: choice.LocalBatch, Accumulation: choice.Accumulation}
	goodput := choice.Goodput
	if near, rate := search.near(choice, p); rate > 0 {
		b, goodput = near, rate
	}
	if b.perStep() < least {
		local, accumulation, ok := limits.Nearest(initial, s.workers, least)
		if !ok {
			return b, false
		}
		b = batch{local, accumulation}
		goodput = search.rate(b)
	}
	return b, !(goodput <= worthIt*search.rate(s.batch)) || waste
}

// A batchSearch looks for a batch beside the one with the highest goodput.
type batchSearch struct {
	goodput   adapt.Goodput
	situation situation
	limits    adapt.Limits
}

func (x *batchSearch) rate(b batch) float64 {
	return x.goodput.At(x.situation.nodes, x.situation.workers, b.LocalBatch, b.Accumulation)
}

func (x *batchSearch) allows(b batch) bool {
	return x.limits.Allows(x.situation.limits.initial, x.situation.workers, b.LocalBatch, b.Accumulation)
}

// fewerRuns is the choice with the fewest runs that has nearly its goodput. A batch of a prime
// number of examples would be that many runs of one example, for the sake of one example more:
// batch normalisation then has nothing to take means of.
func (x *batchSearch) fewerRuns(choice adapt.Choice) adapt.Choice {
	const nearly = 0.97
	per := choice.LocalBatch * (choice.Accumulation + 1)
	for s := range choice.Accumulation {
		b := batch{per / (s + 1), s}
		if !x.allows(b) {
			continue
		}
		if rate := x.rate(b); rate >= nearly*choice.Goodput {
			return adapt.Choice{LocalBatch: b.LocalBatch, Accumulation: s, Goodput: rate}
		}
	}
	return choice
}

// near is the best batch beside the choice that fills programs of the sizes that there are to be,
// which are 2ⁿ and 3·2ⁿ; rate 0: there is none within the limits.
func (x *batchSearch) near(choice adapt.Choice, p *programSets) (best batch, rate float64) {
	above := p.sizeFor(choice.LocalBatch) * p.devices()
	for _, local := range []int{above, above * 3 / 4, above * 2 / 3} {
		if local < 1 || p.sizeFor(local)*p.devices() != local {
			continue
		}
		for s := max(0, choice.Accumulation-1); s <= choice.Accumulation+1; s++ {
			b := batch{local, s}
			if !x.allows(b) {
				continue
			}
			if r := x.rate(b); r > rate {
				best, rate = b, r
			}
		}
	}
	return best, rate
}
