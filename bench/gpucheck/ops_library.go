package main

import (
	"errors"
	"fmt"

	"github.com/paragon-train/paragon/internal/cuda/cublaslt"
	"github.com/paragon-train/paragon/internal/cuda/cudnn"
	"github.com/paragon-train/paragon/internal/cuda/drv"
	"github.com/paragon-train/paragon/internal/cuda/kernels"
)

// lost says whether the GPU can be used no more in this process.
func lost(err error) bool { return errors.Is(err, drv.ErrLost) }

var (
	dnnTypes  = map[kernels.Type]cudnn.DType{kernels.Float32: cudnn.Float32, kernels.BFloat16: cudnn.BFloat16, kernels.Float16: cudnn.Float16}
	blasTypes = map[kernels.Type]cublaslt.DType{kernels.Float32: cublaslt.Float32, kernels.BFloat16: cublaslt.BFloat16, kernels.Float16: cublaslt.Float16}
)

// libraryChecks run every engine that the libraries offer, not only the fastest.
var libraryChecks = []opCheck{
	{"convolution 3×3, all engines", floats, func(o *opRun) error { return o.conv(16, 24, 3, 1) }},
	{"convolution 3×3 stride 2, all engines", floats, func(o *opRun) error { return o.conv(16, 24, 3, 2) }},
	{"convolution 1×1 stride 2, all engines", floats, func(o *opRun) error { return o.conv(8, 16, 1, 2) }},
	{"fused norm, add, ReLU of cuDNN, all engines", []kernels.Type{kernels.BFloat16, kernels.Float16}, (*opRun).fused},
	{"products, all algorithms", floats, (*opRun).products},
}

// taps calls f for each product of a convolution, with the places of its operands.
func taps(c cudnn.Conv, f func(x, w, y int)) {
	p, q := c.OutSize()
	for n := range c.N {
		for i := range p {
			for j := range q {
				for r := range c.R {
					for s := range c.S {
						h, w := i*c.Stride[0]-c.Pad[0]+r, j*c.Stride[1]-c.Pad[1]+s
						if h < 0 || h >= c.H || w < 0 || w >= c.W {
							continue
						}
						for k := range c.K {
							for ch := range c.C {
								f(((n*c.H+h)*c.W+w)*c.C+ch, ((k*c.R+r)*c.S+s)*c.C+ch, ((n*p+i)*q+j)*c.K+k)
							}
						}
					}
				}
			}
		}
	}
}

// workspace is scratch memory for a plan.
func (o *opRun) workspace(n int64) drv.Ptr { return o.room(max(n, 1)) }

func (o *opRun) conv(channels, filters, size, stride int) error {
	if o.dnn == nil {
		return errors.New("there is no cuDNN")
	}
	c := cudnn.Conv{N: 3, C: channels, H: 10, W: 9, K: filters, R: size, S: size, Pad: [2]int{size / 2, size / 2}, Stride: [2]int{stride, stride},
		In: dnnTypes[o.t], Weight: dnnTypes[o.t], Out: dnnTypes[o.t]}
	if o.small {
		c.H, c.W = 5, 4
	}
	p, q := c.OutSize()
	x, xp := o.with(c.N * c.H * c.W * c.C)
	w, wp := o.with(c.K * c.R * c.S * c.C)
	dy, dyp := o.with(c.N * p * q * c.K)
	y, dx, dw := make([]float64, len(dy)), make([]float64, len(x)), make([]float64, len(w))
	taps(c, func(ix, iw, iy int) {
		y[iy] += x[ix] * w[iw]
		dx[ix] += dy[iy] * w[iw]
		dw[iw] += dy[iy] * x[ix]
	})
	for _, pass := range []cudnn.Op{cudnn.Forward, cudnn.BackwardData, cudnn.BackwardWeight} {
		plans, err := o.dnn.Candidates(pass, c)
		if err != nil {
			return err
		}
		if err := eachEngine(&o.engines, plans, o.until, func(plan *cudnn.Plan) error {
			a, b, out, want := xp, wp, dyp, y
			switch pass {
			case cudnn.Forward:
				out = o.empty(o.t, len(y))
			case cudnn.BackwardData:
				a, want = o.empty(o.t, len(x)), dx
			case cudnn.BackwardWeight:
				b, want = o.empty(o.t, len(w)), dw
			}
			space := o.workspace(plan.Workspace())
			if o.err != nil {
				return o.err
			}
			if err := errors.Join(plan.Run(o.s, space, a, b, out), o.Synchronize(o.s)); err != nil {
				return err
			}
			result := map[cudnn.Op]drv.Ptr{cudnn.Forward: out, cudnn.BackwardData: a, cudnn.BackwardWeight: b}[pass]
			o.near(fmt.Sprintf("%v by %s", pass, plan.Engine()), o.t, result, want)
			return nil
		}); err != nil {
			return fmt.Errorf("%v: %w", pass, err)
		}
	}
	return nil
}

