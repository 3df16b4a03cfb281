package tune

import (
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/paragon-train/paragon/tune/internal/pareto"
)

// An Objective is a metric to maximize or minimize.
type Objective struct {
	Metric string
	// Mode says which values are good; see Auto.
	Mode Mode
}

// String is "accuracy max".
func (o Objective) String() string { return o.Metric + " " + o.Mode.String() }

// MaxObjectives bounds Config.Objectives.
const MaxObjectives = 8

// A Constraint bounds a metric. A trial is feasible if the report that it is ranked by keeps all
// bounds.
type Constraint struct {
	Metric string
	// Bound is the largest value that is allowed; with AtLeast, the smallest.
	Bound   float64
	AtLeast bool
}

// String is "latency <= 20".
func (c Constraint) String() string {
	sign := " <= "
	if c.AtLeast {
		sign = " >= "
	}
	return c.Metric + sign + strconv.FormatFloat(c.Bound, 'g', -1, 64)
}

// Excess is how far a value is beyond the bound, in the metric's unit: positive if the bound is
// violated, else 0 or negative. It is +Inf for NaN.
func (c Constraint) Excess(value float64) float64 {
	switch {
	case math.IsNaN(value):
		return math.Inf(1)
	case c.AtLeast:
		return c.Bound - value
	default:
		return value - c.Bound
	}
}

// Violation is how far a value is beyond the bound, as a share of the bound's magnitude (in the
// metric's unit if the bound is 0): 0 if it is kept.
func (c Constraint) Violation(value float64) float64 {
	excess := max(c.Excess(value), 0)
	if c.Bound != 0 {
		excess /= math.Abs(c.Bound)
	}
	return excess
}

// validateGoals checks Objectives and Constraints.
func (c *Config) validateGoals(all *fieldErrors) {
	named := map[string]string{}
	if c.Metric != "" {
		named[c.Metric] = "Metric"
	}
	switch n := len(c.Objectives); {
	case n == 0:
	case c.Metric != "" || c.Mode != Auto:
		all.bad("Objectives", "Metric or Mode are set, too: want one of them")
	case n == 1 || n > MaxObjectives:
		all.bad("Objectives", "got %d, want 2 to %d, or Metric and Mode for one", n, MaxObjectives)
	}
	for i, o := range c.Objectives {
		what := fmt.Sprintf("Objectives[%d]", i)
		switch {
		case o.Metric == "":
			all.bad(what, "it has no Metric")
		case o.Mode > Min:
			all.bad(what, "its Mode is %d, want tune.Max or tune.Min", o.Mode)
		case named[o.Metric] != "":
			all.bad(what, "metric %q is that of %s, too", o.Metric, named[o.Metric])
		default:
			if _, err := o.Mode.resolve(o.Metric); err != nil {
				all.bad(what, "%w", err)
			}
		}
		named[o.Metric] = what
	}
	if len(c.Constraints) > 0 && c.Metric == "" && len(c.Objectives) == 0 {
		all.bad("Constraints", "they need Metric or Objectives: with several metrics in a report, say which one is to be good")
	}
	for i, x := range c.Constraints {
		what := fmt.Sprintf("Constraints[%d]", i)
		if x.Metric == "" {
			all.bad(what, "it has no Metric")
		}
		if math.IsNaN(x.Bound) || math.IsInf(x.Bound, 0) {
			all.bad(what, "its Bound is %v, want a finite number", x.Bound)
		}
	}
	if len(c.Objectives) == 0 {
		return
	}
	single := func(field string, rule any, instead string) {
		if s, ok := rule.(SingleObjective); ok && s.SingleObjective() {
			all.bad(field, "%T judges trials by one metric, and there are %d Objectives: %s", rule, len(c.Objectives), instead)
		}
	}
	single("Suggester", c.Suggester, "use suggest.MOTPE or suggest.NSGA2 (motpe or nsga2 in a study file)")
	single("Scheduler", c.Scheduler, "use tune.FIFO (fifo in a study file)")
	single("DefaultScheduler", c.DefaultScheduler, "leave it out")
	for i, p := range c.Pruners {
		single(fmt.Sprintf("Pruners[%d]", i), p, "use one that limits steps or time")
	}
}

