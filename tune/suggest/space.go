package suggest

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/paragon-train/paragon/tune"
)

// A model is a space in the form that the suggesters compute with: a dim for each parameter that is searched, and for each
// axis of the grid, whose value is always given.
type model struct {
	dims []*dim
	// when says whether dim i is there, given the values before it; nil: always.
	when []func(x []float64) bool
	// branch numbers the conditions: dims of one branch are there together. Zero is the unconditional one.
	branch []int

	// parents are the choices that conditions depend on.
	parents []int

	space tune.Space
	at    []int // of each dim: the index in space
}

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

// condition says when a parameter is there, by the dims of its parent. A parent that is derived is not known here: its
// children are proposed in any case, and left out where they are not there.
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

func sameValue(a, b any) bool {
	if x, ok := toFloat(a); ok {
		y, also := toFloat(b)
		return also && x == y
	}
	return a == b
}

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

// given are the numbers of a trial's fixed parameters, by name alone: whether they are there follows from the others.
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

func (m *model) blank() []float64 {
	x := make([]float64, len(m.dims))
	for i := range x {
		x[i] = math.NaN()
	}
	return x
}

func (m *model) active(i int, x []float64) bool {
	return m.when == nil || m.when[i] == nil || m.when[i](x)
}

// groups are the indices of the dims that are sampled together, in the space's order: each dim alone, or all of a branch.
func (m *model) groups(joint bool) [][]int {
	var groups [][]int
	at := make(map[int]int)
	for i := range m.dims {
		branch := 0
		if m.branch != nil {
			branch = m.branch[i]
		}
		if k, ok := at[branch]; joint && ok {
			groups[k] = append(groups[k], i)
			continue
		}
		at[branch] = len(groups)
		groups = append(groups, []int{i})
	}
	return groups
}

// fromUnit maps a point of the unit cube to values, NaN where a parameter is not there; what is given stays.
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

// hash is a number for a point; equal points have equal ones.
func hash(x []float64) uint64 {
	h := uint64(len(x))
	for _, v := range x {
		b := math.Float64bits(v)
		if math.IsNaN(v) {
			b = 1
		}
		h = mix(h ^ b)
	}
	return h
}

// size is how many points the space has at most, all conditions left aside and the given ones fixed; +Inf if not finite.
func (m *model) size(given []float64) float64 {
	n := 1.0
	for i, d := range m.dims {
		if given == nil || math.IsNaN(given[i]) {
			n *= d.size()
		}
	}
	return n
}

// A recordState says how far a trial got.
type recordState int

const (
	recordRunning  recordState = iota // pending or running: no final value yet
	recordComplete                    // its result counts
	recordPruned                      // stopped early or paused: its last value at its last step counts
	recordFailed                      // nothing counts
)

// A record is one trial as the models see it.
type record struct {
	number int
	x      []float64 // one for each dim; NaN: the trial did not have it
	hash   uint64
	state  recordState
	score  float64 // larger is better
	step   int     // of a pruned trial: the last one reported
	ended  time.Duration
	seq    uint64 // of the newest report: the order of those that ended together
}

func (r *record) finished() bool { return r.state == recordComplete || r.state == recordPruned }

// compare orders finished records, best first: complete before pruned ones; those by larger step, then by score. NaN is
// the worst score.
func (r *record) compare(o *record) int {
	if r.state != o.state {
		return cmp.Compare(r.state, o.state)
	}
	if r.state == recordPruned && r.step != o.step {
		return cmp.Compare(o.step, r.step)
	}
	return cmp.Compare(o.score, r.score) // cmp has NaN below all numbers
}

// byEnd orders records as they ended.
func byEnd(a, b *record) int {
	return cmp.Or(cmp.Compare(a.ended, b.ended), cmp.Compare(a.seq, b.seq), cmp.Compare(a.number, b.number))
}

