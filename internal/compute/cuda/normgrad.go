package cuda

import (
	"errors"

	"github.com/paragon-train/paragon/internal/compute/cuda/cudnn"
	"github.com/paragon-train/paragon/internal/compute/cuda/drv"
	"github.com/paragon-train/paragon/internal/compute/cuda/kernels"
	"github.com/paragon-train/paragon/internal/compute/plan"
)

// batchNormGrad is op.BatchNorm2DGrad with the gradient of the ReLU behind the normalisation. Where
// nothing was added in front of the ReLU, what it let through is computed anew, else it has been
// written down as bits: its result is not read.
func (f *norms) batchNormGrad(l *lowering) (lowered, error) {
	o := l.o
	if o.Frozen {
		return lowered{}, errors.New("gradients pass through a frozen batch normalisation, which GPUs do not do yet: freeze the layers in front of it as well, or leave it out of nn.Config.Freeze")
	}
	c := o.In[0].Channels()
	b := kernels.BatchNormGrad{Type: typeOf(o.In[0]), Rows: o.In[0].Len() / c, C: c}
	workspace := l.room(f.gpu.kernels.BatchNormWorkspace(c))
	beta, mask, dadd := f.betaOf(o), f.masks[o.In[5]], len(o.Out) > 3 && o.Out[3] != nil
	if dadd {
		beta = nil
	}
	var p normGradPlan
	if o.Out[0] != nil && o.Out[1] != nil && o.Out[2] != nil && (o.In[5] == nil || mask != 0) {
		var err error
		if p, err = f.libraryGrad(o.In[0], o.In[5] != nil, dadd); err != nil {
			return lowered{}, err
		}
	}
	if p != nil {
		l.workspace, o.Apart = max(l.workspace, p.Workspace()), true
	}
	bn, err := f.of(o)
	if err != nil {
		return lowered{}, err
	}
	lone, err := f.lone(o.In[0], bn)
	if err != nil {
		return lowered{}, err
	}
	return l.done(func() launch {
		placeGrad(l, &b)
		switch {
		case beta != nil:
			b.Beta = l.at(beta)
		case mask != 0:
			b.Mask = mask
		default:
			b.Y = l.at(o.In[5])
		}
		b.Workspace = workspace()
		a := cudnn.NormGradArgs{X: b.X, DY: b.DY, Mask: mask, Scale: b.Gamma, Mean: b.Mean, InvStd: b.InvStd, DX: b.DX, DAdd: b.DAdd, DScale: b.DGamma, DBias: b.DBeta}
		images := o.In[0].Shape[0]
		return func(s drv.Stream) error {
			switch there := f.examples.rows(images); {
			case there < images:
				return f.shortGrad(s, b, lone, images, there)
			case p != nil:
				return p.Run(s, l.workspaceAt(), a)
			}
			return f.gpu.kernels.BatchNormGrad(s, b)
		}
	}), nil
}

// placeGrad sets where arguments and results lie, but for what tells what the ReLU let through.
func placeGrad(l *lowering, b *kernels.BatchNormGrad) {
	o := l.o
	b.X, b.Gamma, b.Mean, b.InvStd, b.DY = l.at(o.In[0]), l.at(o.In[1]), l.at(o.In[2]), l.at(o.In[3]), l.at(o.In[4])
	b.DX, b.DGamma, b.DBeta = l.at(o.Out[0]), l.at(o.Out[1]), l.at(o.Out[2])
	if len(o.Out) > 3 {
		b.DAdd = l.at(o.Out[3])
	}
}

// betaOf is the beta of the normalisation whose gradient o is, if nothing was added to its result
// and if beta may still be read: its value may change as soon as its gradient is ready, which is
// not before o where o makes it.
func (f *norms) betaOf(o *plan.Op) *plan.Value {
	if o.In[5] == nil {
		return nil
	}
	for _, n := range f.plan.Ops {
		if n.Kind == plan.BatchNorm && len(n.Out) > 1 && n.Out[1] == o.In[2] && len(n.In) == 3 && n.Out[0] == o.In[5] {
			if beta := n.In[2].Root(); beta.Source != plan.Parameter || o.Out[2] != nil && o.Out[2].Root().Source == plan.Gradient && o.Out[2].Root().Index == beta.Index {
				return n.In[2]
			}
		}
	}
	return nil
}
