package worker

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/paragon-train/paragon/adapt"
	"github.com/paragon-train/paragon/nn"
)

// free is the time of steps for which a large batch pays: it hardly grows with it.
type free struct{}

func (free) StepTime(_, _, local, accumulation int) float64 {
	return 1 + float64(local*(accumulation+1))/4096
}

// dear is the time of steps that grows with the batch.
type dear struct{}

func (dear) StepTime(_, _, local, accumulation int) float64 {
	return 1 + float64(local*(accumulation+1))/16
}

// A knownNoise is a job of two workers without any training, whose measurements are drawn with a
// noise that is known: gradients of 40 elements.
type knownNoise struct {
	adaptation
	rng   *rand.Rand
	truth adapt.Noise
}

const (
	knownInitial = 32
	knownMost    = 512
)

func newKnownNoise(seed uint64, truth adapt.Noise) *knownNoise {
	k := &knownNoise{rng: rand.New(rand.NewPCG(seed, 1)), truth: truth}
	a := &k.adaptation
	a.cfg = AdaptConfig{MaxBatch: knownMost, Accumulation: true}
	a.scaling.progress = adapt.Progress{Examples: 1 << 13, InitialBatch: knownInitial}
	a.scaling.estimators = adapt.NewEstimators(1, 0)
	a.programs = &programSets{on: &devices{own: make([]*nn.Program, 1)}, base: knownInitial / 2}
	a.batch = batch{LocalBatch: knownInitial / 2}
	a.decider = newDecider(&a.cfg)
	a.decider.model = free{}
	return k
}

func (k *knownNoise) global() int { return 2 * k.batch.perStep() }

// steps takes so many examples in steps of the present batch.
func (k *knownNoise) steps(examples int) {
	const dim = 40
	for done := 0; done < examples; done += k.global() {
		scale := float64(k.global()) / knownInitial
		m := adapt.Measurement{Count: 2, Scale: scale}
		for range dim {
			mean := 0.0
			for range 2 {
				g := math.Sqrt(k.truth.Sqr/dim) + math.Sqrt(2*k.truth.Var/scale/dim)*k.rng.NormFloat64()
				m.MeanSqr += g * g / 2
				mean += g / 2
			}
			m.SqrMean += mean * mean
		}
		k.scaling.estimators.Add([]adapt.Measurement{m})
	}
}

// take takes the best batch of so many workers.
func (k *knownNoise) take(workers int) {
	e := k.scaling.estimators
	s := situation{nodes: 1, workers: workers, batch: k.batch, limits: k.limits(), blocks: e.Blocks()}
	s.noise, s.bounded = e.Bound()
	if b, ok := k.decider.best(s, k.programs); ok {
		k.adaptation.take(b)
	}
}

// choose changes the batch if that pays.
func (k *knownNoise) choose() {
	if _, ok := k.scaling.estimators.Bound(); !ok {
		return
	}
	k.take(2)
}

// Where a large batch pays it is chosen no more than two doublings later than by one who knows the
// noise, and doubles as he does: once a choice.
func TestTheBatchFollowsAKnownNoise(t *testing.T) {
	for _, truth := range []adapt.Noise{{Sqr: 0.001, Var: 1}, {Sqr: 0.02, Var: 1}, {Sqr: 0.05, Var: 1}, {Sqr: 0.2, Var: 1}} {
		best, err := adapt.Goodput{Model: free{}, Noise: truth, InitialBatch: knownInitial}.Best(1, 2, adapt.Limits{MaxBatch: knownMost, MaxLocal: knownInitial / 2, Accumulation: true})
		if err != nil {
			t.Fatal(err)
		}
		most := 2 * best.LocalBatch * (best.Accumulation + 1)
		for seed := range uint64(20) {
			k, knows := newKnownNoise(seed, truth), knownInitial
			for choice := range 24 {
				before := k.global()
				k.steps(1 << 10) // an eighth of a pass
				k.choose()
				knows = min(2*knows, most)
				if k.global() > 2*before {
					t.Errorf("%+v, seed %d, choice %d: the batch went from %d to %d, want twice at most", truth, seed, choice, before, k.global())
				}
				if 4*k.global() < knows {
					t.Errorf("%+v, seed %d, choice %d: the batch is %d, and with the noise known it would be %d, want a fourth of that at least", truth, seed, choice, k.global(), knows)
				}
			}
			if end := k.global(); end > 2*most {
				t.Errorf("%+v, seed %d: the batch came to %d, want at most about %d", truth, seed, end, most)
			}
		}
	}
}

