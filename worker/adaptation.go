package worker

import (
	"fmt"
	"math"
	"time"

	"github.com/paragon-train/paragon/adapt"
	"github.com/paragon-train/paragon/kvstore"
	"github.com/paragon-train/paragon/optim"
)

// adaptation is what an adapting run knows beyond one that does not adapt. But for the profile and
// the programs it is the same on all workers, since it follows from what the store has measured and
// from what the workers have agreed on.
type adaptation struct {
	cfg     AdaptConfig
	rule    string
	trainer *Trainer
	feed    BatchFeed
	groups  []int // by parameter

	estimators *adapt.Estimators
	progress   adapt.Progress
	epochs     int // finished
	step       int // of the epoch, the next one
	batch      batch
	measured   uint64 // steps whose measurement the estimators have seen, and whose effect the progress has
	newest     effect // of the newest step, as planned
	idle       int    // examples of the last steps, which had no effect
	every      uint64 // one step of so many is measured
	stood      uint64 // the number of steps after the newest one that stood still; 0: none did

	// Of the step under way.
	global  int             // its examples on all workers
	runs    []time.Duration // what its runs before the last one took
	gain    float64         // what it adds to the progress
	still   bool            // it leaves the parameters where they are
	factors []float64       // of the learning rate, by group
	gains   []float64       // of each group's own noise
	rate    float64         // the learning rate, of the first group

	programs *programSets
	decider  decider
	from     float64 // progress at the epoch's begin, or when this worker came
}

// A batch is what a worker does in a step: runs of LocalBatch examples, Accumulation of them before
// the last one.
type batch struct {
	LocalBatch   int `json:"local_batch"`
	Accumulation int `json:"accumulation"`
}

func (b batch) perStep() int { return b.LocalBatch * (b.Accumulation + 1) }

// check is an error if no worker can take it.
func (b batch) check() error {
	if b.LocalBatch < 1 || b.LocalBatch > maxLocalBatch || b.Accumulation < 0 || b.Accumulation > maxAccumulation {
		return fmt.Errorf("the batch is %+v, want 1 to %d examples and an accumulation of 0 to %d", b, maxLocalBatch, maxAccumulation)
	}
	return nil
}

func (b batch) String() string {
	if b.Accumulation == 0 {
		return fmt.Sprintf("%d a worker", b.LocalBatch)
	}
	return fmt.Sprintf("%d × %d runs a worker", b.LocalBatch, b.Accumulation+1)
}

// newAdaptation begins where state says; nil: a new run of so many workers.
func newAdaptation(cfg *AdaptConfig, t *Trainer, feed BatchFeed, workers int, state *adaptState) (*adaptation, error) {
	a := &adaptation{cfg: *cfg, rule: cfg.rule(t.cfg.Optimizer.Name), trainer: t, feed: feed, measured: t.Steps()}
	var n int
	a.groups, n = cfg.groupsOf(t.keys)
	a.every = 1
	if optimizer, err := optim.New(t.cfg.Optimizer); err == nil && optimizer.HasSecondMoment() {
		a.every = preconditionedEvery
	}
	smoothing := cfg.Smoothing
	if smoothing == 0 {
		smoothing = adapt.DefaultSmoothing
	}
	a.estimators = adapt.NewEstimators(n, math.Pow(smoothing, float64(a.every))) // the averages reach back as many steps
	a.factors, a.gains = make([]float64, n), make([]float64, n)
	a.programs = newProgramSets(a)
	a.decider.init(a)
	a.progress = adapt.Progress{Examples: feed.Length(), InitialBatch: cfg.InitialBatch, WarmupEpochs: cfg.WarmupEpochs}
	if state != nil {
		if err := a.restore(state); err != nil {
			return nil, err
		}
	} else {
		if a.progress.InitialBatch == 0 {
			segments := feed.Segments()
			a.progress.InitialBatch = segments[len(segments)-1].PerStep * workers
		}
		a.batch = batch{LocalBatch: (a.progress.InitialBatch-1)/workers + 1}
		if most := a.maxLocal(); a.batch.LocalBatch > most {
			a.batch = split(a.batch.LocalBatch, most)
		}
	}
	if err := cfg.validateBatches(a.progress.InitialBatch); err != nil {
		return nil, err
	}
	if a.maxLocal() < cfg.MinLocal {
		return nil, fmt.Errorf("worker: AdaptConfig.MinLocal is %d, and this worker's programs take %d; want at most that, or AdaptConfig.Program", cfg.MinLocal, a.maxLocal())
	}
	t.follow(a)
	a.from = a.progress.Steps
	return a, nil
}

// maxLocal is the most examples of a run that can be asked for.
func (a *adaptation) maxLocal() int {
	most := maxLocalBatch
	if a.cfg.MaxLocal > 0 {
		most = a.cfg.MaxLocal
	}
	return min(most, a.programs.most())
}

