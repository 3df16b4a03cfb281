package cudnn

import (
	"fmt"

	"github.com/paragon-train/paragon/internal/compute/cuda/drv"
)

// A NormGrad is a question: the gradient of a Norm in one pass (the library's pattern
// DReluForkDNorm), with M = N·H·W and x̂ = (x−mean_c)·invstd_c:
//
//	dt = dy where the mask is set, else 0     (dt = dy without Mask)
//	dbias_c = Σ dt;  dscale_c = Σ dt·x̂
//	dx = scale_c·invstd_c·(dt − dbias_c/M − x̂·dscale_c/M)
//
// dt is also the gradient of what was added; DAdd writes it.
type NormGrad struct {
	N, C, H, W int

	// Type is that of x, dy, dx and dadd.
	Type DType

	// Mask says that the Norm had ReLU and wrote a mask.
	Mask bool

	// DAdd asks for dt too. It wants Mask.
	DAdd bool

	NonDeterministic bool // as in Conv
}

func (n NormGrad) String() string {
	text := fmt.Sprintf("batch normalisation's gradient of N%d C%d H%d W%d %v", n.N, n.C, n.H, n.W, n.Type)
	for _, f := range []struct {
		on   bool
		text string
	}{{n.Mask, ", mask"}, {n.DAdd, ", dadd"}, {n.NonDeterministic, ", nondeterministic"}} {
		if f.on {
			text += f.text
		}
	}
	return text
}

// Validate names the field that no gradient can have, its value and the rule.
func (n NormGrad) Validate() error {
	if err := checkImages(n, n.N, n.C, n.H, n.W, n.Type); err != nil {
		return err
	}
	if n.DAdd && !n.Mask {
		return fmt.Errorf("cudnn: %v: DAdd is set without Mask: the gradient of what was added is dy itself", n)
	}
	return checkMask(n, n.Mask, n.N, n.C, n.H, n.W)
}

// NormGradArgs is the memory of a NormGrad. What the question does not have is not read.
type NormGradArgs struct {
	X, DY drv.Ptr // (N,H,W,C)

	// Mask is as NormArgs.Mask.
	Mask drv.Ptr

	Scale, Mean, InvStd drv.Ptr // (C), float32
	DX, DAdd            drv.Ptr // (N,H,W,C), written
	DScale, DBias       drv.Ptr // (C), float32, written
}

// A NormGradPlan is one engine's way to do a NormGrad.
type NormGradPlan struct {
	plan
	norm NormGrad
}

// NormGrad is the question.
func (p *NormGradPlan) NormGrad() NormGrad { return p.norm }

// Run enqueues the plan on s, as Plan.Run does.
func (p *NormGradPlan) Run(s drv.Stream, workspace drv.Ptr, a NormGradArgs) error {
	return p.run(s, workspace, p.norm.pointers(a)...)
}

// pointers are in the order in which normGradGraph makes the tensors.
func (n NormGrad) pointers(a NormGradArgs) []drv.Ptr {
	ps := []drv.Ptr{a.X, a.DY, a.Scale, a.Mean, a.InvStd, a.DX, a.DScale, a.DBias}
	if n.Mask {
		ps = append(ps, a.Mask)
	}
	if n.DAdd {
		ps = append(ps, a.DAdd)
	}
	return ps
}

// NormAddReLUGrad gives the built plans for a NormGrad, in the heuristics' order.
func (h *Handle) NormAddReLUGrad(n NormGrad) ([]*NormGradPlan, error) {
	plans, err := h.NormGradCandidates(n)
	if err != nil {
		return nil, err
	}
	return keepBuilt(plans, 0, n.String())
}

// NormGradCandidates gives the plans for a NormGrad before they are built.
func (h *Handle) NormGradCandidates(n NormGrad) ([]*NormGradPlan, error) {
	if err := n.Validate(); err != nil {
		return nil, err
	}
	g, err := h.normGradGraph(n)
	if err != nil {
		return nil, err
	}
	found, err := h.candidates(g, wish{deterministic: !n.NonDeterministic})
	if err != nil {
		return nil, err
	}
	plans := make([]*NormGradPlan, len(found))
	for i, p := range found {
		plans[i] = &NormGradPlan{plan: p, norm: n}
	}
	return plans, nil
}

func (h *Handle) normGradGraph(n NormGrad) (*graph, error) {
	b := h.newGraph(n.String())
	images := func(name string, t DType) tensor { return image(name, t, n.N, n.C, n.H, n.W) }

	x, dy := b.tensor(images("x", n.Type)), b.tensor(images("dy", n.Type))
	scale := b.tensor(channels("scale", n.C))
	mean, invstd := b.tensor(channels("mean", n.C)), b.tensor(channels("invstd", n.C))
	dx := b.tensor(images("dx", n.Type))
	dscale, dbias := b.tensor(channels("dscale", n.C)), b.tensor(channels("dbias", n.C))

	dt := dy
	if n.Mask {
		mask := b.tensor(images("mask", boolean))
		// Also where it exists nowhere it has the storage type: so it is in the form that
		// is known to work.
		masked := images("dadd", n.Type)
		masked.virtual = !n.DAdd
		dt = b.tensor(masked)
		b.pointwise(pointwiseMul, dy, mask, dt)
	}
	d := b.begin(normBackwardDescriptor)
	b.enum(d, attrNormBwdMode, typeNormMode, normBatch)
	b.link(d, attrNormBwdX, x)
	b.link(d, attrNormBwdMean, mean)
	b.link(d, attrNormBwdInvVariance, invstd)
	b.link(d, attrNormBwdDY, dt)
	b.link(d, attrNormBwdScale, scale)
	b.link(d, attrNormBwdDScale, dscale)
	b.link(d, attrNormBwdDBias, dbias)
	b.link(d, attrNormBwdDX, dx)
	b.operation(d, normBackwardDescriptor)
	return b.finish()
}
