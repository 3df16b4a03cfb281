package curvetest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/paragon-train/paragon/tune"
	"github.com/paragon-train/paragon/tune/schedule"
	"github.com/paragon-train/paragon/tune/suggest"
)

// A scripted search has a list of answers to Next, stops or pauses trials at given steps, and
// writes down what it is told.
type scripted struct {
	next   []int // a trial, or what follows
	params func(n int) tune.Params
	at     map[[2]int]tune.Action // by trial and step
	said   strings.Builder
}

const (
	wait = -1
	done = -2
)

func (s *scripted) Next(now time.Duration) (int, tune.Params, error) {
	if len(s.next) == 0 || s.next[0] == done {
		return 0, tune.Params{}, tune.ErrDone
	}
	n := s.next[0]
	s.next = s.next[1:]
	if n == wait {
		return 0, tune.Params{}, tune.ErrWait
	}
	fmt.Fprintf(&s.said, "%v: start %d\n", now, n)
	return n, s.params(n), nil
}

func (s *scripted) Report(now time.Duration, trial, step int, value float64, last bool) (tune.Action, error) {
	a, ok := s.at[[2]int{trial, step}]
	if !ok {
		a = tune.Continue
	}
	if a != tune.Continue || last {
		fmt.Fprintf(&s.said, "%v: %d at step %d: %s %v\n", now, trial, step, a, last)
	}
	return a, nil
}

func (s *scripted) End(now time.Duration, trial int) error {
	fmt.Fprintf(&s.said, "%v: end %d\n", now, trial)
	return nil
}

func (s *scripted) Close() error { return nil }

// Trials run at once on the workers' clock, continue after a pause where they were, and end at
// their last step.
func TestSimulatedClock(t *testing.T) {
	p := Draw(Steady, 0) // 27 steps of a second
	points := draw(t, &p, 10)
	s := &scripted{params: func(n int) tune.Params { return points[n] }, next: []int{0, 1, wait, wait, 2, 0, 1, done},
		at: map[[2]int]tune.Action{{0, 3}: tune.Pause, {1, 3}: tune.Continue, {2, 2}: tune.Stop, {1, 27}: tune.Pause}}
	o, err := Simulate(p, s, Config{Workers: 2, Parts: []float64{0.01, 1}})
	if err != nil {
		t.Fatal(err)
	}
	want := `0s: start 0
0s: start 1
3s: 0 at step 3: pause false
4s: start 2
6s: 2 at step 2: stop false
6s: start 0
`
	if got := s.said.String(); !strings.HasPrefix(got, want) {
		t.Errorf("got\n%swant first\n%s", got, want)
	}
	if !strings.Contains(s.said.String(), "0 at step 27: continue true\n") {
		t.Errorf("trial 0 did not go on to its end:\n%s", s.said.String())
	}
	if o.Trials != 3 || o.Full != 2 || o.Steps != 27+27+2 {
		t.Errorf("got %d trials, %d to the end, %d steps, want 3, 2, 56", o.Trials, o.Full, o.Steps)
	}
	if o.Busy <= 0.5 || o.Busy >= 1 {
		t.Errorf("the workers trained for %v of the time, want more than half and not all of it", o.Busy)
	}
	best := math.Inf(-1)
	for _, n := range []int{0, 1, 2} {
		if n != 2 {
			best = max(best, p.Final(points[n]))
		}
	}
	if len(o.Regret) != 2 || math.Abs(o.Regret[1]-(p.Best-best)) > 1e-9 && o.Regret[1] != p.Best-p.Final(points[2]) {
		t.Errorf("regret %v, want %v at the end", o.Regret, p.Best-best)
	}
}

// A trial that was paused at its own last step ends when it is chosen again, without a report.
func TestTrialPausedAtItsEnd(t *testing.T) {
	p := Draw(Steady, 0)
	q := draw(t, &p, 1)[0]
	s := &scripted{params: func(int) tune.Params { return q }, next: []int{0, 0, done}, at: map[[2]int]tune.Action{{0, 27}: tune.Pause}}
	if _, err := Simulate(p, s, Config{}); err != nil {
		t.Fatal(err)
	}
	if got, want := s.said.String(), "0s: start 0\n27s: 0 at step 27: pause true\n27s: start 0\n27s: end 0\n"; got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

// A search that starts what it may not, or waits for nothing, is an error that says so.
func TestWrongSearches(t *testing.T) {
	p := Draw(Steady, 0)
	q := draw(t, &p, 1)[0]
	for _, tc := range []struct {
		next []int
		want string
	}{{[]int{0, 0}, "trial 0, which runs"}, {[]int{1}, "starts trial 1, want 0 to 0"}, {[]int{wait}, "waits, and nothing runs"}} {
		s := &scripted{params: func(int) tune.Params { return q }, next: tc.next}
		if _, err := Simulate(p, s, Config{Workers: 2}); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("next %v: got %v, want an error with %q", tc.next, err, tc.want)
		}
	}
	if _, err := Simulate(p, &scripted{}, Config{Parts: []float64{1, 0.5}}); err == nil {
		t.Error("Parts that decrease: no error")
	}
}

