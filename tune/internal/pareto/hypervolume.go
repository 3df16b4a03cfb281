package pareto

import (
	"cmp"
	"math"
	"slices"
)

// Hypervolume is the volume that points dominate above a reference point. Points that are not
// better than the reference in all numbers add nothing.
//
// With two numbers it is a sweep; with more it is the sum of each point's volume that the points
// after it do not dominate (While, Bradstreet and Barone 2012), exact and fast for some hundred
// points of up to four numbers.
func Hypervolume(points [][]float64, reference []float64) float64 {
	var inside [][]float64
	for _, p := range points {
		if slices.ContainsFunc(p, func(x float64) bool { return math.IsNaN(x) }) {
			continue
		}
		above := true
		for k, r := range reference {
			above = above && p[k] > r
		}
		if above {
			inside = append(inside, p)
		}
	}
	return volume(front(inside), reference)
}

// front is the points that no other dominates, equal ones once, the best by the first number first.
func front(points [][]float64) [][]float64 {
	points = slices.Clone(points)
	slices.SortFunc(points, func(a, b []float64) int { return slices.Compare(b, a) })
	var kept [][]float64
	for _, p := range points {
		if !slices.ContainsFunc(kept, func(q []float64) bool { return slices.Equal(p, q) || Dominates(q, p) }) {
			kept = append(kept, p)
		}
	}
	return kept
}

// volume is Hypervolume of a front.
func volume(points [][]float64, reference []float64) float64 {
	sum := 0.0
	if len(reference) == 2 {
		below := reference[1]
		// The second number rises as the first falls.
		for _, p := range points {
			sum += (p[0] - reference[0]) * (p[1] - below)
			below = p[1]
		}
		return sum
	}
	for i, p := range points {
		sum += exclusive(p, points[i+1:], reference)
	}
	return sum
}

// exclusive is the volume that p dominates and others do not.
func exclusive(p []float64, others [][]float64, reference []float64) float64 {
	own := 1.0
	for k, x := range p {
		own *= x - reference[k]
	}
	if len(others) == 0 {
		return own
	}
	limited := make([][]float64, len(others))
	flat := make([]float64, len(others)*len(p))
	for i, q := range others {
		limited[i] = flat[i*len(p) : (i+1)*len(p)]
		for k := range q {
			limited[i][k] = min(q[k], p[k])
		}
	}
	return own - volume(front(limited), reference)
}

// Contributions is how much of the points' hypervolume each alone adds. All points must be above
// the reference.
func Contributions(points [][]float64, reference []float64) []float64 {
	parts := make([]float64, len(points))
	for i, p := range points {
		parts[i] = max(exclusive(p, slices.Delete(slices.Clone(points), i, i+1), reference), 0)
	}
	return parts
}

// Subset chooses k of the points whose hypervolume together is large: one after another, each time
// the one that adds most (at least 1-1/e of the best subset's volume, Guerreiro, Fonseca and
// Paquete 2016). It returns indices in the order of the choice; of equals, the earlier one. All
// points must be above the reference.
func Subset(points [][]float64, reference []float64, k int) []int {
	type candidate struct {
		index int
		// gain is that after `at` points were chosen. It only falls.
		gain float64
		at   int
	}
	all := make([]candidate, len(points))
	for i, p := range points {
		all[i] = candidate{i, exclusive(p, nil, reference), 0}
	}
	var chosen []int
	var set [][]float64
	for len(chosen) < min(k, len(points)) {
		slices.SortStableFunc(all, func(a, b candidate) int { return cmp.Or(cmp.Compare(b.gain, a.gain), cmp.Compare(a.index, b.index)) })
		best := 0
		for i := range all {
			if i > 0 && all[i].gain <= all[best].gain && (all[i].gain < all[best].gain || all[i].index > all[best].index) {
				// The gains that follow are bounds, and none is above.
				break
			}
			if all[i].at < len(set) {
				all[i].gain, all[i].at = exclusive(points[all[i].index], set, reference), len(set)
			}
			if all[i].gain > all[best].gain || all[i].gain == all[best].gain && all[i].index < all[best].index {
				best = i
			}
		}
		chosen = append(chosen, all[best].index)
		set = append(set, points[all[best].index])
		all = slices.Delete(all, best, best+1)
	}
	return chosen
}
