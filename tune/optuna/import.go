package optuna

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/paragon-train/paragon/tune"
)

// Import adds the trials of a file to a study, in their order, and says how many of them there
// were; those that have not ended are left out, and so are pruned ones without a value. The study's
// space must have their parameters, and its objectives the file's directions, in their order:
// values are taken by place, whatever the names. scope is that of the study's config. User
// attributes that are numbers become metrics.
//
// A trial reports its intermediate values, and then its final ones at the next step, unless it is
// ranked by such a report already.
func (f *File) Import(s *tune.Study, scope tune.Scope) (added, left int, err error) {
	var objectives []tune.Objective
	var constraints []tune.Constraint
	s.View(func(v tune.View) { objectives, constraints = v.Objectives(), v.Constraints() })
	if len(objectives) != len(f.Directions) {
		return 0, 0, fmt.Errorf("optuna: the file has %d objectives, and the study %d", len(f.Directions), len(objectives))
	}
	for i, o := range objectives {
		if o.Metric == "" {
			return 0, 0, errors.New("optuna: the study has no metric: set it")
		}
		if d := direction(o.Mode); d != f.Directions[i] {
			return 0, 0, fmt.Errorf("optuna: the file's objective %d is to %s, and the study's, %s, to %s", i, f.Directions[i], o.Metric, d)
		}
	}
	for i := range f.Trials {
		t := &f.Trials[i]
		one := tune.Trial{Params: t.Params, State: map[string]tune.State{complete: tune.Completed, pruned: tune.Pruned, failed: tune.Failed}[t.State]}
		if one.State == "" {
			left++
			continue
		}
		if one.State == tune.Failed {
			one.Error, _ = t.UserAttrs["error"].(string)
			one.Error = cmp.Or(one.Error, "failed in Optuna")
		}
		one.Reports = t.reports(objectives, constraints, scope == tune.LastReport)
		if len(one.Reports) == 0 && one.State == tune.Pruned {
			left++
			continue
		}
		if _, err := s.AddTrial(one); err != nil {
			return added, left, fmt.Errorf("optuna: trials[%d], number %d: %w", i, t.Number, err)
		}
		added++
	}
	return added, left, nil
}

// reports are a trial's, by step. All of them have the metrics of its attributes.
func (t *Trial) reports(objectives []tune.Objective, constraints []tune.Constraint, last bool) []tune.Report {
	others := t.numbers()
	excess, _ := t.SystemAttrs["constraints"].([]any)
	for i, c := range constraints {
		if _, ok := others[c.Metric]; ok || len(excess) != len(constraints) {
			continue
		}
		if x, ok := number(excess[i]); ok {
			if c.AtLeast {
				x = -x
			}
			others[c.Metric] = c.Bound + x
		}
	}
	report := func(step int, values ...Number) tune.Report {
		m := maps.Clone(others)
		for i, x := range values {
			m[objectives[i].Metric] = float64(x)
		}
		return tune.Report{Step: step, Metrics: tune.MetricsOf(m)}
	}
	var reports []tune.Report
	best := math.NaN()
	steps := slices.Sorted(maps.Keys(t.Intermediate))
	if len(objectives) == 1 {
		for _, step := range steps {
			x := t.Intermediate[step]
			reports = append(reports, report(step, x))
			if score := objectives[0].Mode.Score(float64(x)); last || math.IsNaN(best) || score > objectives[0].Mode.Score(best) {
				best = float64(x)
			}
		}
	}
	if len(t.Values) == len(objectives) && (len(objectives) > 1 || len(reports) == 0 || best != float64(t.Values[0])) {
		step := 1
		if len(reports) > 0 {
			step = steps[len(steps)-1] + 1
		}
		reports = append(reports, report(step, t.Values...))
	}
	return reports
}
