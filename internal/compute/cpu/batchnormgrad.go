package cpu

import (
	"math"

	"github.com/paragon-train/paragon/internal/compute/plan"
)

// batchNormGrad is op.BatchNorm2DGrad with the gradient of the ReLU behind the normalisation: one
// pass for the two sums, one that writes dx. Of examples that are not there dx is 0.
func (n *norms) batchNormGrad(o *plan.Op) (kernel, error) {
	behind, err := activationBehind(o)
	if err != nil {
		return kernel{}, err
	}
	c := o.In[0].Channels()
	rows, images := o.In[0].Len()/c, o.In[0].Shape[0]
	return kernel{doubles: sumDoubles(rows, c), bind: func() func() error {
		x, mean, dy, y := n.mem.array(o.In[0]), n.mem.floats(o.In[2]), n.mem.array(o.In[4]), n.mem.array(o.In[5])
		dx := n.mem.array(o.Out[0])
		if behind != nil {
			// The gradient in front of the activation lies where dx will, pieces of it in the cache
			// while they are summed.
			behind.before(&dy, &y, dx)
		}
		sums := newChannelSum(n.threads, n.mem.doubles(sumDoubles(rows, c)), rows, c, func(a, b []float64, lo, hi int) {
			if behind != nil {
				behind.gradient(lo*c, hi*c)
			}
			channelGradTotals(a, b, dy.Part(lo*c, hi*c), x.Part(lo*c, hi*c), y.Part(lo*c, hi*c), mean)
		})
		plane := n.planeOf(o, sums)

		// there is how many of the rows are of examples.
		var there int
		finish := func() {
			there = rows / images * n.examples.rows(images)
			sums.run(there)
			plane.fit(there)
		}
		if dx.None() {
			return then(finish)
		}
		return then(finish, n.threads.split(rows, rowGrain(c), func(lo, hi int) {
			if hi > there {
				clearArray(dx.Part(max(lo, there)*c, hi*c))
				hi = max(lo, there)
			}
			normGrad(dx.Part(lo*c, hi*c), dy.Part(lo*c, hi*c), x.Part(lo*c, hi*c), y.Part(lo*c, hi*c), plane.p, plane.q, plane.r)
		}))
	}}, nil
}

// A normPlane is the gradient of a batch normalisation: dx = dy·p + x·q + r for each channel.
type normPlane struct {
	// frozen is true if mean and variance do not depend on x.
	frozen bool

	gamma, mean, invstd []float32

	// sums has Σ dy and Σ dy·(x−mean).
	sums *channelSum

	// dgamma and dbeta are nil where nobody asks for them.
	dgamma, dbeta []float32

	p, q, r []float32
}

// planeOf is the plane of op o over the sums, which hold what their last run found.
func (n *norms) planeOf(o *plan.Op, sums *channelSum) *normPlane {
	c := o.In[0].Channels()
	return &normPlane{frozen: o.Frozen, sums: sums,
		gamma: n.mem.floats(o.In[1]), mean: n.mem.floats(o.In[2]), invstd: n.mem.floats(o.In[3]),
		dgamma: n.mem.floats(o.Out[1]), dbeta: n.mem.floats(o.Out[2]),
		p: make([]float32, c), q: make([]float32, c), r: make([]float32, c)}
}

// fit sets the plane, and the gradients of gamma and beta, from the sums over some rows.
func (g *normPlane) fit(rows int) {
	m := float64(rows)
	if rows == 1 {
		// The statistics are the running ones, on which x has no influence.
		m = math.Inf(1)
	}
	sumDy, sumDyX := g.sums.a, g.sums.b
	for k := range g.p {
		is, mu := float64(g.invstd[k]), float64(g.mean[k])
		if g.dgamma != nil {
			g.dgamma[k] = float32(sumDyX[k] * is)
		}
		if g.dbeta != nil {
			g.dbeta[k] = float32(sumDy[k])
		}
		pk := float64(g.gamma[k]) * is
		if g.frozen {
			g.p[k], g.q[k], g.r[k] = float32(pk), 0, 0
			continue
		}
		qk := -pk * is * is * sumDyX[k] / m
		g.p[k], g.q[k], g.r[k] = float32(pk), float32(qk), float32(-pk*sumDy[k]/m-qk*mu)
	}
}
