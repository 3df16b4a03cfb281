package study

import (
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/paragon-train/paragon/tune"
)

// objectives are several metrics with their modes: {accuracy: max, latency: min}.
type objectives []tune.Objective

// read implements selfReader.
func (o *objectives) read(r *reader, n *yaml.Node, field string) {
	for _, e := range r.entries(n, field) {
		mode, err := tune.ParseMode(e.value.Value)
		if e.value.Kind != yaml.ScalarNode || err != nil || mode == tune.Auto {
			r.bad(e.at, join(field, e.key), "got %s, want max or min", what(e.value))
			continue
		}
		*o = append(*o, tune.Objective{Metric: e.key, Mode: mode})
	}
}

// A constraint is a text: latency <= 20.
type constraint tune.Constraint

// read implements selfReader.
func (c *constraint) read(r *reader, n *yaml.Node, field string) {
	for _, sign := range []string{"<=", ">="} {
		metric, bound, ok := strings.Cut(n.Value, sign)
		if x, err := strconv.ParseFloat(strings.TrimSpace(bound), 64); ok && err == nil && strings.TrimSpace(metric) != "" {
			*c = constraint{Metric: strings.TrimSpace(metric), Bound: x, AtLeast: sign == ">="}
			return
		}
	}
	r.bad(n, field, "got %s, want a metric and its bound: latency <= 20, or accuracy >= 0.9", what(n))
}
