package worker

import (
	"time"

	"github.com/paragon-train/paragon/adapt"
)

// A decider is rank 0's choice of the batch. The others only keep the profile that they got.
type decider struct {
	a       *adaptation
	profile profile
	model   adapt.Model // nil: not fitted
	fitted  time.Time   // when
	since   int         // examples of the job since the last choice
	blocks  int         // of measurements, when the batch or the workers last changed
	wish    batch       // what the workers are to change to
	wishing bool
	workers int // that rank 0 wishes the job to have; 0: no wish
	reason  string

	changes  int           // of the membership that this worker has taken part in
	changing time.Duration // which all workers waited for them

	reported    time.Time
	misreported bool // an error was logged
}

const (
	refitAfter    = 30 * time.Second
	choicesOfPass = 8    // at most so many choices in a pass over the data
	worthIt       = 1.05 // a change must promise so much more goodput
	leastSteps    = 8    // timed with the present batch before another one is chosen
	leastFresh    = 4    // blocks of measurements with the present batch before a larger one is chosen
	mostChange    = 2    // a batch is at most so many times the one before, or that part of it

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

func (d *decider) init(a *adaptation) {
	d.a = a
	d.profile.changed()
}

func (d *decider) now() time.Time {
	if d.a.cfg.now != nil {
		return d.a.cfg.now()
	}
	return time.Now()
}

// changed drops what was true of the steps before: the batch, the programs, the pass or the workers
// are others now.
func (d *decider) changed() {
	d.wishing = false
	d.blocks = d.a.estimators.Blocks()
	d.profile.changed()
}

// workersChanged makes the next choice soon: the last one was for another number of workers.
func (d *decider) workersChanged() {
	d.workers, d.reason = 0, ""
	d.since, d.model = d.a.progress.Examples, nil
}

// lanes puts the wish where all workers see it.
func (d *decider) lanes(flags []float32) {
	if d.wishing && d.a.trainer.cfg.Store.Rank() == 0 {
		flags[laneWish], flags[laneLocalBatch], flags[laneAccumulation] = 1, float32(d.wish.LocalBatch), float32(d.wish.Accumulation)
	}
}

// replay returns the decision that is due before the next step.
func (d *decider) replay() (b batch, ok bool) {
	for _, x := range d.a.cfg.Decisions {
		if x.Step == d.a.trainer.Steps() {
			return batch{x.LocalBatch, x.Accumulation}, true
		}
	}
	return b, false
}

// choose makes rank 0 wish for another batch if one promises more, after each step that all workers
// have done; workers and nodes are the placement.
func (d *decider) choose(nodes, workers int) error {
	a := d.a
	d.since += a.global
	if d.wishing || a.trainer.cfg.Store.Rank() != 0 || d.since < a.progress.Examples/choicesOfPass || !a.estimators.Measured() {
		return nil
	}
	if d.profile.find(nodes, workers, a.runOf()).Steps < leastSteps {
		return nil
	}
	d.since = 0
	if now := d.now(); d.model == nil || now.Sub(d.fitted) >= refitAfter {
		model, err := d.fit()
		if err != nil {
			return nil // a clock that stands
		}
		d.model, d.fitted = model, now
	}
	d.wishWorkers(nodes, workers)
	if _, ok := a.estimators.Bound(); !ok {
		return nil // the noise is not measured yet: the batch stays
	}
	for len(a.cfg.Decisions) == 0 && a.cfg.MaxBatch > 0 { // until programs for the best batch are there
		best, ok := d.best(nodes, workers)
		if !ok || best == a.batch {
			return nil
		}
		size := a.programs.sizeFor(best.LocalBatch)
		if err := a.programs.compile(best.LocalBatch); err != nil {
			return err
		}
		if a.programs.failed[size] && size > a.programs.base {
			continue // which has lowered the limit
		}
		d.wish, d.wishing = best, true
		return nil
	}
	return nil
}

// goodput is that of the job by what is known now: a gain counts as far as the measurements bear it
// out.
func (d *decider) goodput() adapt.Goodput {
	noise, _ := d.a.estimators.Bound()
	return adapt.Goodput{Model: d.model, Noise: noise, InitialBatch: d.a.progress.InitialBatch}
}

// fresh reports whether enough was measured since the batch last changed that it may grow again.
func (d *decider) fresh() bool {
	n := d.a.estimators.Blocks()
	if n < d.blocks { // all was forgotten since
		d.blocks = 0
	}
	return n-d.blocks >= leastFresh
}

// limits are those of the batches of so many workers, among them that no batch has less than this
// efficiency, as far as the noise is borne out.
func (d *decider) limits(workers int, efficiency float64) adapt.Limits {
	l := d.a.cfg.limits()
	l.MaxLocal = d.a.maxLocal()
	noise, _ := d.a.estimators.Bound()
	initial := d.a.progress.InitialBatch
	if most := noise.LargestScale(efficiency) * float64(initial); most < float64(l.MaxBatch) {
		least := max((initial-1)/workers+1, l.MinLocal)
		l.MaxBatch = min(max(int(most), least*workers), l.MaxBatch)
	}
	return l
}

func (d *decider) fit() (adapt.Model, error) {
	timings := d.profile.Timings()
	switch {
	case d.a.cfg.Model != nil:
		return d.a.cfg.Model, nil
	case d.a.cfg.model != nil:
		return d.a.cfg.model(timings)
	}
	at := d.a.trainer.cfg.Store.Topology()
	return adapt.FitParameterServer(timings, adapt.Cluster{Bytes: max(1, int64(d.a.trainer.exchange.total)), Servers: max(1, at.Servers), SharedMemory: at.Together})
}

// best is the batch with the highest goodput that is worth the change. It is at most twice the
// present one, or half of it, and not larger before there are fresh measurements. A batch whose
// efficiency has become too low gets smaller, whatever the goodput.
func (d *decider) best(nodes, workers int) (b batch, ok bool) {
	a := d.a
	g, limits := d.goodput(), d.limits(workers, leastEfficiency)
	per := a.batch.perStep()
	most := per * workers
	waste := most > max(d.limits(workers, keptEfficiency).MaxBatch, a.progress.InitialBatch)
	if d.fresh() {
		most *= mostChange
	}
	least := (per-1)/mostChange + 1
	limits.MaxBatch = min(max(limits.MaxBatch, least*workers), max(most, a.progress.InitialBatch))
	choice, err := g.Best(nodes, workers, limits)
	if err != nil {
		return b, false // no batch of these workers is within the limits
	}
	choice = d.fewerRuns(g, nodes, workers, choice, limits)
	b = batch{LocalBatch: choice.LocalBatch, Accumulation: choice.Accumulation}
	goodput := choice.Goodput
	if near, rate := d.near(g, nodes, workers, choice, limits); rate > 0 {
		b, goodput = near, rate
	}
	if b.perStep() < least {
		local, accumulation, ok := limits.Nearest(a.progress.InitialBatch, workers, least)
		if !ok {
			return b, false
		}
		b = batch{local, accumulation}
		goodput = g.At(nodes, workers, local, accumulation)
	}
	if now := g.At(nodes, workers, a.batch.LocalBatch, a.batch.Accumulation); goodput <= worthIt*now && !waste {
		return b, false
	}
	return b, true
}

// fewerRuns is the choice with the fewest runs that has nearly its goodput. A batch of a prime
// number of examples would be that many runs of one example, for the sake of one example more:
// batch normalisation then has nothing to take means of.
func (d *decider) fewerRuns(g adapt.Goodput, nodes, workers int, choice adapt.Choice, limits adapt.Limits) adapt.Choice {
	const nearly = 0.97
	per := choice.LocalBatch * (choice.Accumulation + 1)
	for s := range choice.Accumulation {
		local := per / (s + 1)
		if !limits.Allows(d.a.progress.InitialBatch, workers, local, s) {
			continue
		}
		if rate := g.At(nodes, workers, local, s); rate >= nearly*choice.Goodput {
			return adapt.Choice{LocalBatch: local, Accumulation: s, Goodput: rate}
		}
	}
	return choice
}

// near is the best batch beside the choice that fills programs of the sizes that there are to be;
// rate 0: there is none within the limits.
func (d *decider) near(g adapt.Goodput, nodes, workers int, choice adapt.Choice, limits adapt.Limits) (b batch, rate float64) {
	a := d.a
	p := a.programs
	above := p.sizeFor(choice.LocalBatch) * p.devices
	for _, local := range []int{above, above * 3 / 4, above * 2 / 3} { // the sizes below 2ⁿ and 3·2ⁿ
		if local < 1 || p.sizeFor(local)*p.devices != local {
			continue
		}
		for s := max(0, choice.Accumulation-1); s <= choice.Accumulation+1; s++ {
			if !limits.Allows(a.progress.InitialBatch, workers, local, s) {
				continue
			}
			if r := g.At(nodes, workers, local, s); r > rate {
				b, rate = batch{local, s}, r
			}
		}
	}
	return b, rate
}
