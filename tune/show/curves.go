package show

import (
	"cmp"
	"slices"

	"github.com/paragon-train/paragon/metrics"
	"github.com/paragon-train/paragon/metrics/plot"
	"github.com/paragon-train/paragon/tune"
)

// maxNamed is how many curves have a colour and a name.
const maxNamed = 6

// Curves draws the study's metric of each trial over its steps, and how the best value grew with
// the study's time, into a PNG or SVG file. The best trials have names; the others stand grey
// behind them.
func Curves(path string, v tune.View) error {
	return plot.Curves(path, tune.CurvePanel(v), progressPanel(v))
}

// progressPanel is the best value, of reports that keep all constraints and are of the highest
// fidelity, over the time of the study.
func progressPanel(v tune.View) metrics.Panel {
	type point struct{ at, value float64 }
	var points []point
	for t := range v.Trials() {
		for _, r := range t.Reports {
			if isFinite(r.Value) && feasible(v, &r) && counts(v, &r) {
				points = append(points, point{r.At.Seconds(), r.Value})
			}
		}
	}
	slices.SortStableFunc(points, func(a, b point) int { return cmp.Compare(a.at, b.at) })
	best := metrics.Series{Name: "best so far"}
	for i, p := range points {
		n := len(best.Y)
		switch {
		case n == 0:
			best.X, best.Y = append(best.X, p.at), append(best.Y, p.value)
		case v.Score(p.value) > v.Score(best.Y[n-1]):
			// The best value stays until the moment at which a better one comes: the
			// line has steps.
			best.X, best.Y = append(best.X, p.at, p.at), append(best.Y, best.Y[n-1], p.value)
		case i == len(points)-1:
			// The line goes on to the last report.
			best.X, best.Y = append(best.X, p.at), append(best.Y, best.Y[n-1])
		}
	}
	return metrics.Panel{Title: "search", X: "seconds", Y: "best " + v.Metric(), Series: []metrics.Series{best}}
}

// counts says whether a report is of the highest fidelity.
func counts(v tune.View, r *tune.Report) bool {
	f := v.Fidelity()
	return f == nil || r.Step >= f.Step(f.High)
}

// feasible says whether a report keeps all constraints.
func feasible(v tune.View, r *tune.Report) bool {
	return !slices.ContainsFunc(v.Constraints(), func(c tune.Constraint) bool {
		x, _ := r.Metrics.Get(c.Metric)
		return c.Violation(x) > 0
	})
}

// ranking is the trials that have a value, the best first; with several objectives or constraints
// as byGoals ranks them.
func ranking(v tune.View) []*tune.Trial {
	if several(v) || len(v.Constraints()) > 0 {
		return byGoals(v)
	}
	var ranked []*tune.Trial
	for t := range v.Trials() {
		if isFinite(v.Result(t)) {
			ranked = append(ranked, t)
		}
	}
	slices.SortStableFunc(ranked, func(a, b *tune.Trial) int {
		return cmp.Compare(v.Score(v.Result(b)), v.Score(v.Result(a)))
	})
	return ranked
}

// steps are those of a trial's reports.
func steps(t *tune.Trial) []float64 {
	x := make([]float64, len(t.Reports))
	for i, r := range t.Reports {
		x[i] = float64(r.Step)
	}
	return x
}

// values are those of a trial's reports, NaN where one has none.
func values(t *tune.Trial) []float64 {
	y := make([]float64, len(t.Reports))
	for i, r := range t.Reports {
		y[i] = r.Value
	}
	return y
}