// split divides the examples of a step into the fewest equal runs of at most so many; rounding may
// add one for each run.
func split(perStep, most int) batch {
	runs := (perStep-1)/most + 1
	return batch{LocalBatch: (perStep-1)/runs + 1, Accumulation: runs - 1}
}

// fitTo changes the batch if it is outside of the limits for so many workers. What it does depends
// on this worker's memory: of workers that run already, one decides for all.
func (a *adaptation) fitTo(workers int) {
	initial := a.progress.InitialBatch
	least := (initial-1)/workers + 1
	most := max(least, a.cfg.MaxBatch/workers)
	if workers == 1 && !a.cfg.Accumulation {
		most = least
	}
	per := a.batch.perStep()
	if per < least || per > most {
		local := a.batch.LocalBatch
		per = min(max(per, least), most)
		if per < local || a.batch.Accumulation == 0 && per <= a.maxLocal() {
			local = per
		}
		a.batch = splitWithin(per, local, least, most)
	}
	if b := a.batch; workers == 1 && b.Accumulation == 0 && b.LocalBatch > least {
		a.batch = splitWithin(b.LocalBatch, (b.LocalBatch+1)/2, least, most)
	}
	if b := a.batch; b.LocalBatch < a.cfg.MinLocal {
		if local, accumulation, ok := a.cfg.limits().Nearest(initial, workers, b.perStep()); ok {
			a.batch = batch{local, accumulation}
		}
	}
}

// splitWithin is split whose step has least to most examples if so many runs, or up to twice as
// many, can be equal.
func splitWithin(perStep, local, least, most int) batch {
	first := split(perStep, local)
	for runs := first.Accumulation + 1; runs <= 2*(first.Accumulation+1) && runs <= most; runs++ {
		b := batch{LocalBatch: min((perStep-1)/runs+1, most/runs), Accumulation: runs - 1}
		if b.perStep() >= least {
			return b
		}
	}
	return first
}

// nextStep is what the contributions of the step under way have in common. All earlier ones have
// returned.
func (a *adaptation) nextStep(step kvstore.PushOptions) kvstore.PushOptions {
	a.measure()
	scale := float64(a.global) / float64(a.progress.InitialBatch)
	a.gain = a.gainOf(scale)
	for g := range a.factors {
		noise, _ := a.estimators.GroupBound(g)
		factor, err := adapt.Factor(a.rule, noise, scale, a.progress)
		if err != nil || !(factor >= 0) { // the configuration was checked, and a step has examples
			factor = 1
		}
		a.factors[g] = min(factor, mostFactor)
		a.gains[g] = min(noise.Gain(scale), mostFactor)
	}
	of := func(byGroup []float64) func(string) float64 {
		return func(key string) float64 {
			if i, ok := a.trainer.sums.byKey[key]; ok {
				return byGroup[a.groups[i]]
			}
			return 1
		}
	}
	a.rate = a.trainer.cfg.Optimizer.LearningRateBy(a.trainer.steps, a.progress.Steps) * a.factors[0]
	if a.still = a.standsStill(); a.still {
		clear(a.factors)
		a.gain, a.stood = 0, a.trainer.steps+1
	}
	step.Measure, step.Progress, step.ByProgress = a.trainer.steps%a.every == 0 || a.trainer.cfg.Store.NumWorkers() == 1, a.progress.Steps, true
	step.Factor, step.Gain, step.Micro = of(a.factors), of(a.gains), a.trainer.sums.micro
	return step
}

// learningRate implements stepPlan: that of the first group.
func (a *adaptation) learningRate() float64 { return a.rate }

// gainOf is what a step of this scale counts: as much as the measurements bear out, and one where
// they say nothing yet.
func (a *adaptation) gainOf(scale float64) float64 {
	noise, _ := a.estimators.Bound()
	return noise.Gain(scale)
}

// stillEvery is the servers' period of measuring a round with one micro-gradient against the one
// before, and stillFrom the first round that they measure so where gradients are preconditioned.
const (
	stillEvery = 32
	stillFrom  = 5
	// calmFrom is the first step that may stand still where gradients are not preconditioned.
	// Before, they are up to a thousand times as large, and say nothing of later ones.
	calmFrom = 64
)

// standsStill reports whether the parameters stay where they are in the step under way. With one
// micro-gradient a step the servers compare one round in 32 with the one before. Any update between
// the two is in their difference: the second gradient is smaller along the first one, noise and
// all, by the curvature times the learning rate, so that the true gradient looks as if it were
// zero, or less. The factor of 0 in the first of the two makes them two micro-gradients at the same
// parameters. Such a step is no progress; a velocity stays as it is, too. Where the batch cannot
// grow, nothing depends on the noise, and no step stands still.
func (a *adaptation) standsStill() bool {
	t := a.trainer
	one := len(t.cfg.Programs) == 1 && a.batch.Accumulation == 0 || a.every > 1
	return one && t.cfg.Store.NumWorkers() == 1 && a.cfg.Accumulation && a.cfg.MaxBatch > a.progress.InitialBatch &&
		t.steps%stillEvery == 0 && (a.every == 1 && t.steps >= calmFrom || a.every > 1 && t.steps >= stillFrom)
}

