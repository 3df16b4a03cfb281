package tune

import (
	"math"
	"slices"

	"github.com/paragon-train/paragon/tune/internal/pareto"
)

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

// sameBits compares to the bit: a value is looked for that was copied, and a NaN is not equal to
// itself.
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
