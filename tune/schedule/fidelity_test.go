package schedule_test

import (
	"context"
	"log/slog"
	"math"
	"path/filepath"
	"testing"

	"github.com/paragon-train/paragon/tune"
	"github.com/paragon-train/paragon/tune/schedule"
	"github.com/paragon-train/paragon/tune/suggest"
)

// flattered searches where each level is a thousand better than the next: who compares values of
// two levels is found out.
func flattered(t *testing.T, s tune.Scheduler, sugg tune.Suggester, samples int) (*tune.Result, []tune.Event) {
	t.Helper()
	dir := t.TempDir()
	f := tune.Fidelity{Parameter: "width", Low: 4, High: 108}
	bonus := map[int64]float64{4: 3000, 12: 2000, 36: 1000, 108: 0}
	result, err := tune.Run(context.Background(), func(_ context.Context, p tune.Params, r *tune.Reporter) error {
		w, _ := p.Get("width")
		return r.Report(1, map[string]float64{"v": 10*p.Float("x") + bonus[w.(int64)]})
	}, tune.Config{Space: tune.Space{tune.Real("x", 0, 1)}, Fidelity: &f, Metric: "v", Mode: tune.Max, Samples: samples, Seed: 5, Dir: dir, Scheduler: s, Suggester: sugg,
		Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatalf("%T: %v", s, err)
	}
	var events []tune.Event
	if err := tune.ReadLog(filepath.Join(dir, "log.jsonl"), func(e tune.Event) error { events = append(events, e); return nil }); err != nil {
		t.Fatal(err)
	}
	return result, events
}

// A program in Go may give a rule steps that are not levels. The rule must still compare values of
// one level only.
func TestRulesCompareValuesOfOneFidelityOnly(t *testing.T) {
	for _, s := range []tune.Scheduler{
		&schedule.ASHA{MinStep: 1, MaxStep: 50, Eta: 1.7},
		&schedule.ASHA{Rule: schedule.Promotion, MinStep: 1, MaxStep: 50, Eta: 1.7},
		&schedule.ASHA{Rule: schedule.OptunaRule, Eta: 2},
		&schedule.ASHA{Rule: schedule.DeterminedRule, MaxStep: 70, Eta: 2},
		&schedule.ASHA{Rule: schedule.Promotion, MinStep: 4, MaxStep: 108, Brackets: 3},
		&schedule.Hyperband{MaxStep: 50, Eta: 2},
		&schedule.Hyperband{MaxStep: 108, Table: schedule.RayTable},
		&schedule.MedianStopping{},
		&schedule.Percentile{Startup: 2},
	} {
		_, events := flattered(t, s, nil, 60)
		compared, ended := 0, 0
		for _, e := range events {
			d := e.Decision
			if e.Kind != tune.EventReport {
				continue
			}
			if d.Action == tune.Complete {
				ended++
			}
			if math.IsNaN(d.Cutoff) || math.IsNaN(d.Value) {
				continue
			}
			if compared++; math.Abs(d.Value-d.Cutoff) > 10 {
				t.Errorf("%T: trial %d at width %d: %v is compared with %v, which is of another width (%s)", s, e.Trial, e.Step, d.Value, d.Cutoff, d.Rule)
			}
		}
		if compared < 5 || ended == 0 || ended >= 60 {
			t.Errorf("%T: %d comparisons, and %d trials ran at the highest fidelity: want some", s, compared, ended)
		}
	}
}

// Predict learns from the trials that ran at all fidelities what a low one tells of the highest. Of
// what Auto proposes near the best it stops little.
func TestPredictStopsAtALowFidelityAndKeepsTheBest(t *testing.T) {
	for _, c := range []struct {
		suggester tune.Suggester
		least     int
	}{{tune.Random{}, 10}, {&suggest.Auto{}, 0}} {
		result, _ := flattered(t, &schedule.Predict{MaxStep: 108}, c.suggester, 40)
		best, full, stopped := 0.0, 0, 0
		for _, x := range result.Trials() {
			best = max(best, 10*x.Params.Float("x"))
			if x.State == tune.Completed {
				full++
			} else if len(x.Reports) == 1 {
				stopped++
			}
		}
		if got := result.Value(result.BestTrial()); got < best-0.1 || stopped < c.least || full < 4 {
			t.Errorf("%T: the best is %v of %v, %d of 40 trials ran at the highest fidelity and %d at the lowest alone; want the best, and %d or more of these", c.suggester, got, best, full, stopped, c.least)
		}
	}
}
