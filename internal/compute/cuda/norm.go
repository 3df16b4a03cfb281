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

// A norms has the launches of batch normalisation and of its gradient.
type norms struct {
	gpu      *GPU
	plan     *plan.Plan
	store    *store
	states   map[string]*plan.State
	owned    *owned
	examples *examples

	// forward and grads are the library's plans that were chosen over our own kernels, by question;
	// nil: ours were.
	forward map[cudnn.Norm]normPlan
	grads   map[cudnn.NormGrad]normGradPlan

	// masks are those of results of ReLUs: a bit for each number.
	masks map[*plan.Value]drv.Ptr
}

func (f *norms) lowerers() lowerers {
	return lowerers{plan.BatchNorm: f.batchNorm, plan.BatchNormGrad: f.batchNormGrad}
}

func (f *norms) close() error {
	var errs []error
	for _, p := range f.forward {
		if p != nil {
			errs = append(errs, p.Close())
		}
	}
	for _, p := range f.grads {
		if p != nil {
			errs = append(errs, p.Close())
		}
	}
	f.forward, f.grads = nil, nil
	return errors.Join(errs...)
}

// batchNorm is op.BatchNorm2D with the residual and the ReLU that follow.
func (f *norms) batchNorm(l *lowering) (lowered, error) {
	o := l.o
	bn := o.Attr.(*op.BatchNorm2D)
	state := f.states[bn.State.Name]
	if state == nil || f.store.states[state] == nil {
		return lowered{}, fmt.Errorf("there is no state %q", bn.State.Name)
	}
	c := o.In[0].Channels()
	b := kernels.BatchNorm{Type: typeOf(o.In[0]), Rows: o.In[0].Len() / c, C: c, ReLU: o.ReLU, Eps: bn.Eps, Momentum: bn.Momentum}
	if f.plan.Inference || o.Frozen {
		return l.done(func() launch {
			f.placeForward(l, &b, state)
			return func(s drv.Stream) error { return f.gpu.kernels.BatchNormEval(s, b) }
		}), nil
	}
	var err error
	if b.Mask, err = f.maskOf(o, b.Rows); err != nil {
		return lowered{}, err
	}
	p, err := f.library(o.In[0], b, len(o.In) > 3, b.Mask != 0)
	if err != nil {
		return lowered{}, err
	}
	if p != nil {
		l.workspace, o.Apart = max(l.workspace, p.Workspace()), true
	}
	lone, err := f.lone(o.In[0], bn)
	if err != nil {
		return lowered{}, err
	}
	workspace := l.room(f.gpu.kernels.BatchNormWorkspace(c))

	// own is room for statistics that no gradient reads.
	own := l.room(8 * int64(c))
	return l.done(func() launch {
		f.placeForward(l, &b, state)
		b.Workspace, b.Mean, b.InvStd = workspace(), own(), own()+drv.Ptr(4*c)
		if o.Out[1] != nil {
			b.Mean = l.at(o.Out[1])
		}
		if o.Out[2] != nil {
			b.InvStd = l.at(o.Out[2])
		}
		a := cudnn.NormArgs{X: b.X, Add: b.Add, Scale: b.Gamma, Bias: b.Beta, Y: b.Y, Mask: b.Mask, Mean: b.Mean, InvStd: b.InvStd, RunningMean: b.RunMean, RunningVar: b.RunVar}
		images := o.In[0].Shape[0]
		return func(s drv.Stream) error {
			switch there := f.examples.rows(images); {
			case there == 1 && lone != nil:
				return lone.run(s, b)
			case there < images:
				return f.short(s, b, images, there)
			case p != nil:
				return p.Run(s, l.workspaceAt(), a)
			}
			return f.gpu.kernels.BatchNorm(s, b)
		}
	}), nil
}

// placeForward sets where arguments, result and running statistics lie.
func (f *norms) placeForward(l *lowering, b *kernels.BatchNorm, state *plan.State) {
	o := l.o
	b.X, b.Y, b.Gamma, b.Beta = l.at(o.In[0]), l.at(o.Out[0]), l.at(o.In[1]), l.at(o.In[2])
	if len(o.In) > 3 {
		b.Add = l.at(o.In[3])
	}
	b.RunMean, b.RunVar = f.store.mean(state), f.store.variance(state)
}

// maskOf is memory for what the ReLU behind a normalisation lets through, a bit for each number; 0
// where its gradient reads no mask: it can compute that anew, or reads the result.
func (f *norms) maskOf(o *plan.Op, rows int) (drv.Ptr, error) {
	c := o.In[0].Channels()
	masked := len(o.In) > 3

	// The library's gradient would not compute it anew.
	if !masked && o.ReLU && c%8 == 0 {
		p, err := f.libraryGrad(o.In[0], true, false)
		if err != nil {
			return 0, err
		}
		masked = p != nil
	}
	if !masked || !o.ReLU || c%8 != 0 || !f.gradientReads(o) {
		return 0, nil
	}
	mask, err := f.owned.allocate("masks of ReLUs", (int64(rows)*int64(c)+7)/8)
	if err != nil {
		return 0, err
	}
	f.masks[o.Out[0]] = mask
	return mask, nil
}

// gradientReads reports whether a normalisation's gradient reads the result of o.
func (f *norms) gradientReads(o *plan.Op) bool {
	for _, g := range f.plan.Ops {
		if g.Kind == plan.BatchNormGrad && g.In[5] == o.Out[0] {
			return true
		}
	}
	return false
}
