package tune_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paragon-train/paragon/tune"
	"github.com/paragon-train/paragon/tune/schedule"
)

// minutes is a trainable that trains a step in p's minutes and keeps its state at each, to the step
// 10, or as many as last says.
func minutes(last int) tune.Trainable {
	return func(ctx context.Context, p tune.Params, r *tune.Reporter) error {
		_, from, _ := r.Restore()
		for step := max(from, 0) + 1; step <= last; step++ {
			select {
			case <-time.After(time.Duration(p.Float("minutes") * float64(time.Minute))):
			case <-ctx.Done():
				return ctx.Err()
			}
			if err := r.Checkpoint(step, func(dir string) error { return os.WriteFile(filepath.Join(dir, "x"), nil, 0o666) }); err != nil {
				return err
			}
			if err := r.Report(step, map[string]float64{"v": float64(step)}); err != nil {
				return err
			}
		}
		return nil
	}
}

// A timed is how a search with a deadline went.
type timed struct {
	*tune.Result
	took time.Duration
	said string // the logger's lines
}

// states are the trials' states with their last steps, in a few letters: C10 R3.
func (r timed) states() string {
	var all []string
	for _, t := range r.Trials() {
		step, _ := t.LastStep()
		all = append(all, fmt.Sprintf("%.2s%d", t.State, step))
	}
	return strings.Join(all, " ")
}

// runTo runs a search on fake time, whose deadline is so long after its begin; 0: it has none.
func runTo(t *testing.T, within time.Duration, f tune.Trainable, cfg tune.Config) (out timed) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		if within != 0 {
			cfg.Deadline = begin.Add(within)
		}
		var said strings.Builder
		cfg.Metric, cfg.Logger = "v", slog.New(slog.NewTextHandler(&said, nil))
		result, err := tune.Run(t.Context(), f, cfg)
		if err != nil && !errors.Is(err, tune.ErrNoResult) {
			t.Fatal(err)
		}
		out = timed{result, time.Since(begin), said.String()}
	})
	return out
}

// aMinute is a space of trials all of whose steps take a minute.
var aMinute = tune.Space{tune.Grid("minutes", 1.0)}

func TestNoTrialIsStartedThatCannotEndByTheDeadline(t *testing.T) {
	cfg := tune.Config{Space: aMinute, Samples: 20, Parallel: 2}
	r := runTo(t, 45*time.Minute, minutes(10), cfg)
	if got, want := r.states(), strings.TrimSpace(strings.Repeat("co10 ", 8)); got != want || r.took != 40*time.Minute {
		t.Errorf("got %s in %v, want %s in 40m: another trial takes 10m, and 5m are left", got, r.took, want)
	}
	want := "12 of 20 trials were not started (a trial takes 10m0s, and 5m0s were left)"
	if got := r.Missed; !strings.HasPrefix(got, "deadline of ") || !strings.HasSuffix(got, want) {
		t.Errorf("got %q, want the deadline and %q", got, want)
	}
	if got := r.View().Plan().Missed; got != r.Missed {
		t.Errorf("the view says %q, the result %q", got, r.Missed)
	}
	if r = runTo(t, 50*time.Minute+time.Second, minutes(10), cfg); len(r.Trials()) != 10 || r.took != 50*time.Minute {
		t.Errorf("got %d trials in %v, want 10 in 50m: the last ones end just in time", len(r.Trials()), r.took)
	}
}

func TestTheDeadlineEndsTheSearchWithTheBestSoFar(t *testing.T) {
	r := runTo(t, 25*time.Minute+time.Second, minutes(100), tune.Config{Space: aMinute, Samples: 3, Parallel: 2})
	if got := r.states(); got != "st25 st25" || r.took != 25*time.Minute+time.Second || r.Halted == "" {
		t.Errorf("got %s in %v (%q), want both stopped after 25 steps", got, r.took, r.Halted)
	}
	if best := r.BestTrial(); r.Value(best) != 25 {
		t.Errorf("the best is %v, want what was reported by then", r.Value(best))
	}
	if want := "1 of 3 trials was not started; trials 0, 1 were stopped"; !strings.HasSuffix(r.Missed, want) {
		t.Errorf("got %q, want %q", r.Missed, want)
	}
}