// searchOf runs a study with a rule over a problem.
func searchOf(t *testing.T, p Problem, s tune.Suggester, rule tune.Scheduler, workers int, trainings float64, seed uint64) (Outcome, *StudySearch) {
	t.Helper()
	search, err := NewStudySearch(p, StudyConfig{Suggester: s, Scheduler: rule, Workers: workers, Seed: seed})
	if err != nil {
		t.Fatal(err)
	}
	defer search.Close()
	o, err := Simulate(p, search, Config{Workers: workers, Seed: seed, Trainings: trainings})
	if err != nil {
		t.Fatal(err)
	}
	return o, search
}

// Every rule copes with every kind, one trial at a time or many, within its budget; the same seed
// gives the same outcome.
func TestRulesOnAllKinds(t *testing.T) {
	rules := map[string]func(p Problem) tune.Scheduler{
		"none":      func(Problem) tune.Scheduler { return nil },
		"ASHA":      func(p Problem) tune.Scheduler { return &schedule.ASHA{MaxStep: p.Last} },
		"promotion": func(p Problem) tune.Scheduler { return &schedule.ASHA{MaxStep: p.Last, Rule: schedule.Promotion} },
		"Hyperband": func(p Problem) tune.Scheduler { return &schedule.Hyperband{MaxStep: p.Last} },
		"median":    func(Problem) tune.Scheduler { return &schedule.MedianStopping{} },
	}
	for name, rule := range rules {
		for _, kind := range Kinds() {
			p := Draw(kind, rand.N[uint64](4)) // any will do
			for _, workers := range []int{1, 32} {
				o, _ := searchOf(t, p, nil, rule(p), workers, 12, 3)
				again, _ := searchOf(t, p, nil, rule(p), workers, 12, 3)
				if !reflect.DeepEqual(o, again) {
					t.Errorf("%s on %s, %d workers: the same seed gives %+v and %+v", name, p.Name, workers, o, again)
				}
				if len(o.Regret) != 4 || o.Trials < 10 || o.Clock <= 0 {
					t.Errorf("%s on %s, %d workers: %+v", name, p.Name, workers, o)
				}
				for _, r := range o.Regret {
					if !(r >= 0 && r <= p.Best) {
						t.Errorf("%s on %s, %d workers: regret %v", name, p.Name, workers, o.Regret)
					}
				}
			}
		}
	}
}

// A study's times are those of the simulated clock.
func TestStudyHasTheSimulatedClock(t *testing.T) {
	p := Draw(Steady, 0)
	o, s := searchOf(t, p, &suggest.TPE{}, nil, 1, 2, 1)
	if o.Clock != 54*time.Second {
		t.Fatalf("two trainings of 27 steps took %v, want 54s", o.Clock)
	}
	s.Study().View(func(v tune.View) {
		if r := v.Trial(1).Reports[26]; r.At != 54*time.Second || r.Elapsed != 27*time.Second {
			t.Errorf("the last report of trial 1 was at %v after %v of training, want 54s and 27s", r.At, r.Elapsed)
		}
	})
	if proposals, verdicts := s.Times(); len(proposals) < 2 || len(verdicts) != 54 {
		t.Errorf("%d proposals and %d decisions were measured, want 2 and 54", len(proposals), len(verdicts))
	}
}

// Trials that train anew at each level cost all of its steps, and only those at the last step are
// named best.
func TestLevelsCostAllOfTheirSteps(t *testing.T) {
	p := Draw(Steady, 0)
	f := &tune.Fidelity{Parameter: "steps of the run", Low: 3, High: 27}
	search, err := NewStudySearch(p, StudyConfig{Scheduler: &schedule.ASHA{Rule: schedule.Promotion, MinStep: 3, MaxStep: 27}, Fidelity: f, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer search.Close()
	o, err := Simulate(p, search, Config{Seed: 1, Trainings: 20, Parts: []float64{0.01, 1}})
	if err != nil {
		t.Fatal(err)
	}
	steps, full, best := 0, 0, math.Inf(1)
	search.Study().View(func(v tune.View) {
		for x := range v.Trials() {
			for _, r := range x.Reports {
				steps += r.Step
			}
			if x.State == tune.Completed {
				full++
				best = min(best, p.Best-p.Final(x.Params))
			}
		}
	})
	if o.Steps != steps || o.Full != full || full == 0 || full >= o.Trials {
		t.Errorf("got %+v, want %d steps and %d trials at the last one, fewer than all", o, steps, full)
	}
	if o.Regret[0] != p.Best-p.Chance || o.Regret[1] < best {
		t.Errorf("got regret %v, want that of chance before a trial is at its last step, and then at least %v", o.Regret, best)
	}
}