func (o *opRun) fused() error {
	if o.dnn == nil {
		return errors.New("there is no cuDNN")
	}
	n := cudnn.Norm{N: 4, C: 16, H: 6, W: 5, Type: dnnTypes[o.t], Add: true, ReLU: true, Mask: true, Running: true, Epsilon: normEps, Momentum: 0.1}
	plans, err := o.dnn.NormCandidates(n)
	if errors.Is(err, cudnn.ErrNotSupported) {
		o.what = "not offered: " + err.Error()
		return nil
	}
	if err != nil {
		return err
	}
	count := n.N * n.C * n.H * n.W
	x, xp := o.with(count)
	add, ap := o.with(count)
	dy, dyp := o.with(count)
	gamma, beta := mapped(o.random(n.C), func(v float64) float64 { return 1 + v/4 }), o.random(n.C)
	var r normRef
	single := func(v []float64) drv.Ptr { return o.put(kernels.Float32, v) }
	a := cudnn.NormArgs{X: xp, Add: ap, Zeros: o.put(o.t, make([]float64, count)), Scale: single(gamma), Bias: single(beta), Mean: o.empty(kernels.Float32, n.C), InvStd: o.empty(kernels.Float32, n.C)}
	r.forward(x, add, gamma, beta, true)
	if err := eachEngine(&o.engines, plans, o.until, func(plan *cudnn.NormPlan) error {
		run := a
		run.Y, run.Mask = o.empty(o.t, count), o.room(int64(count/8))
		run.RunningMean, run.RunningVar = single(make([]float64, n.C)), single(make([]float64, n.C))
		space := o.workspace(plan.Workspace())
		if o.err != nil {
			return o.err
		}
		if err := errors.Join(plan.Run(o.s, space, run), o.Synchronize(o.s)); err != nil {
			return err
		}
		o.near("y by "+plan.Engine(), o.t, run.Y, r.y)
		o.near("mean by "+plan.Engine(), kernels.Float32, run.Mean, r.mean)
		o.near("invstd by "+plan.Engine(), kernels.Float32, run.InvStd, r.invstd)
		a = run // what its gradient reads
		return nil
	}); err != nil {
		return err
	}
	y := o.get(o.t, a.Y, count)
	r.backward(x, dy, gamma, func(i int) bool { return y[i] > 0 })
	grads, err := o.dnn.NormGradCandidates(cudnn.NormGrad{N: n.N, C: n.C, H: n.H, W: n.W, Type: n.Type, Mask: true, DAdd: true})
	if errors.Is(err, cudnn.ErrNotSupported) {
		o.what = "gradient not offered: " + err.Error()
		return nil
	}
	if err != nil {
		return err
	}
	return eachEngine(&o.engines, grads, o.until, func(plan *cudnn.NormGradPlan) error {
		g := cudnn.NormGradArgs{X: xp, DY: dyp, Mask: a.Mask, Scale: a.Scale, Mean: a.Mean, InvStd: a.InvStd, DX: o.empty(o.t, count), DAdd: o.empty(o.t, count),
			DScale: o.empty(kernels.Float32, n.C), DBias: o.empty(kernels.Float32, n.C)}
		space := o.workspace(plan.Workspace())
		if o.err != nil {
			return o.err
		}
		if err := errors.Join(plan.Run(o.s, space, g), o.Synchronize(o.s)); err != nil {
			return err
		}
		o.near("dx by "+plan.Engine(), o.t, g.DX, r.dx)
		o.near("dscale by "+plan.Engine(), kernels.Float32, g.DScale, r.dgamma)
		o.near("dadd by "+plan.Engine(), o.t, g.DAdd, r.dz)
		return nil
	})
}

func (o *opRun) products() error {
	if o.blas == nil {
		return errors.New("there is no cuBLASLt")
	}
	t := blasTypes[o.t]
	const batch, in, out = 24, 40, 16
	for _, m := range []cublaslt.Matmul{cublaslt.Linear(batch, in, out, t), cublaslt.LinearGradInput(batch, in, out, t), cublaslt.LinearGradWeight(batch, in, out, t, cublaslt.Float32)} {
		m.Bias, m.ReLU = false, false
		a, ap := o.with(m.M * m.K)
		b, bp := o.with(m.K * m.N)
		want := make([]float64, m.M*m.N)
		for i := range m.M {
			for j := range m.N {
				for k := range m.K {
					ia, ib := i*m.K+k, k*m.N+j
					if m.TransA {
						ia = k*m.M + i
					}
					if m.TransB {
						ib = j*m.K + k
					}
					want[i*m.N+j] += a[ia] * b[ib]
				}
			}
		}
		result := o.t
		if m.Out == cublaslt.Float32 {
			result = kernels.Float32
		}
		plans, err := o.blas.Plans(m)
		if err != nil {
			return err
		}
		for _, plan := range plans {
			d, space := o.empty(result, len(want)), o.workspace(plan.Workspace())
			if o.err != nil {
				return o.err
			}
			if err := errors.Join(plan.Run(o.s, space, ap, bp, 0, d), o.Synchronize(o.s)); err != nil {
				return fmt.Errorf("%v by %s: %w", m, plan.Engine(), err)
			}
			o.near(fmt.Sprintf("%v by %s", m, plan.Engine()), result, d, want)
			if err := plan.Close(); err != nil {
				return err
			}
		}
	}
	return nil
}
