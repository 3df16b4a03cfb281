package tune

import (
	"math"
	"slices"
	"strings"

	"github.com/paragon-train/paragon/internal/observe/page"
	"github.com/paragon-train/paragon/tune/internal/searchpage"
)

// maxCategories is how many values of a choice of numbers are places of their own on an axis.
const maxCategories = 40

// pageParams describes the parameters for a page. A name may stand for several, under different
// branches: they share an axis.
func pageParams(cfg *Config) (all []searchpage.Param) {
	defaults, _ := cfg.Space.Defaults(Params{})
	shown := cfg.shown()
	for _, one := range uniqueParams(shown) {
		a := newAxis(one)
		for _, q := range shown {
			if q.Name == one.Name {
				a.add(q, defaults)
			}
		}
		all = append(all, searchpage.Param{SearchParam: a.param(), Weighed: one.Searched() || one.Kind == KindGrid, Count: one.Count(), ToUnit: one.ToUnit})
	}
	return all
}

// An axis gathers the parameters of one name.
type axis struct {
	page.SearchParam
	// numbers says that all values are numbers, with places by their size.
	numbers bool
	// unbounded says that some have no least and largest value.
	unbounded bool
	// when are the conditions under which a trial has the parameter.
	when []string
}

// newAxis is the axis of a parameter before any parameter of its name was added.
func newAxis(q Param) *axis {
	return &axis{SearchParam: page.SearchParam{Name: q.Name, Kind: string(q.Kind), Low: page.Precise(math.Inf(1)), High: page.Precise(math.Inf(-1)), Whole: true}, numbers: true}
}

// add adds a parameter. defaults tell of a derived one whether it is a number.
func (a *axis) add(q Param, defaults Params) {
	switch q.Kind {
	case KindReal, KindInt:
		a.reach(q.Low)
		a.reach(q.High)
		a.Log = a.Log || q.Spec.Log
	case KindNormal, KindLogNormal:
		a.unbounded = true
		a.Log = a.Log || q.Kind == KindLogNormal
	case KindDerived:
		a.unbounded = true
		x, ok := defaults.Get(q.Name)
		if _, number := number(x); !ok || !number {
			a.numbers = false
		}
	default:
		a.addValues(q.Values)
	}
	a.Whole = a.Whole && q.Kind == KindInt
	if q.Parent != "" {
		values := make([]string, len(q.ParentValues))
		for i, v := range q.ParentValues {
			values[i] = page.SearchText(v)
		}
		a.when = append(a.when, q.Parent+" = "+strings.Join(values, " or "))
	}
}

// addValues adds the values of a choice. Few of them have places of their own, even if they are
// numbers.
func (a *axis) addValues(values []any) {
	few := len(values) <= maxCategories
	for _, v := range values {
		x, number := number(v)
		if few || !number {
			a.numbers = false
		}
		if number {
			a.reach(x)
		}
		if text := page.SearchText(v); !slices.Contains(a.Choices, text) {
			a.Choices = append(a.Choices, text)
		}
	}
}

// reach makes the axis reach a value.
func (a *axis) reach(x float64) {
	a.Low, a.High = min(a.Low, page.Precise(x)), max(a.High, page.Precise(x))
}

// param is the axis as a page has it. Values of texts that the space does not name show in trials.
func (a *axis) param() page.SearchParam {
	p := a.SearchParam
	switch {
	case a.numbers:
		p.Choices = nil
		if a.unbounded {
			p.Low, p.High = page.Precise(math.NaN()), page.Precise(math.NaN())
		}
	case p.Choices == nil:
		p.Choices = []string{}
	}
	p.When = strings.Join(a.when, "; ")
	return p
}

// uniqueParams has one parameter of each name.
func uniqueParams(s Space) (params []Param) {
	for _, q := range s {
		if !slices.ContainsFunc(params, func(x Param) bool { return x.Name == q.Name }) {
			params = append(params, q)
		}
	}
	return params
}
