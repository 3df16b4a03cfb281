package cuda

import (
	"errors"
	"fmt"

	"github.com/paragon-train/paragon/internal/compute/cuda/cudnn"
	"github.com/paragon-train/paragon/internal/compute/cuda/drv"
	"github.com/paragon-train/paragon/internal/compute/cuda/kernels"
	"github.com/paragon-train/paragon/internal/compute/op"
	"github.com/paragon-train/paragon/internal/compute/plan"
)

// batchNorm is op.BatchNorm2D with the residual and the ReLU that follow.
func (l *lowering) batchNorm() (lowered, error) {
	o, e := l.o, l.e
	bn := o.Attr.(*op.BatchNorm2D)
	state := e.host.States[bn.State.Name]
	if state == nil || e.store.states[state] == nil {
		return lowered{}, fmt.Errorf("there is no state %q", bn.State.Name)
	}
	c := o.In[0].Channels()
	b := kernels.BatchNorm{Type: typeOf(o.In[0]), Rows: o.In[0].Len() / c, C: c, ReLU: o.ReLU, Eps: bn.Eps, Momentum: bn.Momentum}
	bind := func() {
		b.X, b.Y, b.Gamma, b.Beta = e.at(o.In[0]), e.at(o.Out[0]), e.at(o.In[1]), e.at(o.In[2])
		if len(o.In) > 3 {
			b.Add = e.at(o.In[3])
		}
		b.RunMean, b.RunVar = e.store.mean(state), e.store.variance(state)
	}
	if e.plan.Inference || o.Frozen {
		return l.done(func() launch {
			bind()
			return func(s drv.Stream) error { return e.gpu.kernels.BatchNormEval(s, b) }
		}), nil
	}
	masked := len(o.In) > 3

	// The library's gradient would not compute it anew.
	if !masked && o.ReLU && c%8 == 0 {
		p, err := e.dnnNormGrad(o.In[0], true, false)
		if err != nil {
			return lowered{}, err
		}
		masked = p != nil
	}
	if masked && o.ReLU && c%8 == 0 && e.gradientReads(o) {
		var err error
		if b.Mask, err = e.allocate("masks of ReLUs", (int64(b.Rows)*int64(c)+7)/8); err != nil {
			return lowered{}, err
		}
		e.masks[o.Out[0]] = b.Mask
	}
	p, err := e.dnnNorm(o.In[0], b, len(o.In) > 3, b.Mask != 0)
	if err != nil {
		return lowered{}, err
	}
	if p != nil {
		l.workspace, o.Apart = max(l.workspace, p.Workspace()), true
	}
	lone, err := l.lone(o.In[0], bn)
	if err != nil {
		return lowered{}, err
	}
	workspace := l.room(e.gpu.kernels.BatchNormWorkspace(c))

	// own is room for statistics that no gradient reads.
	own := l.room(8 * int64(c))
	return l.done(func() launch {
		bind()
		b.Workspace, b.Mean, b.InvStd = workspace(), own(), own()+drv.Ptr(4*c)
		if o.Out[1] != nil {
			b.Mean = e.at(o.Out[1])
		}
		if o.Out[2] != nil {
			b.InvStd = e.at(o.Out[2])
		}
		a := cudnn.NormArgs{X: b.X, Add: b.Add, Scale: b.Gamma, Bias: b.Beta, Y: b.Y, Mask: b.Mask, Mean: b.Mean, InvStd: b.InvStd, RunningMean: b.RunMean, RunningVar: b.RunVar}
		images := o.In[0].Shape[0]
		return func(s drv.Stream) error {
			switch there := e.rows(images); {
			case there == 1 && lone != nil:
				return lone.run(s, b)
			case there < images:
				return e.shortNorm(s, b, images, there)
			case p != nil:
				return p.Run(s, e.store.workspace.device, a)
			}
			return e.gpu.kernels.BatchNorm(s, b)
		}
	}), nil
}

