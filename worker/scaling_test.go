package worker

import (
	"math"
	"testing"

	"github.com/paragon-train/paragon/adapt"
	"github.com/paragon-train/paragon/kvstore"
	"github.com/paragon-train/paragon/optim"
)

// fakeScalingStore measures rounds of one key as a test says.
type fakeScalingStore struct {
	workers  int
	norms    kvstore.Norms
	measured bool
	examples uint64
}

func (f *fakeScalingStore) NumWorkers() int                    { return f.workers }
func (f *fakeScalingStore) Norms(string) (kvstore.Norms, bool) { return f.norms, f.measured }
func (f *fakeScalingStore) RoundExamples(string) uint64        { return f.examples }
func (f *fakeScalingStore) RoundWeight(string) float64         { return float64(f.examples) }
func newTestScaling(f *fakeScalingStore, optimizer string) scaling {
	s := newScaling(&AdaptConfig{}, optim.Config{Name: optimizer, LearningRate: 0.5}, []string{"w"}, f, 0)
	s.progress = adapt.Progress{Examples: 100, InitialBatch: 10}
	return s
}

// A step counts as progress what its examples were worth, when the servers have told how many had a
// part in it: none does where all gradients were refused, and after a pass of those the run ends.
func TestAStepThatHadNoEffectIsNoProgress(t *testing.T) {
	f := &fakeScalingStore{workers: 2, examples: 10}
	s := newTestScaling(f, "sgd")
	for steps := range uint64(3) {
		s.step.global = 10
		options := s.plan(kvstore.PushOptions{}, steps, false)
		if !options.Measure || !options.ByProgress || options.Progress != float64(steps) || options.Factor("w") != 1 || options.Factor("other") != 1 {
			t.Errorf("step %d is planned as %+v", steps, options)
		}
		s.stepped()
	}
	s.measure(3)
	if s.progress.Steps != 3 || s.step.rate != 0.5 {
		t.Errorf("after 3 steps the progress is %v with the rate %v, want 3 and 0.5", s.progress.Steps, s.step.rate)
	}
	f.examples = 0
	for steps := uint64(3); steps < 13; steps++ {
		if err := s.checkEffect(1); err != nil {
			t.Fatalf("after %d steps: %v", steps, err)
		}
		s.step.global = 10
		s.plan(kvstore.PushOptions{}, steps, false)
		s.stepped()
		s.measure(steps + 1)
	}
	if err := s.checkEffect(1); err == nil || s.progress.Steps != 3 {
		t.Errorf("after a pass without effect: got the progress %v (%v), want 3 and an error", s.progress.Steps, err)
	}
}

// One worker with one run a step stands still once in 32 steps, so that two gradients are of the
// same parameters; with several runs, several workers, or where the batch cannot grow, it never
// does.
func TestAStepStandsStillWhereItsNoiseIsADifference(t *testing.T) {
	for _, c := range []struct {
		grows bool
		steps uint64
		alone bool
		every uint64
		want  bool
	}{
		{true, 64, true, 1, true}, {true, 96, true, 1, true}, {true, 65, true, 1, false}, {true, 32, true, 1, false},
		{true, 64, false, 1, false}, {false, 64, true, 1, false},
		{true, 32, false, 4, true}, {true, 0, true, 4, false},
	} {
		if got := (stillSteps{c.grows}).due(c.steps, c.alone, c.every); got != c.want {
			t.Errorf("%+v: stands still %t", c, got)
		}
	}
	for _, workers := range []int{1, 2} {
		s := newTestScaling(&fakeScalingStore{workers: workers, examples: 10}, "sgd")
		s.still.batchGrows, s.step.global = true, 10
		if s.plan(kvstore.PushOptions{}, 64, true); s.step.still != (workers == 1) {
			t.Errorf("with %d workers the step stands still: %t", workers, s.step.still)
		}
	}
}

// The norm of a measured step is told once, and not that of a difference of two steps.
func TestTheNormOfAnAdaptingStepIsToldOnce(t *testing.T) {
	f := &fakeScalingStore{workers: 2, examples: 10, measured: true, norms: kvstore.Norms{Count: 2, Examples: 10, SqrMean: 16, MeanSqr: 20}}
	s := newTestScaling(f, "sgd")
	s.step.global = 10
	s.stepped()
	s.measure(1)
	if got := s.tellNorm(); got != 4 {
		t.Errorf("the norm is %v, want 4", got)
	}
	s.measure(1)
	if got := s.tellNorm(); !math.IsNaN(got) {
		t.Errorf("it is told again: %v", got)
	}
	f.norms.Biased = true
	s.stepped()
	s.measure(2)
	if got := s.tellNorm(); !math.IsNaN(got) {
		t.Errorf("the difference of two steps is told as a norm: %v", got)
	}
}
