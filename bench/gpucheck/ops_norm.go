package main

import (
	"fmt"
	"math"

	"github.com/paragon-train/paragon/internal/cuda/drv"
	"github.com/paragon-train/paragon/internal/cuda/kernels"
)

type ptr = drv.Ptr

// A normRef is a batch normalisation and its gradient in float64: x, add and dy are rows of c numbers.
type normRef struct {
	mean, invstd, variance []float64
	y                      []float64
	dz, dx, dgamma, dbeta  []float64
}

const normEps = 1e-5

// forward computes y = relu(gamma·(x−m)·invstd + beta + add).
func (n *normRef) forward(x, add, gamma, beta []float64, withReLU bool) {
	c := len(gamma)
	rows := float64(len(x) / c)
	n.mean, n.variance, n.invstd, n.y = make([]float64, c), make([]float64, c), make([]float64, c), make([]float64, len(x))
	for i, v := range x {
		n.mean[i%c] += v / rows
	}
	for i, v := range x {
		n.variance[i%c] += (v - n.mean[i%c]) * (v - n.mean[i%c]) / rows
	}
	for k, v := range n.variance {
		n.invstd[k] = 1 / math.Sqrt(v+normEps)
	}
	for i, v := range x {
		k := i % c
		y := gamma[k]*(v-n.mean[k])*n.invstd[k] + beta[k]
		if add != nil {
			y += add[i]
		}
		if withReLU {
			y = relu(y)
		}
		n.y[i] = y
	}
}

// backward computes the gradients; let says where the ReLU let through.
func (n *normRef) backward(x, dy, gamma []float64, let func(i int) bool) {
	c := len(gamma)
	rows := float64(len(x) / c)
	n.dz, n.dx, n.dgamma, n.dbeta = make([]float64, len(x)), make([]float64, len(x)), make([]float64, c), make([]float64, c)
	for i, v := range dy {
		if let(i) {
			n.dz[i] = v
		}
		k := i % c
		n.dbeta[k] += n.dz[i]
		n.dgamma[k] += n.dz[i] * (x[i] - n.mean[k]) * n.invstd[k]
	}
	for i := range dy {
		k := i % c
		n.dx[i] = gamma[k] * n.invstd[k] * (n.dz[i] - n.dbeta[k]/rows - (x[i]-n.mean[k])*n.invstd[k]*n.dgamma[k]/rows)
	}
}

var normChecks = []opCheck{
	{"batch norm, training", floats, func(o *opRun) error {
		for _, shape := range [][2]int{{o.size(5000) / 8, 8}, {o.size(40000) / 64, 64}, {77, 13}} {
			if err := o.norm(shape[0], shape[1], true, shape[1]%8 == 0); err != nil {
				return err
			}
		}
		return o.norm(o.size(30000)/32, 32, false, false)
	}},
	{"batch norm, evaluation", floats, func(o *opRun) error {
		const c = 40
		rows := o.size(8000) / c
		x, xp := o.with(rows * c)
		gamma, beta, mean, variance := o.random(c), o.random(c), o.random(c), mapped(o.random(c), func(v float64) float64 { return 1 + v*v })
		b := kernels.BatchNorm{Type: o.t, Rows: rows, C: c, X: xp, Y: o.empty(o.t, rows*c), Gamma: o.put(kernels.Float32, gamma), Beta: o.put(kernels.Float32, beta),
			RunMean: o.put(kernels.Float32, mean), RunVar: o.put(kernels.Float32, variance), Eps: normEps, ReLU: true}
		if err := o.set.BatchNormEval(o.s, b); err != nil {
			return err
		}
		want := make([]float64, len(x))
		for i, v := range x {
			k := i % c
			want[i] = relu(gamma[k]*(v-mean[k])/math.Sqrt(variance[k]+normEps) + beta[k])
		}
		o.near("y", o.t, b.Y, want)
		return nil
	}},
}

// norm checks a training pass and its gradient; with a residual and bits, or with neither.
func (o *opRun) norm(rows, c int, withAdd, bits bool) error {
	what := func(s string) string { return fmt.Sprintf("%s of %d rows of %d", s, rows, c) }
	n := rows * c
	x := mapped(o.random(n), func(v float64) float64 { return 2*v + 0.5 })
	gamma, beta := mapped(o.random(c), func(v float64) float64 { return 1 + v/4 }), o.random(c)
	runMean, runVar := o.random(c), mapped(o.random(c), func(v float64) float64 { return 1 + v*v })
	dy, dyp := o.with(n)
	b := kernels.BatchNorm{Type: o.t, Rows: rows, C: c, X: o.put(o.t, x), Y: o.empty(o.t, n), ReLU: true, Eps: normEps, Momentum: 0.1,
		Gamma: o.put(kernels.Float32, gamma), Beta: o.put(kernels.Float32, beta), Mean: o.empty(kernels.Float32, c), InvStd: o.empty(kernels.Float32, c),
		RunMean: o.put(kernels.Float32, runMean), RunVar: o.put(kernels.Float32, runVar), Workspace: o.room(o.set.BatchNormWorkspace(c))}
	var add []float64
	if withAdd {
		add, b.Add = o.with(n)
	}
	if bits {
		b.Mask = o.room(int64(n+7) / 8)
	}
	if o.err != nil {
		return o.err
	}
	if err := o.set.BatchNorm(o.s, b); err != nil {
		return err
	}
	var r normRef
	r.forward(x, add, gamma, beta, true)
	o.near(what("mean"), kernels.Float32, b.Mean, r.mean)
	o.near(what("invstd"), kernels.Float32, b.InvStd, r.invstd)
	o.near(what("y"), o.t, b.Y, r.y)
	for k := range runMean {
		runMean[k] = 0.9*runMean[k] + 0.1*r.mean[k]
		runVar[k] = 0.9*runVar[k] + 0.1*r.variance[k]*float64(rows)/float64(max(rows-1, 1))
	}
	o.near(what("running mean"), kernels.Float32, b.RunMean, runMean)
	o.near(what("running variance"), kernels.Float32, b.RunVar, runVar)
	y := o.get(o.t, b.Y, n)
	g := kernels.BatchNormGrad{Type: o.t, Rows: rows, C: c, X: b.X, DY: dyp, Gamma: b.Gamma, Mean: b.Mean, InvStd: b.InvStd, DX: o.empty(o.t, n),
		DGamma: o.empty(kernels.Float32, c), DBeta: o.empty(kernels.Float32, c), Workspace: b.Workspace}
	switch {
	case bits:
		g.Mask = b.Mask
	case withAdd:
		g.Y = b.Y
	default:
		g.Beta = b.Beta
	}
	if withAdd {
		g.DAdd = o.empty(o.t, n)
	}
	if o.err != nil {
		return o.err
	}
	if err := o.set.BatchNormGrad(o.s, g); err != nil {
		return err
	}
	// What the device let through counts: a sum beside zero may be rounded to either side.
	r.backward(x, dy, gamma, func(i int) bool { return y[i] > 0 })
	if withAdd {
		o.exact(what("dadd"), o.t, g.DAdd, r.dz)
	}
	o.near(what("dx"), o.t, g.DX, r.dx)
	o.near(what("dgamma"), kernels.Float32, g.DGamma, r.dgamma)
	o.near(what("dbeta"), kernels.Float32, g.DBeta, r.dbeta)
	return nil
}
