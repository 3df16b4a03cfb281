package schedule

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// rungLevels are the steps min·eta^(k+s) that are at most top, in increasing order.
func rungLevels(least, top, eta float64, s int) []float64 {
	if least <= 0 || eta <= 1 || top < least {
		return nil
	}
	n := int(math.Floor(math.Log(top/least)/math.Log(eta)+1e-9)) + 1 - s
	var levels []float64
	for k := range max(n, 0) {
		levels = append(levels, least*math.Pow(eta, float64(k+s)))
	}
	return levels
}

// An entry is a trial's score at a rung.
type entry struct {
	trial int
	// score is oriented: larger is better.
	score float64
}

// A rung keeps the scores of the trials that reached it, best first; of equals the earlier one
// first.
type rung struct {
	level   float64
	entries []entry
}

// insert adds an entry behind its equals (or before them) and returns its place from the top.
func (r *rung) insert(e entry, beforeEqual bool) int {
	i, _ := slices.BinarySearchFunc(r.entries, e, func(a, b entry) int {
		if c := cmp.Compare(b.score, a.score); c != 0 || beforeEqual {
			return c
		}
		return -1
	})
	r.entries = slices.Insert(r.entries, i, e)
	return i
}

// percentile is the q-th percentile, q in [0, 100], of the scores, linearly interpolated between
// the nearest two.
func (r *rung) percentile(q float64) float64 {
	n := len(r.entries)
	return percentile(n, func(i int) float64 { return r.entries[n-1-i].score }, q)
}

// percentile of n values in increasing order, as numpy computes it: value h = q/100·(n−1), with
// what is between two values interpolated from the nearer one.
func percentile(n int, at func(int) float64, q float64) float64 {
	if n == 0 {
		return math.NaN()
	}
	h := q / 100 * float64(n-1)
	i := min(max(int(math.Floor(h)), 0), n-1)
	if i == n-1 {
		return at(n - 1)
	}
	a, b, t := at(i), at(i+1), h-float64(i)
	if t >= 0.5 {
		return b - (b-a)*(1-t)
	}
	return a + (b-a)*t
}

// maxCompetitors bounds the trials that a decision names, so that the log of a large search stays
// small.
const maxCompetitors = 12

// best are the trials of the best entries.
func (r *rung) best() []int {
	var all []int
	for _, e := range r.entries[:min(len(r.entries), maxCompetitors)] {
		all = append(all, e.trial)
	}
	return all
}

// bracketWeights are the probabilities of brackets 0 to n−1; bracket s leaves out the s lowest of
// levels (with the last step among them).
func bracketWeights(rule string, levels []float64, n int) ([]float64, error) {
	w := make([]float64, n)
	total, sum := float64(len(levels)), 0.0
	for s := range w {
		switch rule {
		case "", BracketsByBudget:
			w[s] = total / ((total - float64(s)) * levels[s])
		case BracketsByCount:
			// This is a softmax of the number of rungs, which falls by one from bracket
			// to bracket.
			w[s] = math.Exp(-float64(s))
		default:
			return nil, fmt.Errorf("schedule: bracket rule %q: want %q or %q", rule, BracketsByBudget, BracketsByCount)
		}
		sum += w[s]
	}
	for s := range w {
		w[s] /= sum
	}
	return w, nil
}

// pick chooses an index by weight from a number that stands for the trial.
func pick(weights []float64, seed uint64, trial int) int {
	u := float64(mix(seed^mix(uint64(trial)+0x9a5c))>>11) / (1 << 53)
	for i, w := range weights {
		if u < w {
			return i
		}
		u -= w
	}
	return len(weights) - 1
}

// mix is the finalizer of SplitMix64 (Steele, Lea and Flood 2014).
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// Rules for the bracket of a trial, if there are several.
const (
	// BracketsByBudget, the zero rule, is AutoGluon's: bracket s of L levels has the weight
	// L/((L−s)·r_s), so that all brackets get about the same number of steps.
	BracketsByBudget = "budget"
	// BracketsByCount is Ray's: a softmax of the brackets' numbers of rungs.
	BracketsByCount = "count"
)
