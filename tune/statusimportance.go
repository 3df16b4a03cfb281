package tune

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/paragon-train/paragon/internal/observe/page"
	"github.com/paragon-train/paragon/tune/internal/importance"
)

// importanceEvery is how often the importance of parameters is measured while someone watches.
const importanceEvery = 20 * time.Second

// maxWeighed is how many trials it is measured by: with more, every so many of the ranking.
const maxWeighed = 2000

// weighed is what the importance of parameters is measured by.
type weighed struct {
	at     time.Time
	trials []weighedTrial
	stale  bool
	newest []page.SearchImportance
}

type weighedTrial struct {
	score     float64 // NaN: no value
	violation float64
	params    []any
}

// importance is that of the parameters. Only the page's poll calls it, one at a time.
func (p *statusPage) importance(mode Mode, rows []page.SearchRow) []page.SearchImportance {
	w := &p.weighed
	for _, x := range rows {
		for len(w.trials) <= x.Number {
			w.trials = append(w.trials, weighedTrial{score: math.NaN()})
		}
		score := mode.Score(x.Value)
		if math.IsInf(score, 0) {
			score = math.NaN()
		}
		w.stale = w.stale || !math.IsNaN(score)
		w.trials[x.Number] = weighedTrial{score, x.Violation, x.Params}
	}
	now := time.Now()
	if !w.stale || w.newest != nil && now.Sub(w.at) < importanceEvery {
		return w.newest
	}
	w.at, w.stale = now, false
	var ranked []int
	for i, t := range w.trials {
		if !math.IsNaN(t.score) {
			ranked = append(ranked, i)
		}
	}
	slices.SortStableFunc(ranked, func(a, b int) int {
		x, y := &w.trials[a], &w.trials[b]
		return cmp.Or(cmp.Compare(x.violation, y.violation), cmp.Compare(y.score, x.score))
	})
	if n := len(ranked); n > maxWeighed {
		thinned := make([]int, maxWeighed)
		for i := range thinned {
			thinned[i] = ranked[i*n/maxWeighed]
		}
		ranked = thinned
	}
	var params []importance.Param
	for i, q := range p.params {
		if !q.Searched() && q.Kind != KindGrid {
			continue
		}
		x := importance.Param{Name: q.Name, Count: q.Count(), Units: make([]float64, len(ranked))}
		for k, n := range ranked {
			x.Units[k] = math.NaN()
			if value := w.trials[n].params[i]; value != nil {
				x.Units[k] = q.ToUnit(value)
			}
		}
		params = append(params, x)
	}
	w.newest = nil
	for _, x := range importance.Of(params) {
		w.newest = append(w.newest, page.SearchImportance{Name: x.Name, Share: page.Precise(x.Share), Trials: x.Trials})
	}
	return w.newest
}
