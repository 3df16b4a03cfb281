// Package bfgs finds the least value of a smooth function.
package bfgs

import "math"

const (
	// farthest is how far a step may move a coordinate, and firstFarthest how far one may that
	// follows the gradient alone.
	farthest, firstFarthest = 2, 0.5
	// flat is the slope of a direction along which there is nothing to gain.
	flat = -1e-10
	// leastGain ends the search when a step gains less.
	leastGain = 1e-4
	// backtracks is how often a step is shortened to a third.
	backtracks = 12
)

// Minimise runs BFGS with a backtracking line search (Nocedal and Wright 2006, algorithm 6.1) for
// at most steps steps. f writes the gradient and returns the value; +Inf is a point that is not
// allowed. No step moves a coordinate by more than 2.
func Minimise(f func(x, grad []float64) float64, start []float64, steps int) (x []float64, value float64) {
	m := newMinimiser(f, start)
	if math.IsInf(m.value, 0) || math.IsNaN(m.value) {
		return m.x, math.Inf(1)
	}
	for range steps {
		slope, longest := m.aim()
		trial, ok := 0.0, false
		if !(slope > flat) {
			trial, ok = m.search(slope, longest)
		}
		if !ok {
			if m.fresh {
				break
			}
			// The inverse Hessian may be what is wrong.
			m.reset()
			continue
		}
		gain, curvature := m.move(trial)
		if gain < leastGain {
			break
		}
		if curvature >= 1e-12 {
			m.update(curvature)
		}
	}
	return m.x, m.value
}

// A minimiser is where a search stands.
type minimiser struct {
	f func(x, grad []float64) float64
	// x is the best point, with its value and gradient.
	x, grad []float64
	value   float64
	// next is the point that is tried, with its gradient, and dir the direction to it.
	next, nextGrad, dir []float64
	// h is the inverse Hessian, n·n. fresh says that it is the unit matrix: no step was taken
	// since.
	h     []float64
	fresh bool
	// s and y are what the last step changed of the point and of the gradient.
	s, y []float64
}

// newMinimiser starts at a point with the unit matrix, which makes the first step go down the
// gradient.
func newMinimiser(f func(x, grad []float64) float64, start []float64) *minimiser {
	n := len(start)
	of := func() []float64 { return make([]float64, n) }
	m := &minimiser{f: f, x: append([]float64(nil), start...), grad: of(), next: of(), nextGrad: of(), dir: of(), h: make([]float64, n*n), s: of(), y: of()}
	m.value = f(m.x, m.grad)
	m.reset()
	return m
}

// reset forgets what was learnt of the Hessian.
func (m *minimiser) reset() {
	n := len(m.x)
	for i := range m.h {
		m.h[i] = 0
	}
	for i := range n {
		m.h[i*n+i] = 1
	}
	m.fresh = true
}

// aim sets the direction. It returns its slope and the largest change of a coordinate along it.
func (m *minimiser) aim() (slope, longest float64) {
	n := len(m.x)
	for i := range m.dir {
		m.dir[i] = 0
		for j := range n {
			m.dir[i] -= m.h[i*n+j] * m.grad[j]
		}
		slope += m.dir[i] * m.grad[i]
		longest = max(longest, math.Abs(m.dir[i]))
	}
	return slope, longest
}

// search tries points along the direction, each nearer than the one before, until one is enough
// better (Armijo's rule).
func (m *minimiser) search(slope, longest float64) (trial float64, ok bool) {
	t := min(1, farthest/longest)
	if m.fresh {
		t = min(t, firstFarthest/longest)
	}
	for range backtracks {
		for i := range m.next {
			m.next[i] = m.x[i] + t*m.dir[i]
		}
		trial = m.f(m.next, m.nextGrad)
		if trial <= m.value+1e-4*t*slope {
			return trial, true
		}
		t /= 3
	}
	return trial, false
}

// move takes the point that was found. It returns what that gains, and the curvature s·y along the
// step.
func (m *minimiser) move(trial float64) (gain, curvature float64) {
	m.fresh = false
	for i := range m.s {
		m.s[i], m.y[i] = m.next[i]-m.x[i], m.nextGrad[i]-m.grad[i]
		curvature += m.s[i] * m.y[i]
	}
	gain = m.value - trial
	copy(m.x, m.next)
	copy(m.grad, m.nextGrad)
	m.value = trial
	return gain, curvature
}

// update is the BFGS update of the inverse Hessian (equation 6.17); sy is s·y.
func (m *minimiser) update(sy float64) {
	n, s, y := len(m.x), m.s, m.y
	hy, yhy := make([]float64, n), 0.0
	for i := range hy {
		for j := range n {
			hy[i] += m.h[i*n+j] * y[j]
		}
		yhy += y[i] * hy[i]
	}
	for i := range n {
		for j := range n {
			m.h[i*n+j] += (1+yhy/sy)*s[i]*s[j]/sy - (hy[i]*s[j]+s[i]*hy[j])/sy
		}
	}
}
