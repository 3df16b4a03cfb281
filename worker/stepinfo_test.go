package worker_test

import (
	"math"
	"testing"
	"time"

	"github.com/paragon-train/paragon/optim"
	"github.com/paragon-train/paragon/worker"
)

// stepList keeps what an observer is told.
type stepList struct {
	run     worker.Run
	steps   []worker.StepInfo
	changes []worker.MembershipInfo
}

func (l *stepList) Begin(run worker.Run)               { l.run = run }
func (l *stepList) Step(s worker.StepInfo)             { l.steps = append(l.steps, s) }
func (l *stepList) Epoch(worker.EpochInfo)             {}
func (l *stepList) Membership(m worker.MembershipInfo) { l.changes = append(l.changes, m) }
func (l *stepList) End()                               {}

// The times of an epoch's steps add up to no more than the epoch's, and all of its computing is in
// them.
func TestStepsTellWhereTheirTimeGoes(t *testing.T) {
	r := newRig(t, rigConfig{optimizer: optim.Config{Name: "sgd", LearningRate: 0.5, Schedule: optim.Schedule{Kind: "factor", Every: 10, Factor: 0.5}}})
	var l stepList
	r.cfg.Epochs, r.cfg.Observers = 2, []worker.Observer{&l}
	r.cfg.Checkpoint = worker.CheckpointConfig{Dir: t.TempDir(), EverySteps: 3}
	epochs, err := worker.Fit(t.Context(), r.cfg)
	if err != nil {
		t.Fatal(err)
	}
	if len(l.steps) != 16 {
		t.Fatalf("got %d steps, want 16", len(l.steps))
	}
	var sum, want worker.Times
	var sumTook, wantTook time.Duration
	for e, epoch := range epochs {
		var all worker.Times
		var took, save time.Duration
		for i, s := range l.steps[8*e : 8*e+8] {
			parts := s.Times.Compute + s.Times.Wait + s.Times.Data + s.Times.Save
			if s.Took <= 0 || parts > s.Took || s.Times.Compute <= 0 || s.Times.Data < 0 || s.Times.Wait < 0 {
				t.Errorf("epoch %d step %d: took %v with the parts %+v, want parts of it", e, i, s.Took, s.Times)
			}
			all.Add(s.Times)
			took += s.Took
			save += s.Times.Save
			if want := 8; i < 7 && s.Batch != want || i == 7 && s.Batch != 4 {
				t.Errorf("epoch %d step %d: the global batch is %d, want %d, and 4 in the last step", e, i, s.Batch, want)
			}
			done := uint64(8*e + i + 1)
			if want := 0.5 * math.Pow(0.5, float64((done-1)/10)); s.LearningRate != want || s.Done != done || s.Workers != 1 {
				t.Errorf("epoch %d step %d: step %d with learning rate %v and %d workers, want step %d with %v and 1", e, i, s.Done, s.LearningRate, s.Workers, done, want)
			}
			if !math.IsNaN(s.GradientNorm) || !math.IsNaN(s.Staleness) {
				t.Errorf("epoch %d step %d: gradient norm %v and staleness %v, want NaN of a store that measures neither", e, i, s.GradientNorm, s.Staleness)
			}
		}
		if all.Compute != epoch.Times.Compute {
			t.Errorf("epoch %d: its steps computed for %v, the epoch for %v, want the same", e, all.Compute, epoch.Times.Compute)
		}
		sum.Add(all)
		sumTook += took
		want.Add(epoch.Times)
		wantTook += epoch.Train
		if save <= 0 || save != epoch.Times.Save {
			t.Errorf("epoch %d: its steps saved for %v, the epoch for %v, want the same above 0", e, save, epoch.Times.Save)
		}
	}
	if sum.Data > want.Data || sum.Wait > want.Wait || sumTook > wantTook {
		t.Errorf("the steps took %v with %+v, the epochs %v with %+v", sumTook, sum, wantTook, want)
	}
}

// With FitConfig.Adapt steps tell the norm of the mean gradient once it was measured, and the
// learning rate with the factor for the batch.
func TestAdaptingStepsTellGradientNormAndLearningRate(t *testing.T) {
	r := newRig(t, rigConfig{optimizer: optim.Config{Name: "sgd", LearningRate: 0.01}})
	var l stepList
	r.cfg.Observers = []worker.Observer{&l}
	r.cfg.Adapt = &worker.AdaptConfig{MaxBatch: 32, Accumulation: true, Rule: "linear", Decisions: []worker.Decision{{Step: 5, LocalBatch: 8, Accumulation: 1}}}
	if _, err := worker.Fit(t.Context(), r.cfg); err != nil {
		t.Fatal(err)
	}
	if norm := l.steps[0].GradientNorm; !math.IsNaN(norm) {
		t.Errorf("the first step tells gradient norm %v, want NaN: nothing was measured before it", norm)
	}
	if s := l.steps[5]; s.Batch != 16 || math.Abs(s.LearningRate-0.02) > 1e-12 {
		t.Errorf("step 5 tells batch %d and learning rate %v, want 16 and 0.02", s.Batch, s.LearningRate)
	}
	if norm := l.steps[6].GradientNorm; !(norm > 0) {
		t.Errorf("step 6 tells gradient norm %v, want one above 0: step 5 had two runs", norm)
	}
}

// With an asynchronous store of two workers steps tell how stale their values were; the learning
// rate of a schedule, which goes by all workers' updates, is not known.
func TestAsynchronousStepsTellStaleness(t *testing.T) {
	lists := make([]stepList, 2)
	_, _, errs := fitJob(t, "dist_async", 2, rigConfig{}, func(rank int, c *worker.FitConfig) {
		c.Observers = []worker.Observer{&lists[rank]}
	})
	for rank, err := range errs {
		if err != nil {
			t.Fatalf("worker %d: %v", rank, err)
		}
		told := 0
		for _, s := range lists[rank].steps {
			if s.Staleness >= 0 {
				told++
			}
			if s.Batch != s.Examples || s.LearningRate != 0.01 {
				t.Errorf("worker %d step %d: batch %d of %d examples and learning rate %v, want the same and 0.01", rank, s.Done, s.Batch, s.Examples, s.LearningRate)
			}
		}
		if told < len(lists[rank].steps)/2 {
			t.Errorf("worker %d: %d of %d steps tell a staleness, want most", rank, told, len(lists[rank].steps))
		}
	}
}

// Both workers of a job tell the batch of both.
func TestStepsTellTheGlobalBatch(t *testing.T) {
	lists := make([]stepList, 2)
	_, _, errs := fitJob(t, "dist_sync", 2, rigConfig{}, func(rank int, c *worker.FitConfig) {
		c.Observers = []worker.Observer{&lists[rank]}
	})
	for rank, err := range errs {
		if err != nil {
			t.Fatalf("worker %d: %v", rank, err)
		}
	}
	for i, s := range lists[0].steps {
		other := lists[1].steps[i]
		if want := s.Examples + other.Examples; s.Batch != want || other.Batch != want || s.Workers != 2 {
			t.Errorf("step %d of %d and %d examples: workers tell %d and %d, want the sum", s.Done, s.Examples, other.Examples, s.Batch, other.Batch)
		}
	}
}
