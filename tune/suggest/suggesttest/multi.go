package suggesttest

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/paragon-train/paragon/tune"
	"github.com/paragon-train/paragon/tune/internal/pareto"
	"github.com/paragon-train/paragon/tune/tunetest"
)

// A MultiProblem has several functions to make small, named f0, f1 and so on, and constraints on
// further metrics.
type MultiProblem struct {
	Name        string
	Space       tune.Space
	Values      func(tune.Params) []float64
	Constraints []tune.Constraint
	// Bounds are the metrics of the constraints.
	Bounds func(tune.Params) map[string]float64
	// Reference is the point above which no value counts; Best is the hypervolume of the whole
	// front below it.
	Reference []float64
	Best      float64
}

// Hypervolume is the volume that the feasible trials of a search dominate, as a share of the best
// one.
func (p MultiProblem) Hypervolume(v *tunetest.View) float64 {
	var points [][]float64
	for t := range v.Trials() {
		if s, ok := tune.Scores(v, t); ok && v.Violation(t) == 0 {
			points = append(points, s)
		}
	}
	reference := make([]float64, len(p.Reference))
	for i, x := range p.Reference {
		reference[i] = -x
	}
	return pareto.Hypervolume(points, reference) / p.Best
}

// Run searches with a number of trials, parallel at once, each lasting as long as the others. It
// returns the share of the best hypervolume.
func (p MultiProblem) Run(s tune.Suggester, trials, parallel int, seed uint64) (share float64, v *tunetest.View, err error) {
	v = &tunetest.View{SearchSpace: p.Space, StudySeed: seed, Bounds: p.Constraints}
	for i := range p.Reference {
		v.Goals = append(v.Goals, tune.Objective{Metric: fmt.Sprintf("f%d", i), Mode: tune.Min})
	}
	finish := func(t *tune.Trial) {
		all := map[string]float64{}
		if p.Bounds != nil {
			all = p.Bounds(t.Params)
		}
		for i, y := range p.Values(t.Params) {
			all[v.Goals[i].Metric] = y
		}
		v.ReportAll(t, 1, all)
		v.End(t, tune.Completed)
	}
	for i := range trials {
		if i >= parallel {
			finish(v.Trial(i - parallel))
		}
		params, err := s.Suggest(v, i, rand.New(rand.NewPCG(seed, uint64(i))))
		if err != nil {
			return 0, v, fmt.Errorf("suggesttest: %s trial %d: %w", p.Name, i, err)
		}
		v.Add(params)
	}
	for i := max(0, trials-parallel); i < trials; i++ {
		finish(v.Trial(i))
	}
	return p.Hypervolume(v), v, nil
}

// values are those of real parameters in their order.
func values(p tune.Params) (x []float64) {
	for _, value := range p.All() {
		x = append(x, value.(float64))
	}
	return x
}

// zdt is a problem of Zitzler, Deb and Thiele (2000): f1 = x0, f2 = g·h(x0/g), g of the others; the
// front has g = 1.
func zdt(name string, parameters int, h func(r float64) float64, best float64) MultiProblem {
	return MultiProblem{Name: name, Space: reals(parameters, 0, 1), Reference: []float64{1.1, 3}, Best: best, Values: func(p tune.Params) []float64 {
		x, sum := values(p), 0.0
		for _, v := range x[1:] {
			sum += v
		}
		g := 1 + 9*sum/float64(len(x)-1)
		return []float64{x[0], g * h(x[0]/g)}
	}}
}

// ZDT1 has a convex front: f2 = 1 − √f1.
func ZDT1(parameters int) MultiProblem {
	return zdt("ZDT1", parameters, func(r float64) float64 { return 1 - math.Sqrt(r) }, 3.3-1.0/3)
}

// ZDT2 has a concave front: f2 = 1 − f1².
func ZDT2(parameters int) MultiProblem {
	return zdt("ZDT2", parameters, func(r float64) float64 { return 1 - r*r }, 3.3-2.0/3)
}

// DTLZ2 (Deb et al. 2002) has the part of the unit sphere with three positive coordinates as its
// front.
func DTLZ2(parameters int) MultiProblem {
	const reference = 1.1
	return MultiProblem{Name: "DTLZ2", Space: reals(parameters, 0, 1), Reference: []float64{reference, reference, reference}, Best: reference*reference*reference - math.Pi/6,
		Values: func(p tune.Params) []float64 {
			x, g := values(p), 0.0
			for _, v := range x[2:] {
				g += (v - 0.5) * (v - 0.5)
			}
			a, b := x[0]*math.Pi/2, x[1]*math.Pi/2
			return []float64{(1 + g) * math.Cos(a) * math.Cos(b), (1 + g) * math.Cos(a) * math.Sin(b), (1 + g) * math.Sin(a)}
		}}
}

