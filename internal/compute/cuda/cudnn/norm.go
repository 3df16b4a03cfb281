package cudnn

import (
	"errors"
	"fmt"
	"math"

	"github.com/paragon-train/paragon/internal/compute/cuda/drv"
)

// A Norm is a question: batch normalisation in training with what usually follows it, in one pass
// (the library's pattern NormAddRelu), of images (N,H,W,C):
//
//	m_c = mean over n,h,w of x;  v_c = mean of (x−m_c)², biased
//	t = scale_c·(x−m_c)·invstd_c + bias_c,   invstd_c = 1/√(v_c+Epsilon)
//	y = max(t + add, 0), the addition and the maximum each if asked for
//
// The library wants C to be a multiple of 8 for 16-bit types and of 4 for float32; others are not
// supported.
type Norm struct {
	N, C, H, W int

	// Type is that of x, add and y. All that is per channel is float32.
	Type DType

	Add  bool // add another tensor before ReLU
	ReLU bool

	// Mask asks for which y are positive, a bit each. It wants ReLU.
	Mask bool

	// Running also moves the running statistics, in place, with M = N·H·W:
	//
	//	mean ← (1−Momentum)·mean + Momentum·m_c
	//	var  ← (1−Momentum)·var  + Momentum·v_c·M/(M−1)
	Running bool

	Epsilon, Momentum float32

	// Zeros makes the mask by comparing with a tensor of zeros, like x, that the caller
	// supplies, in place of with a number: the form that is known to work. NormAddReLU tries
	// both.
	Zeros bool

	NonDeterministic bool // as in Conv
}

func (n Norm) String() string {
	text := fmt.Sprintf("batch normalisation of N%d C%d H%d W%d %v", n.N, n.C, n.H, n.W, n.Type)
	for _, f := range []struct {
		on   bool
		text string
	}{{n.Add, ", add"}, {n.ReLU, ", relu"}, {n.Mask, ", mask"}, {n.Mask && n.Zeros, " by zeros"}, {n.Running, ", running"},
		{n.NonDeterministic, ", nondeterministic"}} {
		if f.on {
			text += f.text
		}
	}
	return text
}

// Validate names the field that no normalisation can have, its value and the rule.
func (n Norm) Validate() error {
	if err := checkImages(n, n.N, n.C, n.H, n.W, n.Type); err != nil {
		return err
	}
	if !(n.Epsilon > 0) {
		return fmt.Errorf("cudnn: %v: Epsilon is %g, want more than 0", n, n.Epsilon)
	}
	if n.Running && !(n.Momentum >= 0 && n.Momentum <= 1) {
		return fmt.Errorf("cudnn: %v: Momentum is %g, want 0 to 1", n, n.Momentum)
	}
	if n.Mask && !n.ReLU {
		return fmt.Errorf("cudnn: %v: Mask is set without ReLU", n)
	}
	return checkMask(n, n.Mask, n.N, n.C, n.H, n.W)
}

func checkImages(what fmt.Stringer, n, c, h, w int, t DType) error {
	for i, v := range [...]int{n, c, h, w} {
		if v < 1 || v > 1<<31-1 {
			return fmt.Errorf("cudnn: %v: %c is %d, want 1 to %d", what, "NCHW"[i], v, 1<<31-1)
		}
	}
	if err := t.check("Type"); err != nil {
		return fmt.Errorf("cudnn: %v: %w", what, err)
	}
	return nil
}

func checkMask(what fmt.Stringer, mask bool, n, c, h, w int) error {
	if mask && int64(n)*int64(c)*int64(h)*int64(w)%8 != 0 {
		return fmt.Errorf("cudnn: %v: the mask has %d bits, want a multiple of 8", what, int64(n)*int64(c)*int64(h)*int64(w))
	}
	return nil
}