// Ten measurements leave the batch where it is, and a change is by a factor of two at most, up and
// down.
func TestTenMeasurementsLeaveTheBatch(t *testing.T) {
	for seed := range uint64(12) {
		k := newKnownNoise(seed, adapt.Noise{Sqr: 0.02, Var: 1})
		k.steps(10 * knownInitial)
		k.choose()
		if k.global() != knownInitial {
			t.Fatalf("seed %d: after ten measurements the batch is %d, want %d", seed, k.global(), knownInitial)
		}
		for range 40 {
			k.steps(1 << 10)
			k.choose()
		}
		if k.global() < 128 {
			t.Fatalf("seed %d: the batch came to %d, want 128 at least", seed, k.global())
		}
		k.truth, k.decider.model = adapt.Noise{Sqr: 1, Var: 0.02}, dear{} // all signal, and examples cost time
		for range 200 {
			before := k.global()
			k.steps(1 << 10)
			k.choose()
			if 2*k.global() < before {
				t.Fatalf("seed %d: the batch went from %d to %d, want half at least", seed, before, k.global())
			}
		}
		if k.global() != knownInitial {
			t.Errorf("seed %d: without noise the batch came to %d, want %d", seed, k.global(), knownInitial)
		}
	}
}

// A batch grows again only after enough was measured with it.
func TestABatchGrowsOnlyOnFreshMeasurements(t *testing.T) {
	k := newKnownNoise(1, adapt.Noise{Sqr: 0.001, Var: 1})
	for k.global() == knownInitial {
		k.steps(1 << 10)
		k.choose()
	}
	grown := k.global()
	k.steps(3 * grown)
	if k.choose(); k.global() > grown {
		t.Errorf("after three more steps the batch went from %d to %d", grown, k.global())
	}
	k.steps(32 * grown)
	if k.choose(); k.global() <= grown {
		t.Errorf("after 32 more steps the batch stays at %d, want more", grown)
	}
}

// However free large batches are, none is chosen in which an example is worth less than two fifths
// of one in the initial batch; and where the noise falls, a batch that has become too large for it
// shrinks.
func TestAnExampleKeepsTwoFifthsOfItsWorth(t *testing.T) {
	for _, truth := range []adapt.Noise{{Sqr: 0.05, Var: 1}, {Sqr: 0.2, Var: 1}, {Sqr: 1, Var: 1}} {
		for seed := range uint64(6) {
			k := newKnownNoise(seed, adapt.Noise{Sqr: 0.001, Var: 1})
			for range 16 {
				k.steps(1 << 10)
				k.choose()
			}
			if k.global() < 256 {
				t.Fatalf("%+v, seed %d: with all noise the batch came to %d, want 256 at least", truth, seed, k.global())
			}
			k.truth = truth
			for range 200 {
				k.steps(1 << 10)
				k.choose()
			}
			if e := truth.Efficiency(float64(k.global()) / knownInitial); e < 0.4 {
				t.Errorf("%+v, seed %d: the batch came to %d, whose efficiency is %.2f, want 0.4 at least", truth, seed, k.global(), e)
			}
		}
	}
}

// A batch is taken in as few runs as there can be: a limit of a prime number of examples does not
// make runs of one example each.
func TestABatchIsTakenInFewRuns(t *testing.T) {
	for _, most := range []int{61, 97, 127} {
		k := newKnownNoise(1, adapt.Noise{Sqr: 0.001, Var: 1})
		k.cfg.MaxBatch, k.programs.base = most, 64
		k.batch = batch{LocalBatch: knownInitial}
		for range 16 {
			k.steps(1 << 10)
			k.take(1)
		}
		if got := k.batch; got.perStep() < most-1 || got.perStep() > most || got.Accumulation != 1 {
			t.Errorf("one worker, at most %d examples: the batch came to %v, want two runs of %d", most, got, most/2)
		}
	}
}