// BNH (Binh and Korn 1997) has two circles as constraints. Its front runs along x = y up to 3, and
// then along y = 3.
func BNH() MultiProblem {
	p := MultiProblem{Name: "BNH", Space: tune.Space{tune.Real("x", 0, 5), tune.Real("y", 0, 3)}, Reference: []float64{140, 50},
		Constraints: []tune.Constraint{{Metric: "near", Bound: 25}, {Metric: "far", Bound: 7.7, AtLeast: true}},
		Values: func(p tune.Params) []float64 {
			x, y := p.Float("x"), p.Float("y")
			return []float64{4*x*x + 4*y*y, (x-5)*(x-5) + (y-5)*(y-5)}
		},
		Bounds: func(p tune.Params) map[string]float64 {
			x, y := p.Float("x"), p.Float("y")
			return map[string]float64{"near": (x-5)*(x-5) + y*y, "far": (x-8)*(x-8) + (y+3)*(y+3)}
		}}
	var front [][]float64
	for i := range 20_001 {
		x := 5 * float64(i) / 20_000
		y := min(x, 3)
		front = append(front, []float64{-(4*x*x + 4*y*y), -((x-5)*(x-5) + (y-5)*(y-5))})
	}
	p.Best = pareto.Hypervolume(front, []float64{-140, -50})
	return p
}

// withFront sets the best hypervolume from points of the front.
func (p MultiProblem) withFront(front [][]float64) MultiProblem {
	negative := func(x []float64) []float64 {
		out := make([]float64, len(x))
		for i := range x {
			out[i] = -x[i]
		}
		return out
	}
	points := make([][]float64, len(front))
	for i, f := range front {
		points[i] = negative(f)
	}
	p.Best = pareto.Hypervolume(points, negative(p.Reference))
	return p
}

// CTP7 (Deb, Pratap and Meyarivan 2001) has bands without feasible points across the trade-off,
// which leave its front in pieces. It has six parameters.
func CTP7() MultiProblem {
	const theta = -0.05 * math.Pi
	of := func(x, g float64) []float64 { return []float64{x, g * (1 - x/g)} }
	slack := func(f []float64) float64 {
		left := math.Cos(theta)*f[1] - math.Sin(theta)*f[0]
		return left - 40*math.Pow(math.Abs(math.Sin(5*math.Pi*(math.Sin(theta)*f[1]+math.Cos(theta)*f[0]))), 6)
	}
	p := MultiProblem{Name: "CTP7", Space: reals(6, 0, 1), Reference: []float64{1.1, 3},
		Constraints: []tune.Constraint{{Metric: "slack", Bound: 0, AtLeast: true}},
		Values: func(q tune.Params) []float64 {
			x, sum := values(q), 0.0
			for i, v := range x[1:] {
				sum += math.Abs(v - 0.2*float64(i))
			}
			return of(x[0], 1+2*sum)
		}}
	p.Bounds = func(q tune.Params) map[string]float64 { return map[string]float64{"slack": slack(p.Values(q))} }
	var front [][]float64
	for i := range 1001 {
		for k := range 2001 {
			if f := of(float64(i)/1000, 1+2*float64(k)/2000); slack(f) >= 0 {
				front = append(front, f)
				break
			}
		}
	}
	return p.withFront(front)
}

// Spots has eight parameters and a quarter of a circle as its front, of which only five spots are
// feasible.
func Spots() MultiProblem {
	distance := func(f []float64) float64 {
		least := math.Inf(1)
		for k := range 5 {
			a := float64(k) / 8 * math.Pi
			least = min(least, math.Hypot(f[0]-math.Cos(a), f[1]-math.Sin(a)))
		}
		return least
	}
	p := MultiProblem{Name: "five spots", Space: reals(8, 0, 1), Reference: []float64{1.2, 1.2},
		Constraints: []tune.Constraint{{Metric: "distance", Bound: 0.1}},
		Values: func(q tune.Params) []float64 {
			x, g := values(q), 0.0
			for i, v := range x[1:] {
				g += square(v - 0.1*float64(i+1))
			}
			a := x[0] * math.Pi / 2
			return []float64{(1 + g) * math.Cos(a), (1 + g) * math.Sin(a)}
		}}
	p.Bounds = func(q tune.Params) map[string]float64 { return map[string]float64{"distance": distance(p.Values(q))} }
	var front [][]float64
	for i := range 1001 {
		a := math.Pi / 2 * float64(i) / 1000
		if f := []float64{math.Cos(a), math.Sin(a)}; distance(f) <= 0.1 {
			front = append(front, f)
		}
	}
	return p.withFront(front)
}
