package suggest

import (
	"fmt"
	"math"
	"slices"

	"github.com/paragon-train/paragon/tune"
)

// A model is a space in the form that the suggesters compute with: a dim for each parameter that is
// searched, and for each axis of the grid, whose value is always given.
type model struct {
	dims []*dim
	// when says whether dim i is there, given the values before it; nil: always.
	when []func(x []float64) bool
	// branch numbers the conditions: dims of one branch are there together. Zero is the
	// unconditional one.
	branch []int

	// parents are the choices that conditions depend on.
	parents []int

	space tune.Space
	// at has for each dim the index of its parameter in the space.
	at []int
}

// newModel leaves out derived parameters, which follow from the others.
func newModel(space tune.Space) *model {
	m := &model{space: space}
	branches := map[string]int{"": 0}
	for i, p := range space {
		if p.Kind == tune.KindDerived {
			continue
		}
		m.dims = append(m.dims, newDim(p.Spec))
		m.at = append(m.at, i)
		m.when = append(m.when, m.condition(p.Spec))
		key := ""
		if p.Parent != "" {
			key = fmt.Sprintf("%q %q", p.Parent, p.ParentValues)
		}
		if _, ok := branches[key]; !ok {
			branches[key] = len(branches)
		}
		m.branch = append(m.branch, branches[key])
	}
	for j, d := range m.dims {
		name := m.space[m.at[j]].Name
		if d.choices > 1 && slices.ContainsFunc(space, func(p tune.Param) bool { return p.Parent == name }) {
			m.parents = append(m.parents, j)
		}
	}
	return m
}

// newDim is the dim of a parameter.
func newDim(p tune.Spec) *dim {
	d := &dim{name: p.Name, lo: p.Low, hi: p.High, log: p.Log, step: p.Step}
	switch p.Kind {
	case tune.KindBool, tune.KindChoice, tune.KindGrid:
		return &dim{name: p.Name, choices: len(p.Values)}
	case tune.KindNormal, tune.KindLogNormal:
		d.lo, d.hi, d.mean, d.sd = math.Inf(-1), math.Inf(1), p.Mean, p.Deviation
		if d.log = p.Kind == tune.KindLogNormal; d.log {
			d.lo = 0
		}
	}
	return d
}

// condition says when a parameter is there, by the dims of its parent. A parent that is derived is
// not known here: its children are proposed in any case, and left out where they are not there.
func (m *model) condition(p tune.Spec) func([]float64) bool {
	if p.Parent == "" {
		return nil
	}
	type match struct {
		dim    int
		values []any
	}
	var matches []match
	for j, i := range m.at[:len(m.at)-1] {
		if m.space[i].Name == p.Parent {
			matches = append(matches, match{j, p.ParentValues})
		}
	}
	if len(matches) == 0 {
		return nil
	}
	return func(x []float64) bool {
		for _, c := range matches {
			if math.IsNaN(x[c.dim]) {
				continue
			}
			v := m.decode(c.dim, x[c.dim])
			return slices.ContainsFunc(c.values, func(w any) bool { return sameValue(v, w) })
		}
		return false
	}
}

// sameValue compares numbers as numbers: a condition may name 3 where the parameter has 3.0.
func sameValue(a, b any) bool {
	if x, ok := toFloat(a); ok {
		y, also := toFloat(b)
		return also && x == y
	}
	return a == b
}

// toFloat is a parameter's value as a number. ok is false for texts and bools.
func toFloat(v any) (float64, bool) {
	switch n := v.(type) {
	case float64:
		return n, true
	case int64:
		return float64(n), true
	}
	return 0, false
}

// decode is the parameter's value for a dim's number.
func (m *model) decode(j int, x float64) any {
	p := m.space[m.at[j]]
	switch p.Kind {
	case tune.KindBool, tune.KindChoice, tune.KindGrid:
		return p.Values[min(max(int(x), 0), len(p.Values)-1)]
	}
	return p.Snap(x)
}

// number is the dim's number for a parameter's value; NaN if it has none.
func (m *model) number(j int, value any) float64 {
	p := m.space[m.at[j]]
	switch p.Kind {
	case tune.KindBool, tune.KindChoice, tune.KindGrid:
		if i := slices.IndexFunc(p.Values, func(w any) bool { return sameValue(value, w) }); i >= 0 {
			return float64(i)
		}
		return math.NaN()
	}
	if x, ok := toFloat(value); ok {
		return x
	}
	return math.NaN()
}

// values are the numbers of parameters, NaN where one is not there.
func (m *model) values(p tune.Params) []float64 {
	x := m.blank()
	for j, i := range m.at {
		if spec := m.space[i].Spec; spec.Active(p) {
			if v, ok := p.Get(spec.Name); ok {
				x[j] = m.number(j, v)
			}
		}
	}
	return x
}

// given are the numbers of a trial's fixed parameters, by name alone: whether they are there
// follows from the others.
func (m *model) given(fixed tune.Params) []float64 {
	x := m.blank()
	for j, i := range m.at {
		if v, ok := fixed.Get(m.space[i].Name); ok {
			x[j] = m.number(j, v)
		}
	}
	return x
}

// params are full parameters with the given values.
func (m *model) params(x []float64, fixed tune.Params) (tune.Params, error) {
	return m.space.Fill(fixed, func(p tune.Param, before tune.Params) (any, error) {
		for j, i := range m.at {
			q := m.space[i]
			if q.Name == p.Name && q.Parent == p.Parent && slices.Equal(q.ParentValues, p.ParentValues) && !math.IsNaN(x[j]) {
				return m.decode(j, x[j]), nil
			}
		}
		return p.FromUnit(0.5), nil
	})
}

// blank is a point that has no parameter.
func (m *model) blank() []float64 {
	x := make([]float64, len(m.dims))
	for i := range x {
		x[i] = math.NaN()
	}
	return x
}

// active says whether a dim is there. It looks at the dims before it alone, so points are filled in
// order.
func (m *model) active(i int, x []float64) bool {
	return m.when[i] == nil || m.when[i](x)
}

// groups are the indices of the dims that are sampled together, in the space's order: each dim
// alone, or all of a branch.
func (m *model) groups(joint bool) [][]int {
	var groups [][]int
	at := make(map[int]int)
	for i := range m.dims {
		branch := m.branch[i]
		if k, ok := at[branch]; joint && ok {
			groups[k] = append(groups[k], i)
			continue
		}
		at[branch] = len(groups)
		groups = append(groups, []int{i})
	}
	return groups
}

// fromUnit maps a point of the unit cube to values, NaN where a parameter is not there; what is
// given stays.
func (m *model) fromUnit(u, given []float64) []float64 {
	x := m.blank()
	for i, d := range m.dims {
		switch {
		case !m.active(i, x):
		case given != nil && !math.IsNaN(given[i]):
			x[i] = given[i]
		default:
			x[i] = d.fromUnit(u[i])
		}
	}
	return x
}

// toUnit maps values to the unit cube; NaN stays NaN.
func (m *model) toUnit(x []float64) []float64 {
	u := make([]float64, len(x))
	for i, d := range m.dims {
		if u[i] = x[i]; !math.IsNaN(x[i]) {
			u[i] = d.toUnit(x[i])
		}
	}
	return u
}
