package cuda

import (
	"errors"
	"fmt"

	"github.com/paragon-train/paragon/internal/compute/cuda/cudnn"
	"github.com/paragon-train/paragon/internal/compute/cuda/drv"
	"github.com/paragon-train/paragon/internal/compute/cuda/kernels"
	"github.com/paragon-train/paragon/internal/compute/plan"
)

// A normPlan is the library's way to normalise: *cudnn.NormPlan.
type normPlan interface {
	Workspace() int64
	Close() error
	Run(s drv.Stream, workspace drv.Ptr, a cudnn.NormArgs) error
}

// A normGradPlan is the library's way to a normalisation's gradient: *cudnn.NormGradPlan.
type normGradPlan interface {
	Workspace() int64
	Close() error
	Run(s drv.Stream, workspace drv.Ptr, a cudnn.NormGradArgs) error
}

// library is the library's way to do b for an image like x, or nil if ours is to be taken.
func (f *norms) library(x *plan.Value, b kernels.BatchNorm, add, mask bool) (normPlan, error) {
	if !f.gpu.norms || b.Rows < 2 || len(x.Shape) != 4 || lanesOf(x) != b.C {
		return nil, nil
	}
	q := cudnn.Norm{N: x.Shape[0], C: b.C, H: x.Shape[2], W: x.Shape[3], Type: dnnType(b.Type), Add: add, ReLU: b.ReLU, Mask: mask, Running: true,
		Epsilon: float32(b.Eps), Momentum: float32(b.Momentum)}
	if p, ok := f.forward[q]; ok {
		return p, nil
	}
	p, err := f.gpu.vendor.norm(q, f.gpu.kernels.BatchNormWorkspace(b.C), func(s drv.Stream, workspace drv.Ptr, a cudnn.NormArgs) error {
		t := b
		t.X, t.Y, t.Add, t.Gamma, t.Beta, t.Mean, t.InvStd = a.X, a.Y, a.Add, a.Scale, a.Bias, a.Mean, a.InvStd
		t.RunMean, t.RunVar, t.Mask, t.Workspace = a.RunningMean, a.RunningVar, a.Mask, workspace
		return f.gpu.kernels.BatchNorm(s, t)
	})
	if err != nil {
		return nil, err
	}
	if f.forward == nil {
		f.forward = make(map[cudnn.Norm]normPlan)
	}
	f.forward[q] = p
	return p, nil
}

// libraryGrad is the library's way to the gradient of a normalisation of an image like x, or nil if
// ours is to be taken. Behind a ReLU it reads a mask.
func (f *norms) libraryGrad(x *plan.Value, mask, dadd bool) (normGradPlan, error) {
	if !f.gpu.norms || len(x.Shape) != 4 || lanesOf(x) != x.Shape[1] || dadd && !mask || mask && x.Shape[1]%8 != 0 {
		return nil, nil
	}
	c := x.Shape[1]
	q := cudnn.NormGrad{N: x.Shape[0], C: c, H: x.Shape[2], W: x.Shape[3], Type: dnnType(typeOf(x)), Mask: mask, DAdd: dadd}
	if p, ok := f.grads[q]; ok {
		return p, nil
	}
	b := kernels.BatchNormGrad{Type: typeOf(x), Rows: x.Len() / c, C: c}
	p, err := f.gpu.vendor.normGrad(q, f.gpu.kernels.BatchNormWorkspace(c), func(s drv.Stream, workspace drv.Ptr, a cudnn.NormGradArgs) error {
		t := b
		t.X, t.DY, t.Mask, t.Gamma, t.Mean, t.InvStd = a.X, a.DY, a.Mask, a.Scale, a.Mean, a.InvStd
		t.DX, t.DAdd, t.DGamma, t.DBeta, t.Workspace = a.DX, a.DAdd, a.DScale, a.DBias, workspace
		return f.gpu.kernels.BatchNormGrad(s, t)
	})
	if err != nil {
		return nil, err
	}
	if f.grads == nil {
		f.grads = make(map[cudnn.NormGrad]normGradPlan)
	}
	f.grads[q] = p
	return p, nil
}

