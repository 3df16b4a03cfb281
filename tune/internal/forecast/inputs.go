package forecast

import (
	"math"

	"github.com/paragon-train/paragon/tune"
)

// Report takes over what a trial has reported. One that was stopped when its value was not finite
// has diverged, and ended so.
func (c *Curve) Report(v tune.View, t *tune.Trial) {
	c.Steps, c.Scores = make([]int, 0, len(t.Reports)), make([]float64, 0, len(t.Reports))
	for i := range t.Reports {
		r := &t.Reports[i]
		score := v.Score(r.Value)
		if r.Action == tune.Unjudged || math.IsInf(score, 0) || math.IsNaN(score) || r.Step <= c.Last() {
			continue
		}
		c.Steps, c.Scores = append(c.Steps, r.Step), append(c.Scores, score)
	}
	if last, ok := t.Last(); ok && t.State == tune.Pruned && (math.IsNaN(last.Value) || math.IsInf(last.Value, 0)) {
		c.Ended, c.Final = true, math.Inf(-1)
	}
}

// Inputs converts parameters to a Curve's X. A number that a trial does not have counts as the
// middle of its range, and a choice that it does not have as one more value.
func Inputs(space tune.Space, p tune.Params) []float64 {
	var x []float64
	for _, param := range space {
		spec := param.Spec
		if spec.Kind == tune.KindDerived {
			continue
		}
		value, ok := p.Get(spec.Name)
		ok = ok && spec.Active(p)
		switch n := len(spec.Values); {
		case n > 0 && ok:
			x = append(x, math.Floor(spec.ToUnit(value)*float64(n)))
		case n > 0:
			x = append(x, -1)
		case ok:
			x = append(x, spec.ToUnit(value))
		default:
			x = append(x, 0.5)
		}
	}
	return x
}
