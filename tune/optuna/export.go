package optuna

import (
	"maps"
	"math"
	"slices"
	"strconv"

	"github.com/paragon-train/paragon/tune"
)

// Export is a study as a file. Trials that have not ended are left out, and Optuna gives those that
// it reads numbers of its own. A completed trial without finite values becomes a failed one, and
// one that was stopped or paused a pruned one. Derived parameters are left out. Metrics besides the
// objectives become user attributes.
func Export(name string, v tune.View) *File {
	f := &File{Version: Version, Name: name, Trials: []Trial{}}
	for _, o := range v.Objectives() {
		f.Directions = append(f.Directions, direction(o.Mode))
		f.MetricNames = append(f.MetricNames, o.Metric)
	}
	for t := range v.Trials() {
		if t.State == tune.Running || t.State == tune.Pending {
			continue
		}
		f.Trials = append(f.Trials, exportTrial(v, t))
	}
	return f
}

// direction is Optuna's word for a mode.
func direction(m tune.Mode) string {
	if m == tune.Min {
		return "minimize"
	}
	return "maximize"
}

// exportTrial is a trial that has ended, or is paused.
func exportTrial(v tune.View, t *tune.Trial) Trial {
	x := Trial{Number: t.Number, State: pruned, Distributions: map[string]Distribution{}, Intermediate: map[int]Number{},
		UserAttrs: map[string]any{}, SystemAttrs: map[string]any{}}
	space := v.Space()
	var kept []any
	for name, value := range t.Params.All() {
		p, ok := active(space, name, t.Params)
		// What is derived is computed anew.
		if !ok || p.Kind == tune.KindDerived {
			continue
		}
		kept = append(kept, name, value)
		x.Distributions[name] = distribution(p.Spec)
	}
	// NewParams cannot fail: they were those of a trial.
	x.Params, _ = tune.NewParams(kept...)
	objectives := v.Objectives()
	values := v.Values(t)
	finite := len(values) > 0
	for _, value := range values {
		finite = finite && !math.IsNaN(value) && !math.IsInf(value, 0)
	}
	switch {
	case t.State == tune.Failed || !finite:
		x.State = failed
		if t.Error != "" {
			x.UserAttrs["error"] = t.Error
		}
	case t.State == tune.Completed:
		x.State = complete
		for _, value := range values {
			x.Values = append(x.Values, Number(value))
		}
	}
	ranked, _ := tune.Ranked(v, t)
	for _, r := range t.Reports {
		if len(objectives) == 1 && !math.IsNaN(r.Value) {
			x.Intermediate[r.Step] = Number(r.Value)
		}
	}
	for _, m := range ranked.Metrics {
		if !slices.ContainsFunc(objectives, func(o tune.Objective) bool { return o.Metric == m.Name }) {
			x.UserAttrs[m.Name] = Number(m.Value)
		}
	}
	var excess []Number
	for _, c := range v.Constraints() {
		value, _ := ranked.Metrics.Get(c.Metric)
		excess = append(excess, Number(c.Excess(value)))
	}
	if excess != nil && ranked.Metrics != nil {
		// Optuna takes a trial for feasible if none of these is above 0.
		x.SystemAttrs["constraints"] = excess
	}
	return x
}

// active is the parameter of this name whose condition holds.
func active(space tune.Space, name string, p tune.Params) (tune.Param, bool) {
	for _, q := range space {
		if q.Name == name && q.Active(p) {
			return q, true
		}
	}
	return tune.Param{}, false
}

// beyond is how many deviations from its mean a normal parameter's distribution reaches: Optuna has
// none without bounds.
const beyond = 10

// distribution is a parameter's domain.
func distribution(s tune.Spec) Distribution {
	float := func(low, high, step float64) Distribution {
		a := map[string]any{"low": low, "high": high, "log": s.Log, "step": nil}
		if step > 0 && !s.Log {
			a["step"] = step
		}
		return Distribution{"FloatDistribution", a}
	}
	switch s.Kind {
	case tune.KindInt:
		return Distribution{"IntDistribution", map[string]any{"low": int64(s.Low), "high": int64(s.High), "log": s.Log, "step": max(int64(s.Step), 1)}}
	case tune.KindReal:
		return float(s.Low, s.High, s.Step)
	case tune.KindNormal:
		return float(s.Mean-beyond*s.Deviation, s.Mean+beyond*s.Deviation, 0)
	case tune.KindLogNormal:
		d := float(math.Exp(s.Mean-beyond*s.Deviation), math.Exp(s.Mean+beyond*s.Deviation), 0)
		d.Attributes["log"] = true
		return d
	}
	return Distribution{"CategoricalDistribution", map[string]any{"choices": slices.Clone(s.Values)}}
}

// numbers are the user attributes that are metrics, by name.
func (t *Trial) numbers() map[string]float64 {
	all := map[string]float64{}
	for _, name := range slices.Sorted(maps.Keys(t.UserAttrs)) {
		if x, ok := number(t.UserAttrs[name]); ok {
			all[name] = x
		}
	}
	return all
}

// number is a number of an attribute. A text counts if it is that of a number which JSON does not
// have.
func number(value any) (x float64, ok bool) {
	switch v := value.(type) {
	case float64:
		return v, true
	case Number:
		return float64(v), true
	case string:
		x, err := strconv.ParseFloat(v, 64)
		return x, err == nil && (math.IsNaN(x) || math.IsInf(x, 0))
	}
	return 0, false
}
