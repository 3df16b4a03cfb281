package tune

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/paragon-train/paragon/internal/observe/page"
)

// summary is what is known of the study as a whole, and how many trials run at each location. The
// study's mutex is held.
func summary(rec *recorder) (page.SearchUpdate, map[string]int) {
	v := rec.l.view
	u := page.SearchUpdate{
		Elapsed: page.Precise(rec.clock.elapsed().Seconds()), Metric: v.Metric(), Larger: v.Mode() != Min, Further: furtherGoals(v),
		Planned: max(v.plan.total, 0), Parallel: max(cmp.Or(v.cfg.Parallel, 1), 0), Exhausted: v.Exhausted(), Halted: v.stops.halted, Missed: v.missed(), Over: rec.end.phase == studyClosed,
	}
	if v.stops.haltErr != "" {
		u.Halted += ": " + v.stops.haltErr
	}
	if u.Over {
		u.Elapsed = page.Precise(v.Elapsed().Seconds())
	}
	running := make(map[string]int)
	for t := range v.Trials() {
		if t.State == Running {
			running[t.Location]++
		}
	}
	return u, running
}

// furtherGoals are the objectives after the first, and the constraints, for people.
func furtherGoals(v View) string {
	var b strings.Builder
	for _, o := range v.Objectives()[1:] {
		best := "largest"
		if o.Mode == Min {
			best = "smallest"
		}
		b.WriteString(" and " + best + " " + o.Metric)
	}
	before := ", with "
	for _, c := range v.Constraints() {
		b.WriteString(before + c.String())
		before = " and "
	}
	return b.String()
}

// mostViolation stands for an infinite violation, which is no number of JSON.
const mostViolation = 1e300

// rowOf copies a trial with its values of some parameters.
func rowOf(v View, t *Trial, params []Param) page.SearchRow {
	x := page.SearchRow{
		Number: t.Number, State: slices.Index(pageStates, t.State), Value: v.Result(t), Violation: min(v.Violation(t), mostViolation), BestStep: -1, Step: -1, Reports: len(t.Reports), Attempts: t.Attempts,
		Started: t.StartedAt.Seconds(), Ended: t.EndedAt.Seconds(), Trained: t.Elapsed.Seconds(), Location: t.Location, Rule: t.Reason(), Failure: string(t.Failure),
		Replicas: t.Placement.Replicas(), StopStep: -1, StopValue: math.NaN(), StopBound: math.NaN(),
	}
	if last, ok := t.LastStep(); ok {
		x.Step = last
	}
	if t.Best >= 0 && t.Best < len(t.Reports) {
		x.BestStep = t.Reports[t.Best].Step
	}
	if t.State != Failed {
		x.Failure = ""
	}
	x.Params = make([]any, len(params))
	for i, q := range params {
		x.Params[i], _ = t.Params.Get(q.Name)
	}
	return x
}

// forecastOf is how a trial is predicted to end, nil if it is not.
func forecastOf(t *Trial) *page.SearchForecast {
	f := t.Forecast()
	if f == nil {
		return nil
	}
	return &page.SearchForecast{Step: f.Step, Mean: page.Precise(f.Mean), Low: page.Precise(f.Low), High: page.Precise(f.High)}
}

// maxShownMetrics bounds the metrics of a trial that a page shows.
const maxShownMetrics = 24

// curvesOf are the metrics of a trial over its steps, the study's first and the others by name.
func curvesOf(t *Trial, metric string) []page.SearchCurve {
	curves := make(map[string]*page.SearchCurve)
	for _, r := range t.Reports {
		for _, m := range r.Metrics {
			c := curves[m.Name]
			if c == nil {
				c = &page.SearchCurve{Trial: t.Number, Metric: m.Name}
				if m.Name == metric {
					c.Forecast = forecastOf(t)
				}
				curves[m.Name] = c
			}
			c.Step, c.Value = append(c.Step, r.Step), append(c.Value, page.Precise(m.Value))
		}
	}
	names := slices.SortedFunc(maps.Keys(curves), func(a, b string) int {
		if c := b2i(b == metric) - b2i(a == metric); c != 0 {
			return c
		}
		return strings.Compare(a, b)
	})
	all := []page.SearchCurve{}
	for _, name := range names[:min(len(names), maxShownMetrics)] {
		all = append(all, *curves[name])
	}
	return all
}

// pageStates are the states of trials in the order of the page.
var pageStates = []State{Running, Pending, Paused, Completed, Pruned, Failed, Stopped}
