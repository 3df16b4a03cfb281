package suggest_test

import (
	"errors"
	"log/slog"
	"math"
	"testing"
	"time"

	"github.com/paragon-train/paragon/tune"
	"github.com/paragon-train/paragon/tune/suggest"
)

// dear is a search on a simulated clock whose trials take 1 to 10 minutes by c, which says nothing
// of the value: that is best at x = 0.3.
type dear struct {
	*tune.Study
	dir string
	now time.Time
	// paid is what trials report of their cost; "" is nothing.
	paid string
	// free says that trials take no time.
	free bool
}

func newDear(t *testing.T, suggester tune.Suggester, samples int, within time.Duration) *dear {
	t.Helper()
	d := &dear{now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}
	cfg := tune.Config{Space: tune.Space{tune.Real("c", 0, 1), tune.Real("x", 0, 1)}, Metric: "v", Mode: tune.Max, Samples: samples, Seed: 2, Suggester: suggester,
		Now: func() time.Time { return d.now }, Logger: slog.New(slog.DiscardHandler)}
	if within > 0 {
		cfg.Deadline = d.now.Add(within)
	}
	var err error
	if d.Study, err = tune.NewStudy(cfg); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	return d
}

func cost(p tune.Params) float64 { return math.Pow(10, p.Float("c")) }

// run drives the search to its end, and returns its trials.
func (d *dear) run(t *testing.T) []tune.Trial {
	t.Helper()
	for {
		x, err := d.TryAsk()
		if errors.Is(err, tune.ErrDone) {
			return d.Result().Trials()
		}
		if err != nil {
			t.Fatal(err)
		}
		metrics := map[string]float64{"v": -math.Pow(x.Params.Float("x")-0.3, 2)}
		if d.paid != "" {
			metrics[d.paid] = cost(x.Params)
		}
		if !d.free {
			d.now = d.now.Add(time.Duration(cost(x.Params) * float64(time.Minute)))
		}
		if _, err := d.Tell(x.Number, 1, metrics); err != nil {
			t.Fatal(err)
		}
		if err := d.Finish(x.Number, nil); err != nil {
			t.Fatal(err)
		}
	}
}

// spent is the mean cost of the trials after the first ten, which are quasi-random.
func spent(trials []tune.Trial) float64 {
	sum := 0.0
	for _, x := range trials[10:] {
		sum += cost(x.Params) / float64(len(trials)-10)
	}
	return sum
}

func TestProposalsPerTimeAreCheaper(t *testing.T) {
	for name, make := range map[string]func(per string) tune.Suggester{
		"GP":   func(per string) tune.Suggester { return &suggest.GP{Per: per} },
		"Auto": func(per string) tune.Suggester { return &suggest.Auto{Per: per} },
	} {
		without, with := newDear(t, make(""), 40, 0), newDear(t, make(suggest.Time), 40, 0)
		a, b := without.run(t), with.run(t)
		if x, y := spent(a), spent(b); y > 0.8*x {
			t.Errorf("%s: trials took %.2f minutes, and per time %.2f: want at most four fifths", name, x, y)
		}
		best := with.Result().BestTrial()
		if v := with.Result().Value(best); v < -1e-3 {
			t.Errorf("%s: the best trial per time has %v, want 0 nearly", name, v)
		}
	}
}

// Trials may say themselves what they cost.
func TestProposalsPerAMetricAreCheaper(t *testing.T) {
	without, with := newDear(t, &suggest.GP{}, 40, 0), newDear(t, &suggest.GP{Per: "dollars"}, 40, 0)
	with.paid, with.free, without.free = "dollars", true, true
	if x, y := spent(without.run(t)), spent(with.run(t)); y > 0.8*x {
		t.Errorf("trials cost %.2f, and per dollar %.2f: want at most four fifths", x, y)
	}
	none := newDear(t, &suggest.GP{Per: "dollars"}, 40, 0) // which nobody reports
	none.free = true
	if x, y := spent(none.run(t)), spent(without.Result().Trials()); x != y {
		t.Errorf("without any cost the trials cost %v, want those without Per: %v", x, y)
	}
}

// With a deadline the last trials are those that end in time, although others would take longer.
func TestTrialsPerTimeThatEndBeforeTheDeadlineAreProposed(t *testing.T) {
	const within = 100 * time.Minute
	without, with := newDear(t, &suggest.GP{}, -1, within), newDear(t, &suggest.GP{Per: suggest.Time}, -1, within)
	left := func(d *dear) (unused time.Duration, late int) {
		var last time.Duration
		for _, x := range d.run(t) {
			end := x.StartedAt + time.Duration(cost(x.Params)*float64(time.Minute))
			if end > within {
				late++
			} else {
				last = max(last, end)
			}
		}
		return within - last, late
	}
	a, lateA := left(without)
	b, lateB := left(with)
	if lateB > 0 || b > 3*time.Minute {
		t.Errorf("per time: %d trials ended late, and %v were not used; without: %d and %v", lateB, b, lateA, a)
	}
}

// What the log of a search per time has proposed it proposes again.
func TestASearchPerTimeReplays(t *testing.T) {
	d := &dear{now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}
	config := func() tune.Config {
		return tune.Config{Space: tune.Space{tune.Real("c", 0, 1), tune.Real("x", 0, 1)}, Metric: "v", Mode: tune.Max, Samples: 40, Dir: d.dir, Suggester: &suggest.Auto{Per: suggest.Time},
			Resume: tune.ResumeAuto, Deadline: time.Date(2026, 3, 1, 13, 30, 0, 0, time.UTC), Now: func() time.Time { return d.now }, Logger: slog.New(slog.DiscardHandler)}
	}
	d.dir = t.TempDir()
	var err error
	if d.Study, err = tune.NewStudy(config()); err != nil {
		t.Fatal(err)
	}
	trials := d.run(t)
	hash := d.Result().DecisionHash()
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if got, err := tune.Replay(d.dir, config()); err != nil || got.DecisionHash != hash || got.Proposals != len(trials) {
		t.Errorf("got %+v, %v, want %d proposals", got, err, len(trials))
	}
}