// A reader turns views of one study into a model and records. What it keeps saves converting trials twice.
type reader struct {
	model *model
	recs  []record
	done  []bool // recs[i] will not change any more
}

// read returns the model and a record of each trial, which are good until the next call.
func (r *reader) read(v tune.View) (*model, []record) {
	if r.model == nil || len(r.recs) > v.Len() {
		*r = reader{model: newModel(v.Space())}
	}
	for i := range v.Len() {
		if i < len(r.done) && r.done[i] {
			continue
		}
		t := v.Trial(i)
		rec := r.model.record(v, t)
		final := (t.State == tune.Completed || t.State == tune.Pruned) && len(t.Changes) == 0
		if i < len(r.recs) {
			r.recs[i], r.done[i] = rec, final
		} else {
			r.recs, r.done = append(r.recs, rec), append(r.done, final)
		}
	}
	return r.model, r.recs
}

func (m *model) record(v tune.View, t *tune.Trial) record {
	r := record{number: t.Number, x: m.values(t.Params), ended: t.EndedAt, score: v.Score(v.Result(t))}
	r.hash = hash(r.x)
	last, ok := t.Last()
	if ok {
		r.seq = last.Seq
	}
	switch {
	case t.State == tune.Pending || t.State == tune.Running:
		r.state = recordRunning
	case t.State == tune.Completed && ok:
		r.state = recordComplete
	case t.State == tune.Failed || !ok:
		r.state = recordFailed
	default: // pruned, paused, or stopped with the study
		r.state, r.step, r.score = recordPruned, last.Step, v.Score(last.Value)
		if t.State == tune.Paused {
			r.ended = last.At
		}
	}
	return r
}

// fresh calls propose until it gives a point that no trial has had, a few times; at last it takes any such point of a
// space that is small enough to go through. If there is none, a point comes again.
func (m *model) fresh(recs []record, given []float64, rng *rand.Rand, propose func() []float64) []float64 {
	x := propose()
	if math.IsInf(m.size(given), 1) && m.continuous(x, given) {
		return x // no two draws are the same
	}
	used := make(map[uint64]bool, len(recs))
	for i := range recs {
		used[recs[i].hash] = true
	}
	for range 12 {
		if !used[hash(x)] {
			return x
		}
		x = propose()
	}
	if !used[hash(x)] {
		return x
	}
	if m.size(given) <= 1<<16 {
		if free := m.free(used, given); len(free) > 0 {
			return free[rng.IntN(len(free))]
		}
		return x
	}
	for range 100 {
		u := make([]float64, len(m.dims))
		for i := range u {
			u[i] = rng.Float64()
		}
		if y := m.fromUnit(u, given); !used[hash(y)] {
			return y
		}
	}
	return x
}

// continuous says whether a dim that is there has no steps.
func (m *model) continuous(x, given []float64) bool {
	for i, d := range m.dims {
		if !math.IsNaN(x[i]) && (given == nil || math.IsNaN(given[i])) && math.IsInf(d.size(), 1) && d.step == 0 {
			return true
		}
	}
	return false
}

// free are the points of a finite space that are not used.
func (m *model) free(used map[uint64]bool, given []float64) [][]float64 {
	var all [][]float64
	x := m.blank()
	var walk func(i int)
	walk = func(i int) {
		if i == len(m.dims) {
			if !used[hash(x)] {
				all = append(all, slices.Clone(x))
			}
			return
		}
		d := m.dims[i]
		switch {
		case !m.active(i, x):
			x[i] = math.NaN()
			walk(i + 1)
		case given != nil && !math.IsNaN(given[i]):
			x[i] = given[i]
			walk(i + 1)
		default:
			for k := range int(d.size()) {
				if x[i] = d.lo + float64(k)*d.step; d.choices > 0 {
					x[i] = float64(k)
				}
				walk(i + 1)
			}
		}
		x[i] = math.NaN()
	}
	walk(0)
	return all
}
