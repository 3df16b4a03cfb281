package suggest

import (
	"errors"
	"fmt"
	"iter"
	"math"
	"math/rand/v2"

	"github.com/paragon-train/paragon/tune"
)

// Repeat tries each proposal of another suggester Times times, in trials that follow each other,
// each with its own Trial.Seed. The other suggester sees one trial for each group: running until
// all of it are over, then with the mean of their results. Failed ones are left out of the mean; if
// all have failed, so has the group.
//
// Points and defaults that a study tries first are not repeated. A space with a grid is not for
// Repeat, since the grid is gone through trial by trial. The study's Samples should be Times times
// as many.
type Repeat struct {
	Suggester tune.Suggester
	// Times is at least 1.
	Times int

	// groups are the repeated trials that are over and will not change.
	groups []*tune.Trial
	// before is how many trials come before the first group, plus 1. Zero: it is not known.
	before int
}

// Validate says what is wrong with the fields.
func (r *Repeat) Validate() error {
	if r.Suggester == nil || r.Times < 1 {
		return fmt.Errorf("suggest: Repeat: Suggester is %T and Times %d: want a suggester, and at least 1", r.Suggester, r.Times)
	}
	return validate(r.Suggester)
}

// Recorded implements tune.Recorded.
func (r *Repeat) Recorded() bool { return recorded(r.Suggester) }

// Suggest implements tune.Suggester.
func (r *Repeat) Suggest(v tune.View, number int, rng *rand.Rand) (tune.Params, error) {
	if err := r.Validate(); err != nil {
		return tune.Params{}, err
	}
	if r.before == 0 {
		for _, p := range v.Space() {
			if p.Kind == tune.KindGrid {
				return tune.Params{}, fmt.Errorf("suggest: Repeat: parameter %q is an axis of the grid, which cannot be repeated: repeat in a choice, or raise Samples", p.Name)
			}
		}
		n := 0
		for v.Fixed(n).Len() > 0 || v.Trial(n) != nil && v.Trial(n).Origin != tune.FromSuggester {
			n++
		}
		r.before = n + 1
	}
	first := r.before - 1
	if number >= first {
		if leader := number - (number-first)%r.Times; leader < number {
			t := v.Trial(leader)
			if t == nil {
				return tune.Params{}, errors.New("suggest: Repeat: the first trial of the group is missing")
			}
			return t.Params, nil
		}
	}
	return r.Suggester.Suggest(&grouped{View: v, r: r, first: first}, groupOf(number, first, r.Times), rng)
}

// groupOf is the number that the other suggester sees.
func groupOf(number, first, times int) int {
	if number < first {
		return number
	}
	return first + (number-first)/times
}

// grouped is a view of groups as trials.
type grouped struct {
	tune.View
	r     *Repeat
	first int
}

// Len implements tune.View.
func (g *grouped) Len() int {
	n := g.View.Len()
	if n <= g.first {
		return n
	}
	return g.first + (n-g.first+g.r.Times-1)/g.r.Times
}

// Fixed implements tune.View: all trials of a group have the same fixed parameters.
func (g *grouped) Fixed(number int) tune.Params {
	if number >= g.first {
		number = g.first + (number-g.first)*g.r.Times
	}
	return g.View.Fixed(number)
}

// Trials implements tune.View.
func (g *grouped) Trials() iter.Seq[*tune.Trial] {
	return func(yield func(*tune.Trial) bool) {
		for i := range g.Len() {
			if !yield(g.Trial(i)) {
				return
			}
		}
	}
}

// Count implements tune.View.
func (g *grouped) Count(s tune.State) int {
	n := 0
	for t := range g.Trials() {
		if t.State == s {
			n++
		}
	}
	return n
}

// Result implements tune.View: that of a group is the mean, which is there once all its trials have
// ended.
func (g *grouped) Result(t *tune.Trial) float64 {
	if t.Number < g.first {
		return g.View.Result(t)
	}
	if last, ok := t.Last(); ok && t.State == tune.Completed {
		return last.Value
	}
	return math.NaN()
}

// members calls f for the trials of a group that have not failed.
func (g *grouped) members(group int, f func(*tune.Trial)) {
	for i := range g.r.Times {
		if t := g.View.Trial(g.first + (group-g.first)*g.r.Times + i); t != nil && t.State != tune.Failed {
			f(t)
		}
	}
}

// Values are the means of the group's.
func (g *grouped) Values(t *tune.Trial) []float64 {
	if t.Number < g.first {
		return g.View.Values(t)
	}
	if t.State != tune.Completed {
		return nil
	}
	means, n := make([]float64, len(g.Objectives())), 0.0
	g.members(t.Number, func(one *tune.Trial) {
		if values := g.View.Values(one); values != nil {
			n++
			for i, x := range values {
				means[i] += x
			}
		}
	})
	for i := range means {
		means[i] /= n
	}
	return means
}

// Violation is the mean of the group's.
func (g *grouped) Violation(t *tune.Trial) float64 {
	if t.Number < g.first {
		return g.View.Violation(t)
	}
	if t.State != tune.Completed {
		return math.NaN()
	}
	sum, n := 0.0, 0.0
	g.members(t.Number, func(one *tune.Trial) {
		if x := g.View.Violation(one); !math.IsNaN(x) {
			sum, n = sum+x, n+1
		}
	})
	return sum / n
}

// Trial puts a group together.
func (g *grouped) Trial(number int) *tune.Trial {
	if number < 0 || number >= g.Len() {
		return nil
	}
	if number < g.first {
		return g.View.Trial(number)
	}
	k := number - g.first
	if k < len(g.r.groups) && g.r.groups[k] != nil {
		return g.r.groups[k]
	}
	var out *tune.Trial
	sum, n, over := 0.0, 0, true
	var last tune.Report
	for i := range g.r.Times {
		t := g.View.Trial(g.first + k*g.r.Times + i)
		if t == nil {
			over = false
			break
		}
		if out == nil {
			out = &tune.Trial{Number: number, Params: t.Params, Origin: t.Origin, Seed: t.Seed, Attempts: 1, Best: -1, StartedAt: t.StartedAt}
		}
		out.EndedAt = max(out.EndedAt, t.EndedAt)
		over = over && t.State.Final()
		if r, ok := t.Last(); ok && t.State != tune.Failed {
			if x := g.View.Result(t); !math.IsNaN(x) {
				sum, n = sum+x, n+1
			}
			if r.Seq >= last.Seq {
				last = r
			}
		}
	}
	switch {
	case !over:
		out.State = tune.Running
	case n == 0:
		out.State = tune.Failed
	default:
		last.Value = sum / float64(n)
		out.State, out.Reports, out.Best = tune.Completed, []tune.Report{last}, 0
	}
	if out.State == tune.Completed {
		for len(g.r.groups) <= k {
			g.r.groups = append(g.r.groups, nil)
		}
		g.r.groups[k] = out
	}
	return out
}
