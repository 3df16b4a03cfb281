package adapt

import "math"

// maxParameters bounds the parameters of a model that is fitted.
const maxParameters = 10

type vector [maxParameters]float64
type matrix [maxParameters]vector

// An objective is what a fit minimises over a box. evaluate returns its value, gradient and a
// positive semi-definite approximation of its second derivatives (the lower triangle is enough).
type objective interface {
	evaluate(x *vector, gradient *vector, curvature *matrix) float64
}

// A box holds the parameters that are fitted: x[i] stays in [low[i], high[i]], and where the two
// are equal it is fixed.
type box struct {
	n         int
	low, high vector
}

func (b *box) fix(i int, at float64) { b.low[i], b.high[i] = at, at }

func (b *box) clip(x vector) vector {
	for i := range b.n {
		x[i] = min(max(x[i], b.low[i]), b.high[i])
	}
	return x
}

// effort says when minimize ends.
type effort struct {
	iterations int
	// tolerance is the relative decrease of a step that counts as none. Three such steps in a
	// row end it.
	tolerance float64
}

// minimize is a projected Levenberg-Marquardt method: the step minimises the quadratic model with
// the damping λ·diag(curvature) over the box, bounds that it would leave become equalities. It ends
// at a point that no longer improves; the result depends on nothing but its arguments.
func minimize(f objective, b *box, start vector, e effort) (vector, float64) {
	x := b.clip(start)
	var g, tryG vector
	var h, tryH matrix
	value := f.evaluate(&x, &g, &h)
	damping, idle := 1e-3, 0
	for range e.iterations {
		step, ok := b.step(&x, &g, &h, damping)
		if !ok {
			break
		}
		try := x
		for i := range b.n {
			try[i] += step[i]
		}
		try = b.clip(try)
		got := f.evaluate(&try, &tryG, &tryH)
		if !(got < value) {
			if damping *= 8; damping > 1e10 {
				break
			}
			continue
		}
		if value-got <= e.tolerance*math.Abs(value) {
			idle++
		} else {
			idle = 0
		}
		x, value, g, h = try, got, tryG, tryH
		damping = max(damping/6, 1e-9)
		if idle == 3 {
			break
		}
	}
	return x, value
}

// step solves for the step of the parameters that may move. ok is false where none may.
func (b *box) step(x, g *vector, h *matrix, damping float64) (step vector, ok bool) {
	var free [maxParameters]bool
	moving := 0
	for i := range b.n {
		free[i] = b.low[i] < b.high[i] && !(x[i] <= b.low[i] && g[i] >= 0) && !(x[i] >= b.high[i] && g[i] <= 0)
		if free[i] {
			moving++
		}
	}
	if moving == 0 {
		return step, false
	}
	for {
		solve(b.n, &free, g, h, damping, &step)
		again := false
		for i := range b.n {
			if !free[i] {
				continue
			}
			if to := x[i] + step[i]; to < b.low[i] || to > b.high[i] {
				step[i] = min(max(to, b.low[i]), b.high[i]) - x[i]
				free[i], again = false, true
			}
		}
		if !again {
			return step, true
		}
	}
}

// solve finds the step of the free parameters from (H + λ·diag(H))·step = −g, with the steps of the
// others given, by Cholesky.
func solve(n int, free *[maxParameters]bool, g *vector, h *matrix, damping float64, step *vector) {
	var index [maxParameters]int
	k := 0
	for i := range n {
		if free[i] {
			index[k] = i
			k++
		}
	}
	at := func(i, j int) float64 {
		if i < j {
			i, j = j, i
		}
		return h[i][j]
	}
	var l matrix
	var y vector
	for a := range k {
		i := index[a]
		y[a] = -g[i]
		for j := range n {
			if !free[j] && step[j] != 0 {
				y[a] -= at(i, j) * step[j]
			}
		}
		for c := range a + 1 {
			sum := at(i, index[c])
			if c == a {
				sum = sum*(1+damping) + 1e-300
			}
			for m := range c {
				sum -= l[a][m] * l[c][m]
			}
			if c == a {
				l[a][a] = math.Sqrt(max(sum, 1e-14*at(i, i)+1e-300))
			} else {
				l[a][c] = sum / l[c][c]
			}
		}
	}
	for a := range k {
		for m := range a {
			y[a] -= l[a][m] * y[m]
		}
		y[a] /= l[a][a]
	}
	for a := k - 1; a >= 0; a-- {
		for m := a + 1; m < k; m++ {
			y[a] -= l[m][a] * y[m]
		}
		y[a] /= l[a][a]
		step[index[a]] = y[a]
	}
}