// An asynchronous rung's best go on as long as they reach the next rung in time; a trial that does
// not stays where it is, and a trial of a lower rung, which needs less, goes on in its place.
func TestAPausedTrialThatCannotReachItsNextRungByTheDeadlineIsNotContinued(t *testing.T) {
	cfg := tune.Config{Space: aMinute, Samples: 30, Scheduler: &schedule.ASHA{Rule: schedule.Promotion, MaxStep: 27}}
	whole := runTo(t, 0, minutes(27), cfg)
	cfg.Scheduler = &schedule.ASHA{Rule: schedule.Promotion, MaxStep: 27}
	late := 0
	for within := 10 * time.Minute; within < whole.took; within += 13 * time.Minute {
		cfg.Scheduler = &schedule.ASHA{Rule: schedule.Promotion, MaxStep: 27}
		r := runTo(t, within, minutes(27), cfg)
		if r.took > within {
			t.Fatalf("the search took %v, want at most %v", r.took, within)
		}
		for _, x := range r.Trials() {
			step, _ := x.LastStep()
			switch {
			case x.State == tune.Stopped && strings.Contains(x.Rule, ": "):
				if late++; !slices.Contains([]int{1, 3, 9}, step) {
					t.Errorf("deadline after %v: trial %d was not continued at step %d, which is no rung", within, x.Number, step)
				}
				if !strings.Contains(r.Missed, "not continued") {
					t.Errorf("deadline after %v: got %q, want which trials were not continued", within, r.Missed)
				}
			case x.State == tune.Stopped:
				t.Errorf("deadline after %v: trial %d was stopped at step %d, which is no rung: it should not have gone on", within, x.Number, step)
			}
		}
	}
	if late == 0 {
		t.Error("no trial was ever kept from continuing")
	}
}

// With a fidelity a trial climbs only to a level that it reaches in time.
func TestATrialThatCannotEndAtItsNextFidelityByTheDeadlineIsNotContinued(t *testing.T) {
	late := map[string]bool{}
	for _, scheduler := range []func() tune.Scheduler{
		func() tune.Scheduler { return &schedule.ASHA{Rule: schedule.Promotion, MaxStep: 128, Eta: 2} },
		func() tune.Scheduler { return &schedule.ASHA{MaxStep: 128, Eta: 2} }, // goes on by itself
	} {
		for within := 30 * time.Minute; within < 80*time.Minute; within += 5 * time.Minute {
			cfg := tune.Config{Space: tune.Space{tune.Real("x", 0, 1)}, Fidelity: &tune.Fidelity{Parameter: "width", Low: 16, High: 128, Eta: 2}, Samples: 40, Scheduler: scheduler()}
			r := runTo(t, within+time.Second, func(ctx context.Context, p tune.Params, r *tune.Reporter) error {
				select {
				case <-time.After(time.Duration(p.Float("width")/16) * time.Minute):
				case <-ctx.Done():
					return ctx.Err()
				}
				return r.Report(1, map[string]float64{"v": p.Float("x")})
			}, cfg)
			for _, x := range r.Trials() {
				name := fmt.Sprintf("%s, deadline after %v: trial %d", r.View().Plan().Scheduler, within, x.Number)
				switch _, reason, ok := strings.Cut(x.Rule, "Z: "); {
				case x.State != tune.Stopped:
				case ok:
					late[strings.Fields(reason)[1]] = true
				default:
					t.Errorf("%s was stopped at width %v: it should not have begun", name, x.Params.Float("width"))
				}
			}
		}
	}
	if !late["128"] {
		t.Errorf("no trial was kept from continuing at width 128, only at %v", late)
	}
}

