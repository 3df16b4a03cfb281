package show

import (
	"cmp"
	"math"
	"slices"

	"github.com/paragon-train/paragon/tune"
	"github.com/paragon-train/paragon/tune/internal/fanova"
	"github.com/paragon-train/paragon/tune/internal/importance"
)

// An Importance says how much a parameter decides whether a trial is good.
type Importance struct {
	Name string
	// Share is the parameter's part of all importance, in [0, 1].
	Share float64
	// Trials is how many trials had the parameter.
	Trials int
}

// Importances measures each parameter of the space by PED-ANOVA (Watanabe, Bansal and Hutter 2023):
// how far its distribution among the best fifth of the trials is from that among all. The most
// important one comes first; with fewer than 10 trials that have a value there is none. Only trials
// that had a conditional parameter count for it.
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

// maxFitted is how many trials Variances fits: with more, every so many of them.
const maxFitted = 500

// Variances is how much of an objective's variance over the whole space each parameter alone
// explains, by functional ANOVA of a random forest that is fitted to the trials (Hutter, Hoos and
// Leyton-Brown 2014). The shares add up to at most about 1; the rest is due to parameters together.
// The largest comes first; with fewer than 10 trials that have a value there is none. A parameter
// that a trial does not have counts as the middle of its values there. The same trials give the
// same shares.
//
// Where Importances asks what the best trials have in common, Variances asks what moves the
// objective at all, bad trials included.
func Variances(v tune.View, objective int) []Importance {
	var trials []*tune.Trial
	for t := range v.Trials() {
		if values := v.Values(t); objective < len(values) && isFinite(values[objective]) {
			trials = append(trials, t)
		}
	}
	if len(trials) < importance.Fewest {
		return nil
	}
	if n := len(trials); n > maxFitted {
		for i := range maxFitted {
			trials[i] = trials[i*n/maxFitted]
		}
		trials = trials[:maxFitted]
	}
	x, y := make([][]float64, len(trials)), make([]float64, len(trials))
	for i, t := range trials {
		y[i] = v.Values(t)[objective]
	}
	var inputs []fanova.Input
	var list []Importance
	seen := make(map[string]bool)
	for _, p := range v.Space() {
		if !p.Searched() && p.Kind != tune.KindGrid || seen[p.Name] {
			continue
		}
		seen[p.Name] = true
		in, had := fanova.Input{}, 0
		// The values of a logarithmic parameter have intervals of several lengths.
		if !p.Spec.Log {
			in.Count = p.Count()
		}
		for i, t := range trials {
			u := 0.5
			if value, ok := t.Params.Get(p.Name); ok {
				u, had = p.ToUnit(value), had+1
			}
			x[i] = append(x[i], u)
		}
		inputs = append(inputs, in)
		list = append(list, Importance{Name: p.Name, Trials: had})
	}
	for j, share := range fanova.Shares(inputs, x, y, v.Seed()) {
		list[j].Share = share
	}
	slices.SortStableFunc(list, func(a, b Importance) int { return cmp.Compare(b.Share, a.Share) })
	return list
}