// norm is the library's fastest way to normalise if it is faster than ours, else nil. Ours gets the
// memory of a question as the library's does; room is what it needs besides.
func (l *libraries) norm(n cudnn.Norm, room int64, ours func(s drv.Stream, workspace drv.Ptr, a cudnn.NormArgs) error) (normPlan, error) {
	p, err := l.tuner.Norm(n)
	if err != nil && cudnn.Refused(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}

	// It reads one more image, which is never faster.
	if p.Norm().Zeros {
		return nil, p.Close()
	}
	image, channel := int64(n.N)*int64(n.C)*int64(n.H)*int64(n.W), 4*int64(n.C)
	bytes := image * n.Type.Size()
	args := func(m []drv.Ptr) cudnn.NormArgs {
		a := cudnn.NormArgs{X: m[1], Y: m[2], Scale: m[3], Bias: m[4], Mean: m[5], InvStd: m[6], RunningMean: m[7], RunningVar: m[8]}
		if n.Add {
			a.Add = m[9]
		}
		if n.Mask {
			a.Mask = m[10]
		}
		return a
	}
	faster, err := l.faster(n.String(), p.Engine(), []int64{max(1, room, p.Workspace()), bytes, bytes, channel, channel, channel, channel, channel, channel, bytes, (image + 7) / 8},
		func(s drv.Stream, m []drv.Ptr) error { return p.Run(s, m[0], args(m)) },
		func(s drv.Stream, m []drv.Ptr) error { return ours(s, m[0], args(m)) })
	if err != nil || !faster {
		return nil, errors.Join(err, p.Close())
	}
	return p, nil
}

// normGrad is norm for the gradient.
func (l *libraries) normGrad(n cudnn.NormGrad, room int64, ours func(s drv.Stream, workspace drv.Ptr, a cudnn.NormGradArgs) error) (normGradPlan, error) {
	p, err := l.tuner.NormGrad(n)
	if err != nil && cudnn.Refused(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	image, channel := int64(n.N)*int64(n.C)*int64(n.H)*int64(n.W), 4*int64(n.C)
	bytes := image * n.Type.Size()
	args := func(m []drv.Ptr) cudnn.NormGradArgs {
		a := cudnn.NormGradArgs{X: m[1], DY: m[2], DX: m[3], Scale: m[4], Mean: m[5], InvStd: m[6], DScale: m[7], DBias: m[8]}
		if n.Mask {
			a.Mask = m[9]
		}
		if n.DAdd {
			a.DAdd = m[10]
		}
		return a
	}
	faster, err := l.faster(n.String(), p.Engine(), []int64{max(1, room, p.Workspace()), bytes, bytes, bytes, channel, channel, channel, channel, channel, (image + 7) / 8, bytes},
		func(s drv.Stream, m []drv.Ptr) error { return p.Run(s, m[0], args(m)) },
		func(s drv.Stream, m []drv.Ptr) error { return ours(s, m[0], args(m)) })
	if err != nil || !faster {
		return nil, errors.Join(err, p.Close())
	}
	return p, nil
}

// faster reports whether the first of two ways, the library's engine, takes less time than ours, on
// scratch memory of these sizes. Where nothing is measured it does.
func (l *libraries) faster(question, engine string, sizes []int64, first, second func(s drv.Stream, m []drv.Ptr) error) (bool, error) {
	if l.tuner.Repeat == 0 {
		return true, nil
	}
	ours, err := l.remembered("ours or "+engine+" for "+question, [2]string{engine, "ours"}, func() (bool, error) {
		yes, err := l.measureFaster(sizes, first, second)
		return !yes, err
	})
	return !ours && err == nil, err
}

// measureFaster is faster by measuring. Memory is filled with one byte, of which all types make
// small numbers, so that no way meets infinities that it would not meet in a step.
func (l *libraries) measureFaster(sizes []int64, first, second func(s drv.Stream, m []drv.Ptr) error) (yes bool, err error) {
	m := make([]drv.Ptr, len(sizes))
	defer func() {
		for _, at := range m {
			if at != 0 {
				err = errors.Join(err, l.gpu.context.Free(at))
			}
		}
	}()
	s := l.gpu.compute
	for i, n := range sizes {
		if m[i], err = l.gpu.malloc("trying kernels", n); err != nil {
			return false, err
		}
		if err := l.gpu.context.Memset8(m[i], 0x3c, n, s); err != nil {
			return false, err
		}
	}
	ways := []*way{{"the library's", func() error { return first(s, m) }}, {"ours", func() error { return second(s, m) }}}
	best, timings, err := cudnn.Tune(l.ctx, s, ways, func(w *way) error { return w.run() }, l.tuner.Repeat)
	if err != nil {
		return false, fmt.Errorf("cuda: %w", err)
	}
	l.tuner.Log("cuda: a normalisation takes %v in cuDNN and %v in our kernels", timings[0].Time, timings[1].Time)
	return best == ways[0], nil
}
