// Package bfgs finds the least value of a smooth function.
package bfgs

import "math"

// Minimise runs BFGS with a backtracking line search (Nocedal and Wright 2006, algorithm 6.1) for
// at most steps steps. f writes the gradient and returns the value; +Inf is a point that is not
// allowed. No step moves a coordinate by more than 2.
func Minimise(f func(x, grad []float64) float64, start []float64, steps int) (x []float64, value float64) {
	n := len(start)
	x = append([]float64(nil), start...)
	grad, next, nextGrad, dir := make([]float64, n), make([]float64, n), make([]float64, n), make([]float64, n)
	value = f(x, grad)
	if math.IsInf(value, 0) || math.IsNaN(value) {
		return x, math.Inf(1)
	}
	h := make([]float64, n*n) // the inverse Hessian
	reset := func() {
		for i := range h {
			h[i] = 0
		}
		for i := range n {
			h[i*n+i] = 1
		}
	}
	reset()
	fresh := true
	for range steps {
		slope, longest := 0.0, 0.0
		for i := range dir {
			dir[i] = 0
			for j := range n {
				dir[i] -= h[i*n+j] * grad[j]
			}
			slope += dir[i] * grad[i]
			longest = max(longest, math.Abs(dir[i]))
		}
		if slope > -1e-10 {
			if fresh {
				break
			}
			reset()
			fresh = true
			continue
		}
		t := min(1, 2/longest)
		if fresh {
			t = min(t, 0.5/longest)
		}
		trial, ok := 0.0, false
		for range 12 {
			for i := range next {
				next[i] = x[i] + t*dir[i]
			}
			trial = f(next, nextGrad)
			if trial <= value+1e-4*t*slope {
				ok = true
				break
			}
			t /= 3
		}
		if !ok {
			if fresh {
				break
			}
			reset()
			fresh = true
			continue
		}
		fresh = false
		s, y, sy := make([]float64, n), make([]float64, n), 0.0
		for i := range s {
			s[i], y[i] = next[i]-x[i], nextGrad[i]-grad[i]
			sy += s[i] * y[i]
		}
		gain := value - trial
		copy(x, next)
		copy(grad, nextGrad)
		value = trial
		if gain < 1e-4 {
			break
		}
		if sy < 1e-12 {
			continue
		}
		hy, yhy := make([]float64, n), 0.0
		for i := range hy {
			for j := range n {
				hy[i] += h[i*n+j] * y[j]
			}
			yhy += y[i] * hy[i]
		}
		for i := range n {
			for j := range n {
				h[i*n+j] += (1+yhy/sy)*s[i]*s[j]/sy - (hy[i]*s[j]+s[i]*hy[j])/sy
			}
		}
	}
	return x, value
}
