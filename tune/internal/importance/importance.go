// Package importance measures how much a parameter of a search decides whether a trial is good.
package importance

import (
	"cmp"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"
)

// topShare is the share of trials that count as good.
const topShare = 0.2

// Fewest is how many trials an importance needs to say anything.
const Fewest = 10

// A Param is a parameter with its values in the trials that have a result, the best trial first.
type Param struct {
	Name string
	// Count is how many values it can have; 0: a real.
	Count int
	// Units are its values on [0, 1]; NaN: the trial does not have it.
	Units []float64
}

// A Share is the importance of a parameter.
type Share struct {
	Name string
	// Share is the parameter's part of all importance, in [0, 1].
	Share float64
	// Trials is how many trials had the parameter.
	Trials int
}

// Of measures each parameter by PED-ANOVA (Watanabe, Bansal and Hutter 2023, equation 16): the
// variance that the parameter alone explains within the best trials is γ² times the Pearson
// divergence
//
//	D = ∫ (p_good(x)/p_all(x) − 1)² p_all(x) dx
//
// of its distribution among the best share γ of trials from that among all. Densities are Parzen
// estimates over the parameter's own scale. The most important one comes first; with fewer than 10
// trials there is none. Only trials that had a conditional parameter count for it.
func Of(params []Param) []Share {
	var list []Share
	total := 0.0
	for _, p := range params {
		if len(p.Units) < Fewest {
			return nil
		}
		var all, good []float64
		for i, u := range p.Units {
			if math.IsNaN(u) {
				continue
			}
			all = append(all, u)
			if float64(i) < topShare*float64(len(p.Units)) {
				good = append(good, u)
			}
		}
		d := 0.0
		if len(good) > 1 && len(all) >= Fewest {
			d = divergence(good, all, p.Count)
		}
		total += d
		list = append(list, Share{Name: p.Name, Share: d, Trials: len(all)})
	}
	for i := range list {
		if total > 0 {
			list[i].Share /= total
		}
	}
	slices.SortStableFunc(list, func(a, b Share) int { return cmp.Compare(b.Share, a.Share) })
	return list
}

// divergence is the Pearson divergence of the two samples' densities on [0,1]. count is how many
// values there are, 0 for a real.
func divergence(good, all []float64, count int) float64 {
	cells := 100
	var p, q []float64
	if count > 0 && count <= 32 {
		p, q = shares(good, count), shares(all, count)
	} else {
		p, q = parzen(good, cells), parzen(all, cells)
	}
	d := 0.0
	for i := range p {
		if q[i] > 0 {
			r := p[i]/q[i] - 1
			d += r * r * q[i]
		}
	}
	return d
}

// shares is how often each of count values is there, with one observation spread over all of them.
func shares(xs []float64, count int) []float64 {
	s := make([]float64, count)
	for i := range s {
		s[i] = 1 / float64(count)
	}
	for _, x := range xs {
		s[min(count-1, int(x*float64(count)))]++
	}
	for i := range s {
		s[i] /= float64(len(xs) + 1)
	}
	return s
}

// parzen is the mass of each of the cells under normal kernels with Scott's bandwidth, cut off at 0
// and 1, and one kernel that is even over all.
func parzen(xs []float64, cells int) []float64 {
	mean, squares := 0.0, 0.0
	for _, x := range xs {
		mean += x / float64(len(xs))
	}
	for _, x := range xs {
		squares += (x - mean) * (x - mean)
	}
	deviation := math.Sqrt(squares / float64(max(1, len(xs)-1)))
	width := max(1.059*deviation*math.Pow(float64(len(xs)), -0.2), 1/float64(cells))
	mass := make([]float64, cells)
	for i := range mass {
		mass[i] = 1 / float64(cells)
	}
	for _, x := range xs {
		kernel := distuv.Normal{Mu: x, Sigma: width}
		below, whole := kernel.CDF(0), kernel.CDF(1)-kernel.CDF(0)
		for i := range mass {
			to := kernel.CDF(float64(i+1) / float64(cells))
			mass[i] += (to - below) / whole
			below = to
		}
	}
	for i := range mass {
		mass[i] /= float64(len(xs) + 1)
	}
	return mass
}