// gradientReads reports whether a normalisation's gradient reads the result of o.
func (e *Executor) gradientReads(o *plan.Op) bool {
	for _, g := range e.plan.Ops {
		if g.Kind == plan.BatchNormGrad && g.In[5] == o.Out[0] {
			return true
		}
	}
	return false
}

// batchNormGrad is op.BatchNorm2DGrad with the gradient of the ReLU behind the normalisation. Where
// nothing was added in front of the ReLU, what it let through is computed anew, else it has been
// written down as bits: its result is not read.
func (l *lowering) batchNormGrad() (lowered, error) {
	o, e := l.o, l.e
	if o.Frozen {
		return lowered{}, errors.New("gradients pass through a frozen batch normalisation, which GPUs do not do yet: freeze the layers in front of it as well, or leave it out of nn.Config.Freeze")
	}
	c := o.In[0].Channels()
	b := kernels.BatchNormGrad{Type: typeOf(o.In[0]), Rows: o.In[0].Len() / c, C: c}
	workspace := l.room(e.gpu.kernels.BatchNormWorkspace(c))
	beta, mask, dadd := e.betaOf(o), e.masks[o.In[5]], len(o.Out) > 3 && o.Out[3] != nil
	if dadd {
		beta = nil
	}
	var p normGradPlan
	if o.Out[0] != nil && o.Out[1] != nil && o.Out[2] != nil && (o.In[5] == nil || mask != 0) {
		var err error
		if p, err = e.dnnNormGrad(o.In[0], o.In[5] != nil, dadd); err != nil {
			return lowered{}, err
		}
	}
	if p != nil {
		l.workspace, o.Apart = max(l.workspace, p.Workspace()), true
	}
	bn, err := e.normOf(o)
	if err != nil {
		return lowered{}, err
	}
	lone, err := l.lone(o.In[0], bn)
	if err != nil {
		return lowered{}, err
	}
	return l.done(func() launch {
		b.X, b.Gamma, b.Mean, b.InvStd, b.DY = e.at(o.In[0]), e.at(o.In[1]), e.at(o.In[2]), e.at(o.In[3]), e.at(o.In[4])
		switch {
		case beta != nil:
			b.Beta = e.at(beta)
		case mask != 0:
			b.Mask = mask
		default:
			b.Y = e.at(o.In[5])
		}
		b.DX, b.DGamma, b.DBeta = e.at(o.Out[0]), e.at(o.Out[1]), e.at(o.Out[2])
		if len(o.Out) > 3 {
			b.DAdd = e.at(o.Out[3])
		}
		b.Workspace = workspace()
		a := cudnn.NormGradArgs{X: b.X, DY: b.DY, Mask: mask, Scale: b.Gamma, Mean: b.Mean, InvStd: b.InvStd, DX: b.DX, DAdd: b.DAdd, DScale: b.DGamma, DBias: b.DBeta}
		images := o.In[0].Shape[0]
		return func(s drv.Stream) error {
			switch there := e.rows(images); {
			case there < images:
				return e.shortNormGrad(s, b, lone, images, there)
			case p != nil:
				return p.Run(s, e.store.workspace.device, a)
			}
			return e.gpu.kernels.BatchNormGrad(s, b)
		}
	}), nil
}

// betaOf is the beta of the normalisation whose gradient o is, if nothing was added to its result
// and if beta may still be read: its value may change as soon as its gradient is ready, which is
// not before o where o makes it.
func (e *Executor) betaOf(o *plan.Op) *plan.Value {
	if o.In[5] == nil {
		return nil
	}
	for _, f := range e.plan.Ops {
		if f.Kind == plan.BatchNorm && len(f.Out) > 1 && f.Out[1] == o.In[2] && len(f.In) == 3 && f.Out[0] == o.In[5] {
			if beta := f.In[2].Root(); beta.Source != plan.Parameter || o.Out[2] != nil && o.Out[2].Root().Source == plan.Gradient && o.Out[2].Root().Index == beta.Index {
				return f.In[2]
			}
		}
	}
	return nil
}
