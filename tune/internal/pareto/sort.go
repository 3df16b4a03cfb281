// Package pareto ranks points that are judged by several numbers at once, and measures sets of
// them. Every number is oriented so that larger is better.
package pareto

import (
	"cmp"
	"math"
	"slices"
)

// Dominates says whether a is at least as good as b in all numbers, and better in one.
func Dominates(a, b []float64) bool {
	better := false
	for i := range a {
		if a[i] < b[i] {
			return false
		}
		better = better || a[i] > b[i]
	}
	return better
}

// Fronts sorts points by non-domination (Deb et al. 2002) under constrained domination: feasible
// points, whose violation is 0, come first, front after front; then the others, those with the same
// violation together, the smaller first. It returns indices of points, in ascending order within a
// front, and stops after the front with which there are at least enough of them. violations is nil
// if all points are feasible.
func Fronts(points [][]float64, violations []float64, enough int) [][]int {
	var feasible, rest []int
	for i := range points {
		if violations == nil || violations[i] == 0 {
			feasible = append(feasible, i)
		} else {
			rest = append(rest, i)
		}
	}
	// In this order only an earlier point can dominate a later one.
	slices.SortStableFunc(feasible, func(a, b int) int { return slices.Compare(points[b], points[a]) })
	var fronts [][]int
	have := 0
	for len(feasible) > 0 && have < enough {
		var front, later []int
		for _, i := range feasible {
			if slices.ContainsFunc(front, func(j int) bool { return Dominates(points[j], points[i]) }) {
				later = append(later, i)
			} else {
				front = append(front, i)
			}
		}
		feasible = later
		have += len(front)
		slices.Sort(front)
		fronts = append(fronts, front)
	}
	slices.SortStableFunc(rest, func(a, b int) int { return cmp.Compare(violations[a], violations[b]) })
	for len(rest) > 0 && have < enough {
		n := 1
		for n < len(rest) && violations[rest[n]] == violations[rest[0]] {
			n++
		}
		fronts = append(fronts, rest[:n:n])
		have += n
		rest = rest[n:]
	}
	return fronts
}

// Crowding is the crowding distance of each point of a front (Deb et al. 2002, section III-B): the
// sum over the numbers of the distance between its neighbours, as a share of the front's range.
// Points at an end have +Inf. Of points with equal numbers all but one have neighbours at no
// distance.
func Crowding(points [][]float64, front []int) []float64 {
	distance := make([]float64, len(front))
	if len(front) == 0 {
		return distance
	}
	order := make([]int, len(front))
	for k := range points[front[0]] {
		for i := range order {
			order[i] = i
		}
		at := func(i int) float64 { return points[front[order[i]]][k] }
		slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(points[front[a]][k], points[front[b]][k]) })
		last := len(order) - 1
		width := at(last) - at(0)
		if width <= 0 {
			continue
		}
		distance[order[0]], distance[order[last]] = math.Inf(1), math.Inf(1)
		for i := 1; i < last; i++ {
			distance[order[i]] += (at(i+1) - at(i-1)) / width
		}
	}
	return distance
}