// A search that has ended by its deadline goes on with a later one: the trials that were stopped or
// not continued first, then new ones.
func TestASearchThatEndedByItsDeadlineGoesOnWithALaterOne(t *testing.T) {
	dir := t.TempDir()
	cfg := func() tune.Config {
		return tune.Config{Space: aMinute, Samples: 20, Parallel: 2, Dir: dir, Metric: "v", Resume: tune.ResumeAuto, Scheduler: &schedule.ASHA{Rule: schedule.Promotion, MaxStep: 9}}
	}
	first := runTo(t, 20*time.Minute, minutes(9), cfg())
	if first.Missed == "" || len(first.Trials()) == 20 {
		t.Fatalf("first: %s: %q, want trials that were not started", first.states(), first.Missed)
	}
	// Fake time begins again at the same date: the deadline of the search is over when an hour
	// has passed.
	over := runTo(t, -time.Hour, minutes(9), cfg())
	if over.took != 0 || len(over.Trials()) != len(first.Trials()) || !strings.HasPrefix(over.Halted, "deadline of ") {
		t.Errorf("with a deadline that has passed: %d trials in %v (%q), want none new", len(over.Trials()), over.took, over.Halted)
	}
	last := runTo(t, 0, minutes(9), cfg())
	if len(last.Trials()) != 20 || last.Missed != "" || last.Halted != "" {
		t.Errorf("without a deadline: %d trials, %q, %q", len(last.Trials()), last.Missed, last.Halted)
	}
	for _, x := range last.Trials() {
		if x.State != tune.Completed && x.State != tune.Paused && x.State != tune.Pruned {
			t.Errorf("trial %d is %s at the end (%s)", x.Number, x.State, x.Rule)
		}
	}
	if !strings.Contains(over.said, "Deadline was ") || !strings.Contains(last.said, "and is now none") {
		t.Errorf("resumes do not say that the deadline changed: %s%s", over.said, last.said)
	}
	replayed, err := tune.Replay(dir, cfg())
	if err != nil || replayed.DecisionHash != last.DecisionHash() {
		t.Errorf("replay: %v, hash %.8s, want %.8s", err, replayed.DecisionHash, last.DecisionHash())
	}
	if read, err := tune.ReadResult(dir); err != nil || read.Missed != last.Missed {
		t.Errorf("from the log alone: %v, %q", err, read.Missed)
	}
}

// What a log says of its deadline is what its readers say, and a start that the deadline did not
// allow is a difference.
func TestALogWithADeadlineReplays(t *testing.T) {
	dir := t.TempDir()
	cfg := tune.Config{Space: aMinute, Samples: 20, Parallel: 2, Dir: dir, Metric: "v", Seed: 4}
	r := runTo(t, 45*time.Minute, minutes(10), cfg)
	got, err := tune.Replay(dir, cfg)
	if err != nil || got.DecisionHash != r.DecisionHash() || got.Proposals != 8 {
		t.Errorf("got %+v, %v", got, err)
	}
	for what, read := range map[string]func() (*tune.Result, error){
		"ReadResult": func() (*tune.Result, error) { return tune.ReadResult(dir) },
		"Load":       func() (*tune.Result, error) { return tune.Load(dir, cfg) },
	} {
		if x, err := read(); err != nil {
			t.Errorf("%s: %v", what, err)
		} else if x.Missed != r.Missed {
			t.Errorf("%s: got %q, want %q", what, x.Missed, r.Missed)
		}
	}
}

// A search that a program drives ends with the first report after the deadline.
func TestTellAndTryAskEndAtTheDeadline(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	s, err := tune.NewStudy(tune.Config{Space: aMinute, Samples: 9, Metric: "v", Logger: quiet, Deadline: now.Add(time.Hour), Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	a, err := s.TryAsk()
	if err != nil {
		t.Fatal(err)
	}
	now = now.Add(59 * time.Minute)
	if d, err := s.Tell(a.Number, 1, map[string]float64{"v": 1}); err != nil || d.Action != tune.Continue {
		t.Fatalf("before the deadline: %+v, %v", d, err)
	}
	now = now.Add(time.Minute)
	d, err := s.Tell(a.Number, 2, map[string]float64{"v": 2})
	if err != nil || d.Action != tune.Stop || !strings.HasPrefix(d.Rule, "deadline of 2026-03-01T13:00:00Z") {
		t.Errorf("at the deadline: %+v, %v", d, err)
	}
	if _, err := s.TryAsk(); !errors.Is(err, tune.ErrDone) {
		t.Errorf("after it: got %v, want %v", err, tune.ErrDone)
	}
}
