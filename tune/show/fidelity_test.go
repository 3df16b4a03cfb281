package show

import (
	"context"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	"github.com/paragon-train/paragon/tune"
	"github.com/paragon-train/paragon/tune/schedule"
)

// A search whose low fidelity flatters: what is shown as the best is of the highest one, and a
// decision is explained by the others' values at the same fidelity.
func TestValuesOfDifferentFidelitiesAreNotShownAsIfEqual(t *testing.T) {
	dir := t.TempDir()
	result, err := tune.Run(context.Background(), func(_ context.Context, p tune.Params, r *tune.Reporter) error {
		return r.Report(1, map[string]float64{"v": p.Float("x") + float64(100/p.Int("width"))})
	}, tune.Config{Space: tune.Space{tune.Real("x", 0, 1)}, Fidelity: &tune.Fidelity{Parameter: "width", Low: 1, High: 9}, Metric: "v", Mode: tune.Max,
		Samples: 12, Seed: 1, Dir: dir, Scheduler: &schedule.ASHA{Rule: schedule.Promotion, MinStep: 1, MaxStep: 9}, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	v := result.View()
	for _, y := range progressPanel(v).Series[0].Y {
		if y > 12 {
			t.Errorf("the best so far is %v, want at most 12, which is the most at width 9", y)
		}
	}
	if x := tune.CurvePanel(v).X; x != "width" {
		t.Errorf("curves are over %q, want width", x)
	}
	if n := len(curvePicture(v, ranking(v)).Lines); n != 12 {
		t.Errorf("got %d curves, want those of all 12 trials", n)
	}
	for x := range v.Trials() {
		last, _ := x.Last()
		if got := goalCells(v, x, nil)[0]; got != last.Value {
			t.Errorf("trial %d is in the table with %v, want its value %v at width %d", x.Number, got, last.Value, x.Params.Int("width"))
		}
	}
	var events []tune.Event
	if err := tune.ReadLog(filepath.Join(dir, "log.jsonl"), func(e tune.Event) error { events = append(events, e); return nil }); err != nil {
		t.Fatal(err)
	}
	for n := range 12 {
		var b strings.Builder
		if err := Why(&b, events, n); err != nil {
			t.Fatal(err)
		}
		for _, line := range strings.Split(b.String(), "\n") {
			_, among, ok := strings.Cut(line, "; among trials at step ")
			if !ok {
				continue
			}
			step, list, _ := strings.Cut(among, " ")
			want := map[string]string{"1": "(100.", "3": "(33."}[step]
			if got := strings.Count(list, want); got == 0 || got != strings.Count(list, "(") {
				t.Errorf("trial %d: at step %s its value is compared with %s, want values %s...", n, step, list, want)
			}
		}
	}
}
