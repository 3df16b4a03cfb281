package worker

import (
	"fmt"
	"math"

	"github.com/paragon-train/paragon/adapt"
	"github.com/paragon-train/paragon/kvstore"
	"github.com/paragon-train/paragon/optim"
)

// A scaling gives each step of an adapting run its learning rate, by the noise of the gradient, and
// counts what the steps are worth: the progress.
//
// Invariant: it is the same on all workers, bit for bit. It follows from the configuration, from
// the global batches and from what the servers have measured of rounds, of which all workers get
// the same numbers.
type scaling struct {
	rule      string
	optimizer optim.Config
	keys      []string
	// groups has the group of each parameter, and byKey the same by name.
	groups []int
	byKey  map[string]int
	store  scalingStore
	// every: one step of so many is measured.
	every uint64
	// still says when a step leaves the parameters where they are.
	still stillSteps

	estimators *adapt.Estimators
	progress   adapt.Progress
	// measured is the number of steps whose measurement the estimators have seen, and whose
	// effect the progress has.
	measured uint64
	// newest is the effect of the newest step, as planned.
	newest effect
	// idle are the examples of the last steps, which had no effect.
	idle int
	// stood is the number of steps after the newest one that stood still; 0: none did.
	stood uint64
	// norm is that of the mean gradient of the newest measured step; NaN: it was told.
	norm float64
	step scaledStep
}

// A scaledStep is the step under way.
type scaledStep struct {
	// global are its examples on all workers.
	global int
	// gain is what it adds to the progress.
	gain float64
	// still says that it leaves the parameters where they are.
	still bool
	// factors multiply the learning rate, and gains are those of each group's own noise: both
	// by group.
	factors, gains []float64
	// rate is the learning rate of the first group.
	rate float64
}

// A scalingStore tells what the servers know of the newest round of a key. A kvstore.Store is one.
type scalingStore interface {
	NumWorkers() int
	Norms(key string) (kvstore.Norms, bool)
	RoundExamples(key string) uint64
	RoundWeight(key string) float64
}

// preconditionedEvery: with Adam's family one step in so many is measured, since the servers take a
// root and a reciprocal of each value for it. That costs nothing with adam or adamw, at most two
// workers and AVX-512, and up to a third of the servers' part of a round with four workers
// (docs/design/0027). All workers use one number, which does not follow the servers' processors or
// the membership. With one worker, whose rounds are compared in pairs, the servers choose which.
const preconditionedEvery = 4

// mostFactor is the largest that a store takes.
const mostFactor = 1 << 20

// newScaling begins with no measurement, after so many steps.
func newScaling(cfg *AdaptConfig, optimizer optim.Config, keys []string, store scalingStore, steps uint64) scaling {
	s := scaling{rule: cfg.rule(optimizer.Name), optimizer: optimizer, keys: keys, byKey: map[string]int{}, store: store, every: 1, measured: steps, norm: math.NaN()}
	var n int
	s.groups, n = cfg.groupsOf(keys)
	for i, key := range keys {
		s.byKey[key] = s.groups[i]
	}
	if o, err := optim.New(optimizer); err == nil && o.HasSecondMoment() {
		s.every = preconditionedEvery
	}
	smoothing := cfg.Smoothing
	if smoothing == 0 {
		smoothing = adapt.DefaultSmoothing
	}
	// The averages reach back as many steps, however many of them are measured.
	s.estimators = adapt.NewEstimators(n, math.Pow(smoothing, float64(s.every)))
	s.step.factors, s.step.gains = make([]float64, n), make([]float64, n)
	return s
}

// plan completes what the store is told of the step after so many steps. All earlier ones have
// returned. alone says that the worker's gradient of a step is one micro-gradient.
func (s *scaling) plan(options kvstore.PushOptions, steps uint64, alone bool) kvstore.PushOptions {
	s.measure(steps)
	x := &s.step
	scale := s.scaleOf(x.global)
	x.gain = s.gainOf(scale)
	for g := range x.factors {
		noise, _ := s.estimators.GroupBound(g)
		// The configuration was checked, and a step has examples; else the rate stays.
		factor, err := adapt.Factor(s.rule, noise, scale, s.progress)
		if err != nil || !(factor >= 0) {
			factor = 1
		}
		x.factors[g] = min(factor, mostFactor)
		x.gains[g] = min(noise.Gain(scale), mostFactor)
	}
	x.rate = s.optimizer.LearningRateBy(steps, s.progress.Steps) * x.factors[0]
	if x.still = s.still.due(steps, alone, s.every) && s.store.NumWorkers() == 1; x.still {
		clear(x.factors)
		x.gain, s.stood = 0, steps+1
	}
	options.Measure, options.Progress, options.ByProgress = steps%s.every == 0 || s.store.NumWorkers() == 1, s.progress.Steps, true
	options.Factor, options.Gain = s.byGroup(x.factors), s.byGroup(x.gains)
	return options
}

// byGroup looks up a number of a key's group; of other keys, 1.
func (s *scaling) byGroup(numbers []float64) func(key string) float64 {
	return func(key string) float64 {
		if g, ok := s.byKey[key]; ok {
			return numbers[g]
		}
		return 1
	}
}

