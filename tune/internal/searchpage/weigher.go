package searchpage

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/paragon-train/paragon/internal/observe/page"
	"github.com/paragon-train/paragon/tune/internal/importance"
)

// weighEvery is how often the importance of parameters is measured while someone watches.
const weighEvery = 20 * time.Second

// maxWeighed is how many trials it is measured by: with more, every so many of the ranking.
const maxWeighed = 2000

// A weigher measures how much each parameter decides whether a trial is good. It keeps what it
// needs of all trials, and has no clock.
type weigher struct {
	params []Param
	trials []weighedTrial
	// stale says that a trial with a value has changed since newest was measured, at a time.
	stale  bool
	at     time.Time
	newest []page.SearchImportance
}

// A weighedTrial is what counts of a trial for the weights of parameters.
type weighedTrial struct {
	// score is larger the better the trial is; NaN: it has no value.
	score     float64
	violation float64
	params    []any
}

// weigh takes the trials that have changed, and returns the importance of the parameters: a new one
// if the one before is old, and trials have changed since. larger says which values are better.
func (w *weigher) weigh(larger bool, changed []page.SearchRow, now time.Time) []page.SearchImportance {
	for _, x := range changed {
		w.note(larger, x)
	}
	if !w.stale || w.newest != nil && now.Sub(w.at) < weighEvery {
		return w.newest
	}
	w.at, w.stale, w.newest = now, false, nil
	for _, x := range importance.Of(w.units(w.ranked())) {
		w.newest = append(w.newest, page.SearchImportance{Name: x.Name, Share: page.Precise(x.Share), Trials: x.Trials})
	}
	return w.newest
}

// note keeps a trial.
func (w *weigher) note(larger bool, x page.SearchRow) {
	for len(w.trials) <= x.Number {
		w.trials = append(w.trials, weighedTrial{score: math.NaN()})
	}
	score := x.Value
	if !larger {
		score = -score
	}
	if math.IsInf(score, 0) {
		score = math.NaN()
	}
	w.stale = w.stale || !math.IsNaN(score)
	w.trials[x.Number] = weighedTrial{score, x.Violation, x.Params}
}

// ranked are the numbers of the trials with a value, the best first, thinned to maxWeighed.
func (w *weigher) ranked() (ranked []int) {
	for i, t := range w.trials {
		if !math.IsNaN(t.score) {
			ranked = append(ranked, i)
		}
	}
	slices.SortStableFunc(ranked, func(a, b int) int {
		x, y := &w.trials[a], &w.trials[b]
		return cmp.Or(cmp.Compare(x.violation, y.violation), cmp.Compare(y.score, x.score))
	})
	n := len(ranked)
	if n <= maxWeighed {
		return ranked
	}
	thinned := make([]int, maxWeighed)
	for i := range thinned {
		thinned[i] = ranked[i*n/maxWeighed]
	}
	return thinned
}

// units are the values of the parameters that are weighed, in the order of the ranking.
func (w *weigher) units(ranked []int) (params []importance.Param) {
	for i, q := range w.params {
		if !q.Weighed {
			continue
		}
		x := importance.Param{Name: q.Name, Count: q.Count, Units: make([]float64, len(ranked))}
		for k, n := range ranked {
			x.Units[k] = math.NaN()
			if value := w.trials[n].params[i]; value != nil {
				x.Units[k] = q.ToUnit(value)
			}
		}
		params = append(params, x)
	}
	return params
}
