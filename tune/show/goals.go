package show

import (
	"fmt"
	"slices"
	"strings"

	"github.com/paragon-train/paragon/tune"
	"github.com/paragon-train/paragon/tune/internal/pareto"
)

// judged are the metrics by which trials are judged: those of the objectives, and then of the
// constraints.
func judged(v tune.View) []string {
	var names []string
	for _, o := range v.Objectives() {
		if o.Metric != "" {
			names = append(names, o.Metric)
		}
	}
	for _, c := range v.Constraints() {
		if !slices.Contains(names, c.Metric) {
			names = append(names, c.Metric)
		}
	}
	return names
}

// goalText says what is good: "accuracy, larger is better", and which constraints there are.
func goalText(v tune.View) string {
	var parts []string
	for _, o := range v.Objectives() {
		if o.Metric == "" {
			continue
		}
		better := "larger"
		if o.Mode == tune.Min {
			better = "smaller"
		}
		parts = append(parts, fmt.Sprintf("%s, %s is better", o.Metric, better))
	}
	text := strings.Join(parts, "; ")
	for i, c := range v.Constraints() {
		text += map[bool]string{true: "; with ", false: ", "}[i == 0] + c.String()
	}
	return text
}

// several says whether there is more than one objective.
func several(v tune.View) bool { return len(v.Objectives()) > 1 }

// goalColumns are the columns of a table that say how good trials are.
func goalColumns(v tune.View) []string {
	names := judged(v)
	if several(v) {
		names = append(names, "front")
	}
	if len(v.Constraints()) > 0 {
		names = append(names, "violation")
	}
	return names
}

// goalCells are a trial's cells of these columns: values of the report that it is ranked by, and
// without one the value at the fidelity that is among its parameters. front has the trials of the
// front.
func goalCells(v tune.View, t *tune.Trial, front map[int]bool) []any {
	var cells []any
	values := v.Values(t)
	// Below the highest fidelity a trial is not ranked, but has a value that a person wants to
	// see.
	if last, ok := t.Last(); ok && values == nil && v.Fidelity() != nil {
		values = []float64{last.Value}
	}
	objectives := v.Objectives()
	for i, o := range objectives {
		if o.Metric == "" {
			continue
		}
		var x any
		if i < len(values) {
			x = number(values[i])
		}
		cells = append(cells, x)
	}
	ranked, _ := tune.Ranked(v, t)
	for _, name := range judged(v)[min(len(objectives), len(judged(v))):] {
		var value any
		if x, ok := ranked.Metrics.Get(name); ok {
			value = number(x)
		}
		cells = append(cells, value)
	}
	if several(v) {
		var mark any
		if front[t.Number] {
			mark = "yes"
		}
		cells = append(cells, mark)
	}
	if len(v.Constraints()) > 0 {
		cells = append(cells, number(v.Violation(t)))
	}
	return cells
}

// onFront are the numbers of the trials on the Pareto front.
func onFront(v tune.View) map[int]bool {
	numbers := make(map[int]bool)
	for _, t := range tune.Front(v) {
		numbers[t.Number] = true
	}
	return numbers
}

// byGoals ranks trials that have values: front after front, and within one by the first objective;
// those that violate constraints last.
func byGoals(v tune.View) []*tune.Trial {
	var trials []*tune.Trial
	var points [][]float64
	var violations []float64
	for t := range v.Trials() {
		if s, ok := tune.Scores(v, t); ok {
			trials, points, violations = append(trials, t), append(points, s), append(violations, v.Violation(t))
		}
	}
	var ranked []*tune.Trial
	for _, front := range pareto.Fronts(points, violations, len(points)) {
		slices.SortStableFunc(front, func(a, b int) int { return slices.Compare(points[b], points[a]) })
		for _, i := range front {
			ranked = append(ranked, trials[i])
		}
	}
	return ranked
}

// frontPicture has the trials by two objectives, and the front as the steps between what it
// dominates and what it does not.
func frontPicture(v tune.View, ranked []*tune.Trial, front map[int]bool) picture {
	o := v.Objectives()
	p := newPicture("Pareto front", o[0].Metric, o[1].Metric)
	xs, ys := make([]float64, len(ranked)), make([]float64, len(ranked))
	for i, t := range ranked {
		values := v.Values(t)
		xs[i], ys[i] = values[0], values[1]
	}
	lowX, highX := span(xs)
	lowY, highY := span(ys)
	room := (highX - lowX) * 0.04
	x, y := p.frame(lowX-room, highX+room, lowY, highY, false)
	var stairsX, stairsY []float64
	for i := len(ranked) - 1; i >= 0; i-- {
		t := ranked[i]
		colour := shade(1)
		switch {
		case front[t.Number]:
			colour = shade(0)
		case v.Violation(t) > 0:
			colour = infeasible
		}
		p.Points = append(p.Points, dot{x.at(xs[i]), y.at(ys[i]), colour, goalName(v, t)})
	}
	// The front comes first, with the best by the first objective at its begin.
	for i, t := range ranked {
		if !front[t.Number] {
			continue
		}
		if n := len(stairsX); n > 0 {
			stairsX, stairsY = append(stairsX, xs[i]), append(stairsY, stairsY[n-1])
		}
		stairsX, stairsY = append(stairsX, xs[i]), append(stairsY, ys[i])
	}
	p.Lines = append(p.Lines, line{Path: path(x, y, stairsX, stairsY), Colour: shade(0), Name: "Pareto front", Faint: true})
	return p
}

// infeasible is the colour of trials that violate constraints.
const infeasible = "#d92d20"

// goalName is a trial with its values and parameters on one line.
func goalName(v tune.View, t *tune.Trial) string {
	var parts []string
	values := v.Values(t)
	for i, o := range v.Objectives() {
		if i < len(values) {
			parts = append(parts, o.Metric+" "+valueText(values[i]))
		}
	}
	if x := v.Violation(t); x > 0 {
		parts = append(parts, "violation "+valueText(x))
	}
	return fmt.Sprintf("%s: %s, %s", t.Name(), strings.Join(parts, ", "), paramText(t.Params))
}