// scaleOf is the scale of so many examples on all workers.
func (s *scaling) scaleOf(global int) float64 {
	return float64(global) / float64(s.progress.InitialBatch)
}

// gainOf is what a step of this scale counts: as much as the measurements bear out, and one where
// they say nothing yet.
func (s *scaling) gainOf(scale float64) float64 {
	noise, _ := s.estimators.Bound()
	return noise.Gain(scale)
}

// An effect is what a step adds to the progress.
type effect struct {
	// examples are those on all workers.
	examples int
	// before is the progress before the step.
	before float64
	// still says that it was to have no effect.
	still bool
}

// stepped counts the step, as if all its examples had an effect: measure corrects that.
func (s *scaling) stepped() {
	s.newest = effect{s.step.global, s.progress.Steps, s.step.still}
	s.progress.Add(s.step.gain)
}

// measure adds what the store has measured of the newest of so many steps, once. All its exchanges
// have returned. It adds nothing where the step was not measured, or where a worker was lost
// between its pushes of two keys.
func (s *scaling) measure(steps uint64) {
	if s.measured == steps {
		return
	}
	s.measured = steps
	s.correct()
	step := make([]adapt.Measurement, len(s.step.factors))
	// The difference of two steps is biased where the first one has moved the parameters.
	moved := steps < 2 || s.stood != steps-1
	var first kvstore.Norms
	for i, key := range s.keys {
		n, ok := s.store.Norms(key)
		if i == 0 {
			first = n
		}
		if !ok || n.Count != first.Count || n.Examples != first.Examples || n.Biased != first.Biased {
			return
		}
		m := &step[s.groups[i]]
		m.Count, m.Scale = n.Count, n.Examples*s.perWeight(key)/float64(s.progress.InitialBatch)
		m.Apart, m.Biased = n.Biased, n.Biased && moved
		m.MeanSqr += n.MeanSqr
		m.SqrMean += n.SqrMean
	}
	// Norms of two steps, or of preconditioned gradients, are not for people.
	if !first.Biased && s.every == 1 {
		sum := 0.0
		for _, m := range step {
			sum += m.SqrMean
		}
		s.norm = math.Sqrt(sum)
	}
	s.estimators.Add(step)
}

// tellNorm returns the newest norm once.
func (s *scaling) tellNorm() float64 {
	norm := s.norm
	s.norm = math.NaN()
	return norm
}

// correct makes the progress that of the examples whose gradients had a part in the newest step:
// those of overflows in float16, of contributions that the servers' guard has refused to all
// shards, and of a worker that was lost have none.
func (s *scaling) correct() {
	examples := uint64(0)
	for _, key := range s.keys {
		examples = max(examples, s.store.RoundExamples(key))
	}
	if examples != uint64(s.newest.examples) && !s.newest.still {
		s.progress.Steps = s.newest.before
		s.progress.Add(s.gainOf(float64(examples) / float64(s.progress.InitialBatch)))
	}
	if s.idle += s.newest.examples; examples > 0 {
		s.idle = 0
	}
}

// checkEffect is an error if a whole pass over the data had no effect: the epoch, of this number,
// would never end.
func (s *scaling) checkEffect(epoch int) error {
	if s.idle < s.progress.Examples {
		return nil
	}
	return fmt.Errorf("worker: epoch %d: the last steps, with %d examples, had no effect, and the data set has %d: every gradient overflowed or was refused by the servers' guard; "+
		"check the data, the learning rate and the guard", epoch, s.idle, s.progress.Examples)
}

// perWeight is how many examples of the newest round there are for one of its weight. The servers'
// norms go by weights; batches by examples.
func (s *scaling) perWeight(key string) float64 {
	examples, weight := float64(s.store.RoundExamples(key)), s.store.RoundWeight(key)
	if examples == weight || !(examples > 0 && weight > 0) {
		return 1
	}
	return examples / weight
}

// stillSteps says which steps leave the parameters where they are.
//
// With one micro-gradient a step the servers compare one round in 32 with the one before. Any
// update between the two is in their difference: the second gradient is smaller along the first
// one, noise and all, by the curvature times the learning rate, so that the true gradient looks as
// if it were zero, or less. The factor of 0 in the first of the two makes them two micro-gradients
// at the same parameters. Such a step is no progress; a velocity stays as it is, too. Where the
// batch cannot grow, nothing depends on the noise, and no step stands still.
type stillSteps struct{ batchGrows bool }

const (
	// stillEvery is the servers' period of measuring a round with one micro-gradient against
	// the one before, and stillFrom the first round that they measure so where gradients are
	// preconditioned.
	stillEvery = 32
	stillFrom  = 5
	// calmFrom is the first step that may stand still where gradients are not preconditioned.
	// Before, they are up to a thousand times as large, and say nothing of later ones.
	calmFrom = 64
)

// due reports whether the step after so many stands still, if there is one worker. every is 1 where
// gradients are not preconditioned; else each worker's gradient is one micro-gradient in any case.
func (s stillSteps) due(steps uint64, alone bool, every uint64) bool {
	if !s.batchGrows || steps%stillEvery != 0 {
		return false
	}
	if every > 1 {
		return steps >= stillFrom
	}
	return alone && steps >= calmFrom
}
