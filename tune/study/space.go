package study

import (
	"fmt"

	"go.yaml.in/yaml/v3"

	"github.com/paragon-train/paragon/tune"
)

// A space is the file's space; parameters keep their order.
type space struct{ tune.Space }

// read implements selfReader.
func (s *space) read(r *reader, n *yaml.Node, field string) {
	for _, e := range r.entries(n, field) {
		if p, ok := r.param(e, join(field, e.key)); ok {
			s.Space = append(s.Space, p)
		}
	}
}

// paramKinds are the fields that say what a parameter is, and paramOptions those that may stand
// beside one of them.
var paramKinds = []string{"real", "int", "bool", "choice", "normal", "lognormal", "grid"}
var paramOptions = []string{"log", "step", "default", "when"}

// param reads one parameter.
func (r *reader) param(e entry, field string) (tune.Param, bool) {
	before := len(r.errs)
	var p tune.Param
	switch n := e.value; {
	case n.Kind == yaml.SequenceNode:
		p = tune.Choice(e.key, r.values(n, field)...)
	case n.Kind == yaml.ScalarNode && n.Value == "bool":
		p = tune.Bool(e.key)
	case n.Kind == yaml.ScalarNode:
		// A value that stands alone is a choice of one: the parameter stays as it is.
		p = tune.Choice(e.key, r.constant(n, field))
	default:
		p = r.paramFields(e, field)
	}
	if len(r.errs) > before {
		return p, false
	}
	if err := (tune.Space{withoutCondition(p)}).Validate(); err != nil {
		r.bad(e.value, field, "%v", err)
		return p, false
	}
	return p, true
}

// withoutCondition is the parameter without its condition, which is about the parameters before it.
func withoutCondition(p tune.Param) tune.Param {
	p.Parent, p.ParentValues = "", nil
	return p
}

// paramFields reads a parameter that has fields: one of its kind, and options.
func (r *reader) paramFields(e entry, field string) tune.Param {
	var p tune.Param
	var kind string
	all := r.entries(e.value, field)
	for _, f := range all {
		at := join(field, f.key)
		var q tune.Param
		switch f.key {
		case "real":
			low, high := r.pair(f.value, at)
			q = tune.Real(e.key, low, high)
		case "int":
			low, high := r.pair(f.value, at)
			if low != float64(int(low)) || high != float64(int(high)) {
				r.bad(f.value, at, "got [%v, %v], want whole numbers", low, high)
			}
			q = tune.Int(e.key, int(low), int(high))
		case "bool":
			q = tune.Bool(e.key)
		case "choice":
			q = tune.Choice(e.key, r.values(f.value, at)...)
		case "grid":
			q = tune.Grid(e.key, r.values(f.value, at)...)
		case "normal":
			mean, deviation := r.pair(f.value, at)
			q = tune.Normal(e.key, mean, deviation)
		case "lognormal":
			mean, deviation := r.pair(f.value, at)
			q = tune.LogNormal(e.key, mean, deviation)
		default:
			continue
		}
		if kind != "" {
			r.bad(f.at, field, "it is both %s and %s", kind, f.key)
			continue
		}
		p, kind = q, f.key
	}
	if kind == "" {
		for _, f := range all {
			if nearest(f.key, append(paramKinds, paramOptions...)) != f.key {
				r.unknown(f, field, append(paramKinds, paramOptions...))
				return p
			}
		}
		r.bad(e.at, field, "it has no kind: want one of %s, such as {real: [0.001, 0.1], log: true}", list(paramKinds))
		return p
	}
	for _, f := range all {
		p = r.paramOption(p, f, field)
	}
	return p
}

// paramOption is the parameter with what stands beside its kind.
func (r *reader) paramOption(p tune.Param, f entry, field string) tune.Param {
	at := join(field, f.key)
	switch f.key {
	case "log":
		if v := r.constant(f.value, at); v == true {
			return p.Log()
		} else if v != false {
			r.bad(f.value, at, "got %s, want true or false", what(f.value))
		}
	case "step":
		x, ok := number(f.value)
		if !ok {
			r.bad(f.value, at, "got %s, want a number", what(f.value))
		} else if p.Kind == tune.KindInt {
			if x != float64(int(x)) {
				r.bad(f.value, at, "got %v, want a whole number", x)
			}
			return p.Step(int(x))
		}
		return p.Quantise(x)
	case "default":
		return p.Default(r.constant(f.value, at))
	case "when":
		all := r.entries(f.value, at)
		if len(all) != 1 {
			r.bad(f.at, at, "want the parameter and the values that this one depends on, such as {optimizer: sgd} or {optimizer: [sgd, nag]}")
			return p
		}
		values := []any(nil)
		if all[0].value.Kind == yaml.SequenceNode {
			values = r.values(all[0].value, at)
		} else {
			values = []any{r.constant(all[0].value, at)}
		}
		return p.When(all[0].key, values...)
	default:
		for _, k := range paramKinds {
			if k == f.key {
				return p
			}
		}
		r.unknown(f, field, append(paramKinds, paramOptions...))
	}
	return p
}

// pair reads [a, b].
func (r *reader) pair(n *yaml.Node, field string) (a, b float64) {
	all := r.list(n, field)
	if all != nil {
		if len(all) == 2 {
			a, first := number(all[0])
			b, second := number(all[1])
			if first && second {
				return a, b
			}
		}
		r.bad(n, field, "want two numbers: [low, high]")
	}
	return 0, 1
}

// values reads the values of a choice or an axis: a list, or {range: [low, below, step]}.
func (r *reader) values(n *yaml.Node, field string) []any {
	if n.Kind == yaml.MappingNode {
		var span struct{ Range [3]int }
		span.Range[2] = 1
		before := len(r.errs)
		r.value(n, field, settable(&span))
		if values := tune.Range(span.Range[0], span.Range[1], span.Range[2]); len(values) > 0 || len(r.errs) > before {
			return values
		}
		r.bad(n, field, "the range %v has no values; want [low, below, step]", span.Range)
		return nil
	}
	var values []any
	for i, e := range r.list(n, field) {
		values = append(values, r.constant(e, fmt.Sprintf("%s[%d]", field, i)))
	}
	return values
}

// A point is parameters to be tried first.
type point tune.Point

// read implements selfReader.
func (p *point) read(r *reader, n *yaml.Node, field string) {
	*p = point{}
	for _, e := range r.entries(n, field) {
		(*p)[e.key] = r.constant(e.value, join(field, e.key))
	}
}
