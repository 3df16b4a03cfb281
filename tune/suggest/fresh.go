package suggest

import (
	"math"
	"math/rand/v2"
	"slices"
)

// fresh calls propose until it gives a point that no trial has had, a few times; at last it takes
// any such point of a space that is small enough to go through. If there is none, a point comes
// again.
func (m *model) fresh(recs []record, given []float64, rng *rand.Rand, propose func() []float64) []float64 {
	used := func(x []float64) bool { return has(recs, hash(m.settle(x))) }
	x := propose()
	for range 12 {
		if !used(x) {
			return x
		}
		x = propose()
	}
	if !used(x) {
		return x
	}
	if m.size(given) <= 1<<16 {
		if free := m.free(recs, given); len(free) > 0 {
			return free[rng.IntN(len(free))]
		}
		return x
	}
	for range 100 {
		u := make([]float64, len(m.dims))
		for i := range u {
			u[i] = rng.Float64()
		}
		if y := m.fromUnit(u, given); !used(y) {
			return y
		}
	}
	return x
}

// has says whether a record has this hash.
func has(recs []record, h uint64) bool {
	for i := range recs {
		if recs[i].hash == h {
			return true
		}
	}
	return false
}

// free are the points of a finite space that no record has.
func (m *model) free(recs []record, given []float64) [][]float64 {
	used := make(map[uint64]bool, len(recs))
	for i := range recs {
		used[recs[i].hash] = true
	}
	var all [][]float64
	x := m.blank()
	var walk func(i int)
	walk = func(i int) {
		if i == len(m.dims) {
			if !used[hash(m.settle(x))] {
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

// settle are the numbers that the trial with values x will have: parameters are rounded to their
// steps without the noise of adding.
func (m *model) settle(x []float64) []float64 {
	out := slices.Clone(x)
	for j := range out {
		if !math.IsNaN(out[j]) {
			out[j] = m.number(j, m.decode(j, out[j]))
		}
	}
	return out
}

// size is how many points the space has at most, all conditions left aside and the given ones
// fixed; +Inf if not finite.
func (m *model) size(given []float64) float64 {
	n := 1.0
	for i, d := range m.dims {
		if given == nil || math.IsNaN(given[i]) {
			n *= d.size()
		}
	}
	return n
}
