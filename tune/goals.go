package tune

import (
	"fmt"
	"slices"
)

// goals are what a study searches for: one metric or several, with bounds of others. They change
// once, when the first report of a study without Config.Metric tells its metric.
type goals struct {
	// metric is the study's, or that of the first objective; "" until it is known.
	metric string
	mode   Mode
	// objectives are all of them if there are several.
	objectives []Objective
	// further are the metrics that a report must have besides metric to be judged.
	further     []string
	constraints []Constraint
}

// newGoals are those of a valid config.
func newGoals(cfg *Config) (g goals, err error) {
	g = goals{metric: cfg.Metric, mode: cfg.Mode, objectives: resolved(cfg.Objectives), further: cfg.furtherMetrics(), constraints: cfg.Constraints}
	switch {
	case cfg.several():
		g.metric, g.mode = g.objectives[0].Metric, g.objectives[0].Mode
	case g.metric != "":
		g.mode, err = cfg.Mode.resolve(g.metric)
	}
	return g, err
}

// furtherMetrics are the metrics that a report must have to be judged, after the first: those of
// the other objectives and of the constraints.
func (c *Config) furtherMetrics() []string {
	var names []string
	for i, o := range c.Objectives {
		if i > 0 {
			names = append(names, o.Metric)
		}
	}
	for _, x := range c.Constraints {
		if !slices.Contains(names, x.Metric) {
			names = append(names, x.Metric)
		}
	}
	return names
}

// choice is the metric to use, by the first report, if the config names none. Its mode is Config.Mode
// until then.
func (g *goals) choice(m Metrics) (string, Mode, error) {
	if len(m) != 1 {
		return "", Auto, fmt.Errorf("tune: Config.Metric is not set, and the first report has %s: set it to one of them: %w", orNone(m.Names()), ErrNoMetric)
	}
	mode, err := g.mode.resolve(m[0].Name)
	return m[0].Name, mode, err
}

// names are the metrics that a report must have to be judged.
func (g *goals) names() []string { return append([]string{g.metric}, g.further...) }

// lacks is the first further metric that a report does not have, or "".
func (g *goals) lacks(m Metrics) string {
	for _, name := range g.further {
		if _, ok := m.Get(name); !ok {
			return name
		}
	}
	return ""
}

// resolved is the mode, or Max before it is known.
func (g *goals) resolved() Mode {
	if g.mode == Auto {
		return Max
	}
	return g.mode
}

// score orients a value of metric so that larger is better.
func (g *goals) score(value float64) float64 { return g.resolved().Score(value) }

// better says whether a value of metric is better than another; NaN is worse than all.
func (g *goals) better(a, b float64) bool {
	if a != a {
		return false
	}
	return b != b || g.score(a) > g.score(b)
}

// outranks says whether report a of a trial is better than its report b: one that violates the
// constraints less, or else has the better value of metric.
func (g *goals) outranks(a, b *Report) bool {
	if all := g.constraints; len(all) > 0 {
		if x, y := violation(all, a.Metrics), violation(all, b.Metrics); x != y {
			return x < y
		}
	}
	return g.better(a.Value, b.Value)
}

// diverged is the first objective whose value is not finite, or "".
func (g *goals) diverged(r *Report) (metric string, value float64) {
	if !isFinite(r.Value) {
		return g.metric, r.Value
	}
	for _, o := range g.objectives {
		if v, _ := r.Metrics.Get(o.Metric); !isFinite(v) {
			return o.Metric, v
		}
	}
	return "", 0
}

// values are those of a report, by objective.
func (g *goals) values(r *Report) []float64 {
	if len(g.objectives) == 0 {
		return []float64{r.Value}
	}
	values := make([]float64, len(g.objectives))
	for i, o := range g.objectives {
		values[i], _ = r.Metrics.Get(o.Metric)
	}
	return values
}

// all are the objectives: one, or several.
func (g *goals) all() []Objective {
	if len(g.objectives) > 0 {
		return g.objectives
	}
	return []Objective{{g.metric, g.resolved()}}
}

// check says what is wrong with reports of a trial that was run elsewhere, and whether one
// has what it takes to be judged.
func (g *goals) check(reports []Report) (judged bool, err error) {
	step := -1
	for _, r := range reports {
		if r.Step <= step {
			return false, fmt.Errorf("a report of step %d after step %d: want steps of 0 or more that increase", r.Step, step)
		}
		step = r.Step
		if err := validMetrics(r.Metrics); err != nil {
			return false, fmt.Errorf("step %d: %w", r.Step, err)
		}
		if g.metric == "" {
			if _, _, err := g.choice(r.Metrics); err != nil {
				return false, err
			}
			judged = true
		} else if _, ok := r.Metrics.Get(g.metric); ok && g.lacks(r.Metrics) == "" {
			judged = true
		}
	}
	return judged, nil
}