// NormArgs is the memory of a Norm. What the question does not have is not read.
type NormArgs struct {
	X, Add, Zeros drv.Ptr // (N,H,W,C)
	Scale, Bias   drv.Ptr // (C), float32
	Y             drv.Ptr // (N,H,W,C), written

	// Mask gets N·H·W·C bits in the order of y, lowest bit first.
	Mask drv.Ptr

	Mean, InvStd            drv.Ptr // (C), float32, written
	RunningMean, RunningVar drv.Ptr // (C), float32, read and written
}

// A NormPlan is one engine's way to do a Norm.
type NormPlan struct {
	plan
	norm Norm
}

// Norm is the question. If its Zeros and Mask are set, Run wants NormArgs.Zeros.
func (p *NormPlan) Norm() Norm { return p.norm }

// Run enqueues the plan on s, as Plan.Run does.
func (p *NormPlan) Run(s drv.Stream, workspace drv.Ptr, a NormArgs) error {
	return p.run(s, workspace, p.norm.pointers(a)...)
}

// pointers are in the order in which normGraph makes the tensors.
func (n Norm) pointers(a NormArgs) []drv.Ptr {
	ps := []drv.Ptr{a.X, a.Scale, a.Bias, a.Mean, a.InvStd}
	if n.Running {
		ps = append(ps, a.RunningMean, a.RunningVar, a.RunningMean, a.RunningVar)
	}
	if n.Add {
		ps = append(ps, a.Add)
	}
	ps = append(ps, a.Y)
	if n.Mask {
		if n.Zeros {
			ps = append(ps, a.Zeros)
		}
		ps = append(ps, a.Mask)
	}
	return ps
}

// NormAddReLU gives the built plans for a Norm, in the heuristics' order. If a mask cannot be made
// by comparing with a number it gives those that compare with Zeros.
func (h *Handle) NormAddReLU(n Norm) ([]*NormPlan, error) {
	plans, err := h.NormCandidates(n)
	if err == nil {
		plans, err = keepBuilt(plans, 0, n.String())
	}
	if n.Mask && !n.Zeros && errors.Is(err, ErrNotSupported) {
		n.Zeros = true
		more, err2 := h.NormAddReLU(n)
		if err2 != nil {
			return nil, errors.Join(err, err2)
		}
		return more, nil
	}
	return plans, err
}

// NormCandidates gives the plans for exactly this Norm before they are built.
func (h *Handle) NormCandidates(n Norm) ([]*NormPlan, error) {
	if err := n.Validate(); err != nil {
		return nil, err
	}
	g, err := h.normGraph(n)
	if err != nil {
		return nil, err
	}
	found, err := h.candidates(g, wish{deterministic: !n.NonDeterministic})
	if err != nil {
		return nil, err
	}
	return h.normPlans(n, found), nil
}

// normPlans gives plans of a Norm's graph the numbers that the host passes.
func (h *Handle) normPlans(n Norm, found []plan) []*NormPlan {
	plans := make([]*NormPlan, len(found))
	for i, p := range found {
		// In the order in which normGraph makes the scalars.
		p.values = &[maxValues]float32{n.Epsilon}
		if n.Running {
			// What follows is the 0 of the mask.
			p.values[1] = n.Momentum
		}
		plans[i] = &NormPlan{plan: p, norm: n}
	}
	return plans
}

