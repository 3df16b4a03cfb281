package main

import "slices"

func wall(r rate) float64 { return r.wall }
func cpu(r rate) float64  { return r.cpu }

func of(what func(rate) float64, rates []rate) []float64 {
	out := make([]float64, len(rates))
	for i, r := range rates {
		out[i] = what(r)
	}
	return out
}

// median is the middle value, or the mean of the two in the middle.
func median(x []float64) float64 {
	x = slices.Sorted(slices.Values(x))
	n := len(x)
	return (x[(n-1)/2] + x[n/2]) / 2
}

// ratio is that of the medians.
func ratio(what func(rate) float64, a, b []rate) float64 {
	return median(of(what, a)) / median(of(what, b))
}

// pairs are the smallest, middle and largest ratio of spells that followed each other.
func pairs(a, b []rate) (lo, mid, hi float64) {
	x := make([]float64, len(a))
	for i := range a {
		x[i] = a[i].wall / b[i].wall
	}
	return slices.Min(x), median(x), slices.Max(x)
}
