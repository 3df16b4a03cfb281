package cpu

import (
	"fmt"
	"math"

	"github.com/paragon-train/paragon/internal/compute/f32"
	"github.com/paragon-train/paragon/internal/compute/op"
	"github.com/paragon-train/paragon/internal/compute/plan"
)

// channelSums prepares sums of two quantities for each channel over at most most rows: sum adds to
// its two arguments what it finds in rows lo to hi. Pieces are summed apart and added in order. The
// returned function goes over the first rows and leaves the totals in the first 2·c values of
// doubles.
func channelSums(e *Executor, most, c int, sum func(a, b []float64, lo, hi int)) (run func(rows int), a, b []float64) {
	k := pieces(most, rowGrain(c))
	var rows int
	part := func(i int) ([]float64, []float64) {
		p := e.doubles[2*c*i : 2*c*(i+1)]
		return p[:c], p[c:]
	}
	piece := func(i int) {
		a, b := part(i)
		clear(a)
		clear(b)
		sum(a, b, i*rows/k, (i+1)*rows/k)
	}
	a, b = part(0)
	return func(n int) {
		rows = n
		e.pool.Run(k, piece)
		for i := 1; i < k; i++ {
			pa, pb := part(i)
			for j := range c {
				a[j] += pa[j]
				b[j] += pb[j]
			}
		}
	}, a, b
}

// sumDoubles is what channelSums needs.
func sumDoubles(rows, c int) int { return 2 * c * pieces(rows, rowGrain(c)) }

// A moments is what gives a batch normalisation its statistics. With numbers a near the channels'
// means and d = Σ (x−a)/m,
//
//	mean = a + d,  variance = Σ (x−a)²/m − d²
//
// The difference loses d²/variance times float32's precision. Where a is the mean of some rows,
// that is nothing worth mentioning, and one pass does. For a channel of which those rows say
// little, a second pass follows around the mean that the first one found.
type moments struct {
	mean, variance []float64

	sample func(rows int) // sets near
	sums   func(rows int) // Σ (x−a) and Σ (x−a)²
	a, b   []float64
	near   []float32 // a
}

// sampleRows is the number of rows that a first guess of the mean is made of, and secondPass the
// (d/deviation)² above which it was no good.
const (
	sampleRows = 8
	secondPass = 8
)

func (e *Executor) newMoments(x f32.Array, c int) *moments {
	m := &moments{mean: make([]float64, c), variance: make([]float64, c), near: make([]float32, c)}
	m.sums, m.a, m.b = channelSums(e, x.Len()/c, c, func(a, b []float64, lo, hi int) { channelTotalsAround(a, b, x.Part(lo*c, hi*c), m.near) })
	row := make([]float32, c)
	m.sample = func(rows int) {
		n := min(rows, sampleRows)
		clear(m.mean)
		for i := range n {
			at := i * rows / n
			f32.Move(f32.Array{F32: row}, x.Part(at*c, (at+1)*c))
			for k, v := range row {
				m.mean[k] += float64(v)
			}
		}
		for k, sum := range m.mean {
			m.near[k] = float32(sum / float64(n))
		}
	}
	return m
}

// compute sets mean and variance of the first rows, 1 or more.
func (m *moments) compute(rows int) {
	m.sample(rows)
	if m.around(rows) {
		return
	}
	for k, v := range m.mean {
		m.near[k] = float32(v)
	}
	m.around(rows)
}

// around sets mean and variance from sums around near, and reports whether near was near enough.
func (m *moments) around(rows int) bool {
	m.sums(rows)
	n, exact := float64(rows), true
	for k := range m.mean {
		d := m.a[k] / n
		m.mean[k] = float64(m.near[k]) + d
		m.variance[k] = max(m.b[k]/n-d*d, 0)
		exact = exact && !(d*d > secondPass*m.variance[k])
	}
	return exact
}

// A running is running statistics during a run: what they become is theirs when the run has
// succeeded.
type running struct {
	state *plan.State
	next  plan.State

	// moved is about this run, which next is of.
	moved bool
}

// runningOf is the running of a state, which all normalisations with this state share.
func (e *Executor) runningOf(s *plan.State) *running {
	for _, r := range e.running {
		if r.state == s {
			return r
		}
	}
	r := &running{state: s, next: plan.State{Mean: make([]float32, len(s.Mean)), Var: make([]float32, len(s.Var))}}
	e.running = append(e.running, r)
	return r
}

// now are the statistics at this point of the run.
func (r *running) now() *plan.State {
	if r.moved {
		return &r.next
	}
	return r.state
}

// move weighs a batch's statistics of channel k with momentum.
func (r *running) move(k int, momentum, mean, variance float64) {
	now := r.now()
	r.next.Mean[k] = float32((1-momentum)*float64(now.Mean[k]) + momentum*mean)
	r.next.Var[k] = float32((1-momentum)*float64(now.Var[k]) + momentum*variance)
}

func (r *running) commit() {
	if r.moved {
		copy(r.state.Mean, r.next.Mean)
		copy(r.state.Var, r.next.Var)
	}
}