// normGraph makes the operations of a Norm. The order of its tensors is that of Norm.pointers and,
// of the numbers that the host passes, that of normPlans.
func (h *Handle) normGraph(n Norm) (*graph, error) {
	b := h.newGraph(n.String())
	x := b.tensor(n.image("x", n.Type))
	scale, bias := b.tensor(channels("scale", n.C)), b.tensor(channels("bias", n.C))
	mean, invstd := b.tensor(channels("mean", n.C)), b.tensor(channels("invstd", n.C))
	epsilon := b.tensor(scalar("epsilon"))
	running := b.runningOf(n)
	var add descriptor

	// Between operations values are float32 and exist nowhere. The last one is y.
	steps := 0
	if n.Add {
		steps++
	}
	if n.ReLU {
		steps++
	}
	value := func() descriptor {
		if steps == 0 {
			return b.tensor(n.image("y", n.Type))
		}
		steps--
		return b.tensor(n.image("", Float32).asVirtual())
	}
	if n.Add {
		add = b.tensor(n.image("add", n.Type))
	}
	t := value()

	d := b.begin(normForwardDescriptor)
	b.enum(d, attrNormFwdMode, typeNormMode, normBatch)
	b.enum(d, attrNormFwdPhase, typeNormPhase, normPhaseTraining)
	for _, l := range []struct {
		a attribute
		t descriptor
	}{
		{attrNormFwdX, x}, {attrNormFwdMean, mean}, {attrNormFwdInvVariance, invstd},
		{attrNormFwdScale, scale}, {attrNormFwdBias, bias}, {attrNormFwdEpsilon, epsilon},
	} {
		b.link(d, l.a, l.t)
	}
	if n.Running {
		running.link(b, d)
	}
	b.link(d, attrNormFwdY, t)
	b.operation(d, normForwardDescriptor)

	if n.Add {
		sum := value()
		b.pointwise(pointwiseAdd, t, add, sum)
		t = sum
	}
	if n.ReLU {
		y := value()
		b.pointwise(pointwiseReLU, t, 0, y)
		t = y
	}
	if n.Mask {
		zero := scalar("zero")
		if n.Zeros {
			zero = n.image("zeros", n.Type)
		}
		with := b.tensor(zero)
		b.pointwise(pointwiseGreater, t, with, b.tensor(n.image("mask", boolean)))
	}
	return b.finish()
}

// image is a tensor of the question's images.
func (n Norm) image(name string, t DType) tensor { return image(name, t, n.N, n.C, n.H, n.W) }

// A runningTensors has the tensors of running statistics, before and after a step.
type runningTensors struct{ momentum, inMean, inVar, outMean, outVar descriptor }

// runningOf makes the tensors of running statistics, if the question has them.
func (b *builder) runningOf(n Norm) (r runningTensors) {
	if !n.Running {
		return r
	}
	r.momentum = b.tensor(scalar("momentum"))
	r.inMean, r.inVar = b.tensor(channels("running mean", n.C)), b.tensor(channels("running variance", n.C))
	r.outMean, r.outVar = b.tensor(channels("new running mean", n.C)), b.tensor(channels("new running variance", n.C))
	return r
}

func (r runningTensors) link(b *builder, d descriptor) {
	b.link(d, attrNormFwdExpAvgFactor, r.momentum)
	b.link(d, attrNormFwdInRunningMean, r.inMean)
	b.link(d, attrNormFwdInRunningVar, r.inVar)
	b.link(d, attrNormFwdOutRunningMean, r.outMean)
	b.link(d, attrNormFwdOutRunningVar, r.outVar)
}

// pointwise adds y = x op other; other may be 0 for an operation of one argument.
func (b *builder) pointwise(mode int32, x, other, y descriptor) {
	window := b.begin(pointwiseDescriptor)
	b.enum(window, attrPointwiseMode, typePointwiseMode, mode)
	b.enum(window, attrPointwiseMathPrec, typeDataType, int32(Float32))
	if mode == pointwiseReLU {
		// max(x, 0), and what is not a number stays so: without this the library makes 0 of
		// it, and a step that went wrong looks well.
		b.enum(window, attrPointwiseNaN, typeNaN, propagateNaN)
		b.double(window, attrPointwiseLower, 0)
		b.double(window, attrPointwiseUpper, math.MaxFloat32)
		b.double(window, attrPointwiseSlope, 0)
	}
	b.end(window, pointwiseDescriptor)
	d := b.begin(pointwiseOpDescriptor)
	b.link(d, attrPointwiseDescriptor, window)
	b.link(d, attrPointwiseX, x)
	if other != 0 {
		b.link(d, attrPointwiseB, other)
	}
	b.link(d, attrPointwiseY, y)
	b.float(d, attrPointwiseAlpha1, 1)
	b.float(d, attrPointwiseAlpha2, 1)
	b.operation(d, pointwiseOpDescriptor)
}
