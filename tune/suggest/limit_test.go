package suggest

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/paragon-train/paragon/tune"
	"github.com/paragon-train/paragon/tune/tunetest"
)

func TestLimitWaits(t *testing.T) {
	v := &tunetest.View{SearchSpace: tune.Space{tune.Real("x", 0, 1)}}
	ask := func(l *Limit) error {
		p, err := l.Suggest(v, v.Len(), tunetest.Rand(1))
		if err == nil {
			v.Add(p)
		}
		return err
	}
	l := &Limit{Suggester: tune.Random{}, Max: 2}
	if err := errors.Join(ask(l), ask(l)); err != nil {
		t.Fatal(err)
	}
	if err := ask(l); !errors.Is(err, tune.ErrWait) {
		t.Errorf("third of two at once: got %v, want ErrWait", err)
	}
	v.End(v.All[0], tune.Completed)
	if err := ask(l); err != nil {
		t.Errorf("after one is over: %v", err)
	}
	b := &Limit{Suggester: tune.Random{}, Max: 3, Batch: true}
	v.End(v.All[1], tune.Completed)
	if err := ask(b); !errors.Is(err, tune.ErrWait) {
		t.Errorf("fourth, with one of the first three running: got %v, want ErrWait", err)
	}
	v.End(v.All[2], tune.Failed)
	for i := range 3 {
		if err := ask(b); err != nil {
			t.Errorf("trial %d of the second batch: %v", i, err)
		}
	}
	if err := ask(b); !errors.Is(err, tune.ErrWait) {
		t.Errorf("seventh: got %v, want ErrWait", err)
	}
	for _, trial := range v.All[3:] {
		v.End(trial, tune.Paused)
	}
	for i := range 3 {
		if err := ask(b); err != nil {
			t.Errorf("trial %d of the third batch, when all of the second are paused: %v", i, err)
		}
	}
	if _, err := (&Limit{}).Suggest(v, 0, nil); err == nil {
		t.Error("no Suggester: no error")
	}
}

// watcher is a suggester that notes what it sees.
type watcher struct {
	numbers []int
	results []float64
	states  []tune.State
}

func (w *watcher) Suggest(v tune.View, number int, rng *rand.Rand) (tune.Params, error) {
	w.numbers = append(w.numbers, number)
	w.results, w.states = nil, nil
	for t := range v.Trials() {
		w.results, w.states = append(w.results, v.Result(t)), append(w.states, t.State)
	}
	return v.Space().Sample(rng, v.Fixed(number))
}

func TestRepeatTellsTheMean(t *testing.T) {
	w := &watcher{}
	r := &Repeat{Suggester: w, Times: 3}
	v := &tunetest.View{SearchSpace: tune.Space{tune.Real("x", 0, 1)}}
	point, _ := tune.Params{}.With("x", 0.25)
	v.FixedParts = map[int]tune.Params{0: point} // a point, which is not repeated
	for i := range 8 {
		p, err := r.Suggest(v, i, tunetest.Rand(uint64(i)))
		if err != nil {
			t.Fatal(err)
		}
		trial := v.Add(p)
		if i == 0 {
			trial.Origin = tune.FromPoint
		}
		if i >= 2 && i <= 3 || i >= 5 && i <= 6 {
			if q := v.All[i-1].Params; !p.Equal(q) {
				t.Errorf("trial %d: got %v, want %v again", i, p, q)
			}
		} else if i > 0 && p.Equal(v.All[i-1].Params) {
			t.Errorf("trial %d has the parameters of the group before", i)
		}
		if i == 3 { // one of the group fails
			v.End(trial, tune.Failed)
			continue
		}
		v.Report(trial, 1, float64(i))
		v.End(trial, tune.Completed)
	}
	// Groups: the point; 1, 2, 3; 4, 5, 6; and 7 begins.
	if len(w.numbers) != 4 || w.numbers[3] != 3 {
		t.Errorf("asked for %v, want 0 to 3", w.numbers)
	}
	want := []float64{0, 1.5, 5}
	if !allNear(w.results, want, 1e-12) {
		t.Errorf("results: got %v, want %v", w.results, want)
	}
	if !math.IsNaN((&grouped{View: v, r: r, first: 1}).Result((&grouped{View: v, r: r, first: 1}).Trial(3))) {
		t.Error("a group that is not over has a result")
	}
	grid := &tunetest.View{SearchSpace: tune.Space{tune.Grid("g", 1, 2)}}
	if _, err := (&Repeat{Suggester: w, Times: 2}).Suggest(grid, 0, nil); err == nil {
		t.Error("a grid: no error")
	}
}
