// Package forecast predicts how trials of a search will end, from their parameters and from the
// steps that they have reached.
//
// A Curve is what a trial reported. Trials are compared at equal steps only. Between a step and the
// end stands a regression, learnt from the trials that went on from there, on the newest values of
// a curve and on what it gained lately. It says what a trial's own values tell of its end beside
// its parameters, as a normal likelihood. A Gaussian process over the parameters has the ends of
// the trials that ended as observations, and these likelihoods for those that did not, each with a
// variance of its own. So a trial that was stopped early counts by what is known of it, and no
// more.
//
//	model := forecast.Fit(curves, &cache)
//	end := model.End(curve)       // of any trial, by its parameters and its values
//	process := model.Process()    // of parameters that have not been tried
//
// Ends are in the model's own unit, larger is better: Unit converts a score into it. All is a pure
// function of the curves, in the order in which their trials ended; a Cache only saves work.
package forecast

import (
	"math"
	"slices"
)

// A Model predicts ends.
type Model struct {
	curves []Curve
	levels *levels
	// points are the curves that the process is conditioned on.
	points  []int
	theta   theta
	process *Process
	// center and unit are the process's origin and unit.
	center, unit float64
}

const (
	// maxPoints bounds the curves in the process, whose cost grows with their cube: half of
	// them the best, half the newest.
	maxPoints = 240
	// maxFitted bounds the curves by which the process's hyper-parameters are found.
	maxFitted = 64
	// maxInputs is the number of parameters beyond which there is no process: each end is
	// predicted by its curve alone.
	maxInputs = 40
)

// A Cache keeps hyper-parameters, which are found anew only after each tenth more curves.
type Cache struct {
	key   uint64
	theta theta
}

// Steps says what can be predicted without a process, in little time for any number of curves.
func Steps(curves []Curve) *Model {
	m := &Model{curves: curves, levels: newLevels(curves)}
	m.center, m.unit = 0, 1
	return m
}

// Fit conditions a model on the curves of finished trials, in the order in which they ended.
func Fit(curves []Curve, cache *Cache) *Model {
	m := Steps(curves)
	if len(curves) == 0 || len(curves[0].X) == 0 || len(curves[0].X) > maxInputs {
		return m
	}
	known := m.levels.all()
	m.points = choose(known, maxPoints)
	means := make([]float64, len(m.points))
	for i, p := range m.points {
		means[i] = known[p].mean
	}
	m.center, m.unit = spread(means)
	m.theta = m.fit(cache)
	m.process = newProcess(m.theta, len(m.points))
	for _, p := range m.points {
		likelihood := m.scaled(known[p].likelihood)
		m.process.Add(curves[p].X, likelihood.Deviation, likelihood.Mean)
	}
	return m
}

func (m *Model) scaled(n Normal) Normal {
	return Normal{(n.Mean - m.center) / m.unit, n.Deviation / m.unit}
}

// choose takes at most limit curves: half the newest, half those with the best expected ends.
func choose(known []knowledge, limit int) []int {
	all := make([]int, 0, len(known))
	for i := range known {
		if known[i].told {
			all = append(all, i)
		}
	}
	if len(all) <= limit {
		return all
	}
	newest := all[len(all)-limit/2:]
	older := slices.Clone(all[:len(all)-limit/2])
	slices.SortStableFunc(older, func(a, b int) int {
		switch {
		case known[a].mean > known[b].mean:
			return -1
		case known[a].mean < known[b].mean:
			return 1
		}
		return a - b
	})
	older = older[:limit-limit/2]
	slices.Sort(older)
	return append(older, newest...)
}