// batchNorm is op.BatchNorm2D with the residual and the ReLU that follow: one pass for the
// statistics and one that writes y.
func (e *Executor) batchNorm(o *plan.Op) (kernel, error) {
	bn := o.Attr.(*op.BatchNorm2D)
	state := e.host.States[bn.State.Name]
	if state == nil {
		return kernel{}, fmt.Errorf("there is no state %q", bn.State.Name)
	}
	c := o.In[0].Channels()
	rows, images := o.In[0].Len()/c, o.In[0].Shape[0]
	return kernel{doubles: sumDoubles(rows, c), bind: func() func() error {
		x, gamma, beta := e.array(o.In[0]), e.floats(o.In[1]), e.floats(o.In[2])
		var res f32.Array
		if len(o.In) > 3 {
			res = e.array(o.In[3])
		}
		y := e.array(o.Out[0])
		scale, shift := make([]float32, c), make([]float32, c)
		mean, invstd := make([]float32, c), make([]float32, c)
		if len(o.Out) > 1 && o.Out[1] != nil {
			mean = e.floats(o.Out[1])
		}
		if len(o.Out) > 2 && o.Out[2] != nil {
			invstd = e.floats(o.Out[2])
		}
		normalise := e.split(rows, rowGrain(c), func(lo, hi int) {
			scaleShift(y.Part(lo*c, hi*c), x.Part(lo*c, hi*c), res.Part(lo*c, hi*c), scale, shift, o.ReLU)
		})
		coefficients := func() {
			for k := range c {
				scale[k] = gamma[k] * invstd[k]
				shift[k] = beta[k] - mean[k]*scale[k]
			}
		}
		fixed := func(s *plan.State) {
			for k := range c {
				mean[k], invstd[k] = s.Mean[k], float32(1/math.Sqrt(float64(s.Var[k])+bn.Eps))
			}
			coefficients()
		}
		if e.plan.Inference || o.Frozen {
			return then(func() { fixed(state) }, normalise)
		}
		batch, running := e.newMoments(x, c), e.runningOf(state)
		return then(func() {
			// there is how many of the rows are of examples.
			there := rows / images * e.rows(images)
			if there == 1 {
				fixed(running.now())
				return
			}
			batch.compute(there)
			m := float64(there)
			for k := range c {
				mu, v := batch.mean[k], batch.variance[k]
				mean[k], invstd[k] = float32(mu), float32(1/math.Sqrt(v+bn.Eps))
				running.move(k, bn.Momentum, mu, v*m/(m-1))
			}
			running.moved = true
			coefficients()
		}, normalise)
	}}, nil
}

// batchNormGrad is op.BatchNorm2DGrad with the gradient of the ReLU behind the normalisation: one
// pass for the two sums, one that writes dx. Of examples that are not there dx is 0.
func (e *Executor) batchNormGrad(o *plan.Op) (kernel, error) {
	c := o.In[0].Channels()
	rows, images := o.In[0].Len()/c, o.In[0].Shape[0]
	return kernel{doubles: sumDoubles(rows, c), bind: func() func() error {
		x, gamma, mean, invstd, dy := e.array(o.In[0]), e.floats(o.In[1]), e.floats(o.In[2]), e.floats(o.In[3]), e.array(o.In[4])
		y := e.array(o.In[5])
		dx, dgamma, dbeta := e.array(o.Out[0]), e.floats(o.Out[1]), e.floats(o.Out[2])
		sums, sumDy, sumDyX := channelSums(e, rows, c, func(a, b []float64, lo, hi int) {
			channelGradTotals(a, b, dy.Part(lo*c, hi*c), x.Part(lo*c, hi*c), y.Part(lo*c, hi*c), mean)
		})
		p, q, r := make([]float32, c), make([]float32, c), make([]float32, c)
		var there int // rows of examples
		finish := func() {
			there = rows / images * e.rows(images)
			sums(there)
			m := float64(there)
			if there == 1 {
				// The statistics are the running ones, on which x has no influence.
				m = math.Inf(1)
			}
			for k := range c {
				is, mu := float64(invstd[k]), float64(mean[k])
				if dgamma != nil {
					dgamma[k] = float32(sumDyX[k] * is)
				}
				if dbeta != nil {
					dbeta[k] = float32(sumDy[k])
				}
				pk := float64(gamma[k]) * is

				// Mean and variance do not depend on x.
				if o.Frozen {
					p[k], q[k], r[k] = float32(pk), 0, 0
					continue
				}
				qk := -pk * is * is * sumDyX[k] / m
				p[k], q[k], r[k] = float32(pk), float32(qk), float32(-pk*sumDy[k]/m-qk*mu)
			}
		}
		if dx.None() {
			return then(finish)
		}
		return then(finish, e.split(rows, rowGrain(c), func(lo, hi int) {
			if hi > there {
				clearArray(dx.Part(max(lo, there)*c, hi*c))
				hi = max(lo, there)
			}
			normGrad(dx.Part(lo*c, hi*c), dy.Part(lo*c, hi*c), x.Part(lo*c, hi*c), y.Part(lo*c, hi*c), p, q, r)
		}))
	}}, nil
}
