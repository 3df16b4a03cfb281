package show_test

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paragon-train/paragon/tune"
	"github.com/paragon-train/paragon/tune/schedule"
	"github.com/paragon-train/paragon/tune/show"
)

// The table, its lines and the report of a search with a deadline say what the deadline kept from
// being done, and why has the reason of each trial.
func TestTheEndByADeadlineIsExplained(t *testing.T) {
	for minutes := 10; ; minutes++ {
		dir, result, lines := endByDeadline(t, time.Duration(minutes)*time.Minute+30*time.Second)
		for _, x := range result.Trials() {
			if x.State == tune.Stopped && strings.Contains(x.Rule, "takes") {
				checkExplained(t, dir, result, lines, x.Number)
				return
			}
		}
		if minutes == 40 {
			t.Fatalf("no trial was ever kept from continuing: %s", result.Missed)
		}
	}
}

// endByDeadline runs a search with a deadline, and returns its folder, its result and the lines
// that it showed.
func endByDeadline(t *testing.T, within time.Duration) (dir string, result *tune.Result, lines string) {
	dir = t.TempDir()
	var shown bytes.Buffer
	synctest.Test(t, func(t *testing.T) {
		var err error
		result, err = tune.Run(t.Context(), func(ctx context.Context, _ tune.Params, r *tune.Reporter) error {
			_, from, _ := r.Restore()
			for step := max(from, 0) + 1; step <= 9; step++ {
				time.Sleep(time.Minute)
				if err := r.Checkpoint(step, func(dir string) error { return os.WriteFile(filepath.Join(dir, "x"), nil, 0o666) }); err != nil {
					return err
				}
				if err := r.Report(step, map[string]float64{"v": float64(step)}); err != nil {
					return err
				}
			}
			return nil
		}, tune.Config{Space: tune.Space{tune.Real("x", 0, 1)}, Metric: "v", Mode: tune.Max, Samples: 30, Dir: dir, Logger: slog.New(slog.DiscardHandler), Scheduler: &schedule.ASHA{Rule: schedule.Promotion, MaxStep: 9},
			Deadline: time.Now().Add(within), Observers: []tune.Observer{show.NewLines(&shown)}})
		if err != nil {
			t.Fatal(err)
		}
	})
	return dir, result, shown.String()
}

func checkExplained(t *testing.T, dir string, result *tune.Result, lines string, left int) {
	t.Helper()
	report := filepath.Join(dir, "report.html")
	if err := show.HTML(report, "x", result.View()); err != nil {
		t.Fatal(err)
	}
	html, err := os.ReadFile(report)
	if err != nil {
		t.Fatal(err)
	}
	var events []tune.Event
	if err := tune.ReadLog(dir, func(e tune.Event) error { events = append(events, e); return nil }); err != nil {
		t.Fatal(err)
	}
	var why bytes.Buffer
	if err := show.Why(&why, events, left); err != nil {
		t.Fatal(err)
	}
	for what, text := range map[string]string{"the table": lines, "the report": string(html)} {
		if !strings.Contains(text, result.Missed) {
			t.Errorf("%s does not say %q:\n%.2000s", what, result.Missed, text)
		}
	}
	for want, text := range map[string]string{
		"; deadline 2000-01-01 00:":                     lines,
		": not continued: deadline of ":                 lines,
		"no more new trials: deadline of ":              lines,
		"of 30 trials were not started (a trial takes ": result.Missed,
		"not continued: deadline of 2000-01-01T00:":     why.String(),
	} {
		if !strings.Contains(text, want) {
			t.Errorf("got\n%s\nwant %q in it", text, want)
		}
	}
}