// fit finds the hyper-parameters from the first n curves, n growing by steps of a tenth, so that
// one fit serves several models and still depends on the curves alone.
func (m *Model) fit(cache *Cache) theta {
	n := min(4, len(m.curves))
	for next := n; next <= len(m.curves); next += max(1, next/10) {
		n = next
	}
	l := m.levels
	if n < len(m.curves) {
		l = newLevels(m.curves[:n])
	}
	known := l.all()
	points := choose(known, maxFitted)
	var x [][]float64
	var means, values, noise []float64
	key := mix(uint64(n))
	for _, p := range points {
		x = append(x, m.curves[p].X)
		means = append(means, known[p].mean)
		values, noise = append(values, known[p].likelihood.Mean), append(noise, known[p].likelihood.Deviation)
		key = mix(mix(key^math.Float64bits(known[p].likelihood.Mean)) ^ math.Float64bits(known[p].likelihood.Deviation))
		for _, v := range m.curves[p].X {
			key = mix(key ^ math.Float64bits(v))
		}
	}
	if cache != nil && cache.theta != nil && cache.key == key {
		return cache.theta
	}
	center, unit := spread(means)
	for i := range values {
		values[i], noise[i] = (values[i]-center)/unit, noise[i]/unit*noise[i]/unit
	}
	t := fitTheta(x, values, noise, len(m.curves[0].X))
	if cache != nil {
		*cache = Cache{key, t}
	}
	return t
}

// mix is the finalizer of SplitMix64 (Steele, Lea and Flood 2014).
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// Unit converts the score of a trial that ended.
func (m *Model) Unit(score float64) float64 {
	return (m.levels.final.press(score) - m.center) / m.unit
}

// Score is the inverse of Unit.
func (m *Model) Score(end float64) float64 {
	return m.levels.final.release(end*m.unit + m.center)
}

// Ended is the number of curves by which ends are known.
func (m *Model) Ended() int { return m.levels.ended }

// Prior is what the parameters alone tell of an end, without its noise; with no process, what all
// the curves tell.
func (m *Model) Prior(x []float64) Normal {
	if m.process == nil {
		return m.scaled(m.levels.population)
	}
	mean, deviation := m.process.Predictor().At(x)
	return Normal{mean[0], deviation}
}

// Noise is the standard deviation of an end's noise.
func (m *Model) Noise() float64 {
	if m.process == nil {
		return 0
	}
	return math.Sqrt(m.theta.noise())
}

// Likelihood is what the values of a curve that has not ended tell of its end, whatever its
// parameters; false: nothing.
func (m *Model) Likelihood(c *Curve) (Normal, bool) {
	k := m.levels.of(c)
	return m.scaled(k.likelihood), k.told
}

// End predicts how a trial ends that is not among the model's curves and has not ended, without the
// end's noise.
func (m *Model) End(c *Curve) Normal {
	prior := m.Prior(c.X)
	if n, ok := m.Likelihood(c); ok {
		n.Deviation = math.Hypot(n.Deviation, m.Noise())
		return prior.times(n)
	}
	return prior
}

// Ends predicts the ends of all the model's curves, also those that are known, without their noise.
func (m *Model) Ends() []float64 {
	all := make([]float64, len(m.curves))
	in := make(map[int]float64, len(m.points))
	if m.process != nil {
		for i, mean := range m.process.meansAtPoints(0) {
			in[m.points[i]] = mean
		}
	}
	var p *Predictor
	for i := range all {
		mean, ok := in[i]
		switch k := m.levels.of(&m.curves[i]); {
		case ok:
			all[i] = mean
		case m.process != nil:
			if p == nil {
				p = m.process.Predictor()
			}
			means, _ := p.At(m.curves[i].X)
			all[i] = means[0]
		case k.told:
			all[i] = (k.mean - m.center) / m.unit
		default:
			all[i] = (m.levels.population.Mean - m.center) / m.unit
		}
	}
	return all
}

// Weights are how much is known of each curve's end: 1 of one that ended, towards 0 for one that
// tells nothing.
func (m *Model) Weights() []float64 {
	all := make([]float64, len(m.curves))
	for i := range all {
		all[i] = m.levels.of(&m.curves[i]).weight
	}
	return all
}

// NoiseShare is the noise's part of an end's variance.
func (m *Model) NoiseShare() float64 {
	if m.process == nil {
		return 0
	}
	return m.theta.noise() / (m.theta.noise() + m.theta.variance())
}

// Process is a copy of the process for what is not a curve of the model, with sets of values; nil
// if there is none.
func (m *Model) Process(sets int) *Process {
	if m.process == nil {
		return nil
	}
	return m.process.copies(sets)
}
