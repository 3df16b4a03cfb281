package tune

import (
	"fmt"
	"math"
	"slices"
	"strconv"
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

// violation is the sum of the constraints' violations by a report's metrics.
func violation(constraints []Constraint, m Metrics) float64 {
	sum := 0.0
	for _, x := range constraints {
		value, _ := m.Get(x.Metric)
		sum += x.Violation(value)
	}
	return sum
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
