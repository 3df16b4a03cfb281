package show

import (
	"math"

	"github.com/paragon-train/paragon/tune"
	"github.com/paragon-train/paragon/tune/internal/importance"
)

// An Importance says how much a parameter decides whether a trial is good.
type Importance struct {
	Name  string
	Share float64 // of all parameters' together, in [0, 1]
	// Trials is how many trials had the parameter.
	Trials int
}

// Importances measures each parameter of the space by PED-ANOVA (Watanabe, Bansal and Hutter 2023): how far its distribution among the
// best fifth of the trials is from that among all. The most important one comes first; with fewer than 10 trials that have a value there is
// none. Only trials that had a conditional parameter count for it.
func Importances(v tune.View) []Importance {
	ranked := ranking(v)
	var params []importance.Param
	seen := make(map[string]bool)
	for _, p := range v.Space() {
		if !p.Searched() && p.Kind != tune.KindGrid || seen[p.Name] {
			continue
		}
		seen[p.Name] = true
		units := make([]float64, len(ranked))
		for i, t := range ranked {
			units[i] = math.NaN()
			if value, ok := t.Params.Get(p.Name); ok {
				units[i] = p.ToUnit(value)
			}
		}
		params = append(params, importance.Param{Name: p.Name, Count: p.Count(), Units: units})
	}
	var list []Importance
	for _, s := range importance.Of(params) {
		list = append(list, Importance(s))
	}
	return list
}