// preconditionedEvery: with Adam's family one step in so many is measured, since the servers take a
// root and a reciprocal of each value for it. That costs nothing with adam or adamw, at most two
// workers and AVX-512, and up to a third of the servers' part of a round with four workers
// (docs/design/0027). All workers use one number, which does not follow the servers' processors or
// the membership. With one worker, whose rounds are compared in pairs, the servers choose which.
const preconditionedEvery = 4

// mostFactor is the largest that a store takes.
const mostFactor = 1 << 20

// An effect is what a step adds to the progress.
type effect struct {
	examples int     // on all workers
	before   float64 // progress before the step
	still    bool    // it was to have no effect
}

// correct makes the progress that of the examples whose gradients had a part in the newest step:
// those of overflows in float16, of contributions that the servers' guard has refused to all
// shards, and of a worker that was lost have none.
func (a *adaptation) correct() {
	t, examples := a.trainer, uint64(0)
	for _, key := range t.keys {
		examples = max(examples, t.cfg.Store.RoundExamples(key))
	}
	if examples != uint64(a.newest.examples) && !a.newest.still {
		a.progress.Steps = a.newest.before
		a.progress.Add(a.gainOf(float64(examples) / float64(a.progress.InitialBatch)))
	}
	if a.idle += a.newest.examples; examples > 0 {
		a.idle = 0
	}
}

// checkEffect is an error if a whole pass over the data had no effect: an epoch would never end.
func (a *adaptation) checkEffect() error {
	if a.idle < a.progress.Examples {
		return nil
	}
	return fmt.Errorf("worker: epoch %d: the last steps, with %d examples, had no effect, and the data set has %d: every gradient overflowed or was refused by the servers' guard; "+
		"check the data, the learning rate and the guard", a.epochs, a.idle, a.progress.Examples)
}

// measure adds what the store has measured of the newest step, once. All its exchanges have
// returned.
func (a *adaptation) measure() {
	t := a.trainer
	if a.measured == t.steps {
		return
	}
	a.measured = t.steps
	a.correct()
	step := make([]adapt.Measurement, len(a.factors))
	var first kvstore.Norms
	for i, key := range t.keys {
		n, ok := t.cfg.Store.Norms(key)
		if i == 0 {
			first = n
		}
		if !ok || n.Count != first.Count || n.Examples != first.Examples || n.Biased != first.Biased {
			return // not measured, or a worker was lost between its pushes of two keys
		}
		m := &step[a.groups[i]]
		m.Count, m.Scale = n.Count, n.Examples*a.perWeight(key)/float64(a.progress.InitialBatch)
		m.Apart = n.Biased
		m.Biased = n.Biased && (t.steps < 2 || a.stood != t.steps-1) // the first step of the two has moved the parameters
		m.MeanSqr += n.MeanSqr
		m.SqrMean += n.SqrMean
	}
	if !first.Biased && a.every == 1 { // not of two steps, and not preconditioned
		sum := 0.0
		for _, m := range step {
			sum += m.SqrMean
		}
		t.norm.value = math.Sqrt(sum)
	}
	a.estimators.Add(step)
}

// perWeight is how many examples of the newest round there are for one of its weight. The servers'
// norms go by weights; batches by examples.
func (a *adaptation) perWeight(key string) float64 {
	store := a.trainer.cfg.Store
	examples, weight := float64(store.RoundExamples(key)), store.RoundWeight(key)
	if examples == weight || !(examples > 0 && weight > 0) {
		return 1
	}
	return examples / weight
}

// stepped counts the step, as if all its examples had an effect: measure corrects that.
func (a *adaptation) stepped() {
	a.newest = effect{a.global, a.progress.Steps, a.still}
	a.progress.Add(a.gain)
	a.step++
}

// epochDone reports whether the current epoch ends here.
func (a *adaptation) epochDone() bool { return a.progress.Done(a.epochs) }

// stepsOfEpoch guesses how many steps the current epoch has.
func (a *adaptation) stepsOfEpoch(workers int) int {
	gain := a.gain
	if gain == 0 {
		gain = a.gainOf(a.scale(workers))
	}
	left := math.Ceil((a.progress.EpochEnd(a.epochs) - a.progress.Steps) / max(gain, 1e-9))
	return a.step + int(min(max(left, 0), 1<<30))
}

// scale of a step of so many workers.
func (a *adaptation) scale(workers int) float64 {
	return float64(a.batch.perStep()*workers) / float64(a.progress.InitialBatch)
}