// several says whether there is more than one objective.
func (c *Config) several() bool { return len(c.Objectives) > 0 }

// violation is the sum of the constraints' violations by a report's metrics.
func violation(constraints []Constraint, m Metrics) float64 {
	sum := 0.0
	for _, x := range constraints {
		value, _ := m.Get(x.Metric)
		sum += x.Violation(value)
	}
	return sum
}

func isFinite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }

// Scores are a trial's values by objective, oriented so that larger is better. ok is false if it
// has none, or one that is not finite.
func Scores(v View, t *Trial) (scores []float64, ok bool) {
	values := v.Values(t)
	objectives := v.Objectives()
	if len(values) != len(objectives) || len(values) == 0 {
		return nil, false
	}
	scores = make([]float64, len(values))
	for i, o := range objectives {
		if scores[i] = o.Mode.Score(values[i]); math.IsInf(scores[i], 0) {
			return nil, false
		}
	}
	return scores, true
}

// Ranked is the report by which a trial is ranked: the newest with its values and violation. ok is
// false if it has none.
func Ranked(v View, t *Trial) (r Report, ok bool) {
	values, violated := v.Values(t), v.Violation(t)
	objectives, constraints := v.Objectives(), v.Constraints()
	for _, r := range slices.Backward(t.Reports) {
		has := len(values) == len(objectives) && len(values) > 0 && sameBits(r.Value, values[0])
		for i := 1; has && i < len(values); i++ {
			x, _ := r.Metrics.Get(objectives[i].Metric)
			has = sameBits(x, values[i])
		}
		if has && violation(constraints, r.Metrics) == violated {
			return r, true
		}
	}
	return Report{}, false
}

func sameBits(a, b float64) bool { return math.Float64bits(a) == math.Float64bits(b) }

// Front is the Pareto front: the feasible trials with values that no other one's dominate. A trial
// dominates another if it is at least as good by all objectives and better by one. Trials with
// equal values are all on it. The best by the first objective comes first, then by the second and
// so on, and the earlier of equals.
func Front(v View) []*Trial {
	var trials []*Trial
	var points [][]float64
	for t := range v.Trials() {
		if s, ok := Scores(v, t); ok && v.Violation(t) == 0 {
			trials, points = append(trials, t), append(points, s)
		}
	}
	fronts := pareto.Fronts(points, nil, 1)
	if len(fronts) == 0 {
		return nil
	}
	slices.SortStableFunc(fronts[0], func(a, b int) int { return slices.Compare(points[b], points[a]) })
	front := make([]*Trial, len(fronts[0]))
	for i, n := range fronts[0] {
		front[i] = trials[n]
	}
	return front
}

// Front is the Pareto front of the study: see the function Front. With one objective it has the
// trials with the best value.
func (r *Result) Front() []Trial {
	var front []Trial
	for _, t := range Front(r.View()) {
		front = append(front, r.trials[t.Number])
	}
	return front
}

// Values are a trial's values by objective, as reported; nil if it has none.
func (r *Result) Values(t Trial) []float64 { return r.View().Values(&t) }

// Violation is the sum of a trial's violations of the constraints, each as a share of its bound's
// magnitude: 0 if it is feasible, NaN if it has no result.
func (r *Result) Violation(t Trial) float64 { return r.View().Violation(&t) }

// Objectives are the study's metrics with their modes: one, or those of Config.Objectives.
func (r *Result) Objectives() []Objective {
	if r.cfg.several() {
		return resolved(r.cfg.Objectives)
	}
	return []Objective{{r.Metric, r.Mode}}
}

// resolved are objectives, which are valid, with the modes to use.
func resolved(objectives []Objective) []Objective {
	all := slices.Clone(objectives)
	for i, o := range all {
		all[i].Mode, _ = o.Mode.resolve(o.Metric)
	}
	return all
}

// texts are the lines of the log's header for objectives and constraints.
func texts[T fmt.Stringer](all []T) []string {
	var lines []string
	for _, x := range all {
		lines = append(lines, x.String())
	}
	return lines
}
