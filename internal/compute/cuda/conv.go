package cuda

import (
	"fmt"
	"slices"
	"unsafe"

	"github.com/paragon-train/paragon/internal/compute/cuda/cudnn"
	"github.com/paragon-train/paragon/internal/compute/cuda/drv"
	"github.com/paragon-train/paragon/internal/compute/cuda/kernels"
	"github.com/paragon-train/paragon/internal/compute/op"
	"github.com/paragon-train/paragon/internal/compute/plan"
	"gorgonia.org/tensor"
)

// dnnType is a type as cuDNN knows it.
func dnnType(t kernels.Type) cudnn.DType {
	switch t {
	case kernels.BFloat16:
		return cudnn.BFloat16
	case kernels.Float16:
		return cudnn.Float16
	}
	return cudnn.Float32
}

// question is the convolution that an op is a pass of: x and w are its images' and its weights'
// shapes. Channels are padded to whole 16 bytes, which is what the library's fast engines want.
func (l *lowering) question(x, w tensor.Shape, stride, pad [2]int) cudnn.Conv {
	c := l.e.cfg.Type
	t := dnnType(c.typ())
	return cudnn.Conv{N: x[0], C: c.lanes(x[1]), H: x[2], W: x[3], K: c.lanes(w[0]), R: w[2], S: w[3], Pad: pad, Stride: stride,
		In: t, Weight: t, Out: t, TF32: c == TF32}
}

// image gives an image in the type that is multiplied, with padded channels: as it lies, or through
// scratch memory.
func (l *lowering) image(v *plan.Value) func() drv.Ptr {
	e, t, from := l.e, l.e.cfg.Type.typ(), typeOf(v)
	c := v.Shape[1]
	lanes := e.cfg.Type.lanes(c)
	if from == t && lanesOf(v) == lanes {
		return func() drv.Ptr { return e.at(v) }
	}
	rows := v.Len() / c
	room := l.room(int64(rows) * int64(lanes) * t.Size())
	l.before = append(l.before, func() launch {
		src, dst := e.at(v), room()
		return func(s drv.Stream) error { return e.gpu.kernels.ToChannelsLast(s, t, from, rows, c, 1, lanes, dst, src) }
	})
	return room
}

// result is where an image goes that a convolution makes: v's memory, or scratch memory from which
// its channels are taken after.
func (l *lowering) result(v *plan.Value) (at func() drv.Ptr, after []func() launch) {
	e, from, to := l.e, l.e.cfg.Type.typ(), typeOf(v)
	c := v.Shape[1]
	lanes := e.cfg.Type.lanes(c)
	if from == to && lanes == c {
		return func() drv.Ptr { return e.at(v) }, nil
	}
	rows := v.Len() / c
	room := l.room(int64(rows) * int64(lanes) * from.Size())
	return room, []func() launch{func() launch {
		src, dst := room(), e.at(v)
		return func(s drv.Stream) error {
			return e.gpu.kernels.ToChannelsFirst(s, to, from, rows, c, 1, lanes, dst, src)
		}
	}}
}

// weights gives a convolution's weights (K,C,R,S) as (K,R,S,C), padded, in the type that is
// multiplied.
func (l *lowering) weights(v *plan.Value) (func() drv.Ptr, error) {
	return l.operand(v, l.e.tensor(v.Shape))
}

// tensor is the form of weights that the library takes.
func (e *Executor) tensor(w tensor.Shape) kernels.Tensor {
	c := e.cfg.Type
	return kernels.Tensor{Type: c.typ(), K: w[0], C: w[1], R: w[2], S: w[3], PadK: c.lanes(w[0]), PadC: c.lanes(w[1])}
}

// plain reports whether a form is the row-major one.
func plain(t kernels.Tensor) bool {
	return t.Type == kernels.Float32 && t.R*t.S == 1 && t.PadK == t.K && t.PadC == t.C
}

func tensorBytes(t kernels.Tensor) int64 {
	return t.Type.Size() * int64(t.PadK) * int64(t.PadC) * int64(t.R*t.S)
}

// operand gives v, float32 and row-major, in another form. A parameter's copy is made once in a
// run, when its value has come; others' where they are used.
func (l *lowering) operand(v *plan.Value, t kernels.Tensor) (func() drv.Ptr, error) {
	e := l.e
	if from := typeOf(v); from != kernels.Float32 {
		return nil, fmt.Errorf("%q is %v, want f32", v.Name, from)
	}
	if plain(t) {
		return func() drv.Ptr { return e.at(v) }, nil
	}
	r := v.Root()
	if r.Source == plan.Parameter {
		at, err := e.store.copyOf(copyKey{unsafe.SliceData(e.host.Params[r.Index]), t.Type, t.K, t.C, t.R * t.S, t.PadC}, tensorBytes(t))
		if err != nil {
			return nil, err
		}
		t.RowMajor, t.ChannelLast = e.at(v), at
		if !slices.Contains(e.copies[r.Index], t) {
			e.copies[r.Index] = append(e.copies[r.Index], t)
		}
		return func() drv.Ptr { return at }, nil
	}
	room := l.room(tensorBytes(t))
	if t.PadK > t.K {
		filter := drv.Ptr(t.Type.Size() * int64(t.PadC) * int64(t.R*t.S))
		l.before = append(l.before, func() launch {
			from, n := room()+filter*drv.Ptr(t.K), int64(filter)*int64(t.PadK-t.K)
			return func(s drv.Stream) error { return e.gpu.context.Memset8(from, 0, n, s) }
		})
	}
	l.before = append(l.before, func() launch {
		src, dst := e.at(v), room()
		return func(s drv.Stream) error {
			return e.gpu.kernels.ToChannelsLast(s, t.Type, kernels.Float32, t.K, t.C, t.R*t.S, t.PadC, dst, src)
		}
	})
	return room, nil
}

// plan chooses the library's way to do a pass.
func (l *lowering) plan(pass cudnn.Op, c cudnn.Conv) (convPlan, error) {
	p, err := l.e.conv(pass, c)
	if err != nil {
		return nil, err
	}
	l.workspace = max(l.workspace, p.Workspace())
	return p, nil
}

// run is a pass of a convolution.
func (l *lowering) run(p convPlan, x, w, y func() drv.Ptr) func() launch {
	e := l.e
	return func() launch {
		xa, wa, ya := x(), w(), y()
		return func(s drv.Stream) error { return p.Run(s, e.store.workspace.device, xa, wa, ya) }
	}
}

func (l *lowering) conv() (lowered, error) {
	o := l.o
	a := o.Attr.(*op.Conv2D)
	x := l.image(o.In[0])
	w, err := l.weights(o.In[1])
	if err != nil {
		return lowered{}, err
	}
	p, err := l.plan(cudnn.Forward, l.question(o.In[0].Shape, o.In[1].Shape, a.Stride, a.Pad))
	if err != nil {
		return lowered{}, err
	}
	y, after := l.result(o.Out[0])
	return l.done(append([]func() launch{l.run(p, x, w, y)}, after...)...), nil
}

// convData is dx of a convolution, plus what meets it at a residual: by a plan that adds to what
// its memory holds, or in a pass of its own where the library has none or where that is faster.
func (l *lowering) convData() (lowered, error) {
	o, e := l.o, l.e
	a := o.Attr.(*op.Conv2DBackwardData)
	w, err := l.weights(o.In[0])
	if err != nil {
		return lowered{}, err
	}
	dy := l.image(o.In[1])
	p, err := l.plan(cudnn.BackwardData, l.question(a.XShape, o.In[0].Shape, a.Stride, a.Pad))
	if err != nil {
		return lowered{}, err
	}
	dx := o.Out[0]
	if len(o.In) == 2 {
		y, after := l.result(dx)
		return l.done(append([]func() launch{l.run(p, y, w, dy)}, after...)...), nil
	}
	c := l.question(a.XShape, o.In[0].Shape, a.Stride, a.Pad)
	if typeOf(dx) == e.cfg.Type.typ() && c.C == dx.Shape[1] {
		sum, err := l.accumulates(c, p, dx)
		if err != nil {
			return lowered{}, err
		}
		if sum != nil {
			return l.done(l.copied(dx, o.In[2]), l.run(sum, l.place(dx), w, dy)), nil
		}
	}
	// The sum may lie over what is added, so the product has a place of its own.
	t, n, channels := typeOf(dx), int64(dx.Len()), dx.Shape[1]
	lanes, from := e.cfg.Type.lanes(channels), e.cfg.Type.typ()
	wide := l.room(n / int64(channels) * int64(lanes) * from.Size())
	launches := []func() launch{l.run(p, wide, w, dy)}
	product := wide
	if lanes != channels || from != t {
		product = l.room(n * t.Size())
		launches = append(launches, func() launch {
			src, dst := wide(), product()
			return func(s drv.Stream) error {
				return e.gpu.kernels.ToChannelsFirst(s, t, from, int(n)/channels, channels, 1, lanes, dst, src)
			}
		})
	}
	launches = append(launches, func() launch {
		out, rest, sum := e.at(dx), e.at(o.In[2]), product()
		return func(s drv.Stream) error { return e.gpu.kernels.Add(s, t, n, out, sum, rest, false) }
	})
	return l.done(launches...), nil
}

// accumulates is a plan that adds to what dx holds; nil if there is none, or if plan and a sum
// after it are faster.
func (l *lowering) accumulates(c cudnn.Conv, plan convPlan, dx *plan.Value) (convPlan, error) {
	e := l.e
	c.Accumulate = true
	sum, err := e.conv(cudnn.BackwardData, c)
	if err != nil && cudnn.Refused(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	t, n := typeOf(dx), int64(dx.Len())
	apart, err := e.gpu.vendor.apart(c, sum, plan, func(s drv.Stream, y, a, b drv.Ptr) error {
		return e.gpu.kernels.Add(s, t, n, y, a, b, false)
	})
	if err != nil || apart {
		return nil, err
	}
	l.workspace = max(l.workspace, sum.Workspace())
	return sum, nil
}

// copied brings what is added to dx's memory, unless it lies there.
func (l *lowering) copied(dx, add *plan.Value) func() launch {
	return func() launch {
		dst, src, bytes := l.e.at(dx), l.e.at(add), dx.Size()
		return func(s drv.Stream) error {
			if dst == src {
				return nil
			}
			return l.e.gpu.context.CopyOnDevice(dst, src, bytes, s)
		}
	}
}

// convWeight is dw of a convolution. A gradient that goes to the host stays as the library makes
// it, in memory of its own, until the segment's end, where one launch brings all of them to the
// host's order.
func (l *lowering) convWeight() (lowered, error) {
	o, e := l.o, l.e
	a := o.Attr.(*op.Conv2DBackwardWeight)
	x, dy := l.image(o.In[0]), l.image(o.In[1])
	c := l.question(o.In[0].Shape, a.WShape, a.Stride, a.Pad)
	c.Weight = cudnn.Float32
	p, err := l.plan(cudnn.BackwardWeight, c)
	if err != nil {
		return lowered{}, err
	}
	dw, t := o.Out[0], e.tensor(a.WShape)
	if p.Conv().Weight == cudnn.Float32 {
		t.Type = kernels.Float32
	}
	if plain(t) {
		return l.done(l.run(p, x, l.place(dw), dy)), nil
	}
	if r := dw.Root(); r.Source == plan.Gradient && !e.isRead(r) {
		at, err := e.allocate("gradients of weights", tensorBytes(t))
		if err != nil {
			return lowered{}, err
		}
		t.RowMajor, t.ChannelLast = e.at(dw), at
		e.unpacks[r.Index] = &t
		return l.done(l.run(p, x, func() drv.Ptr { return at }, dy)), nil
	}
	room := l.room(tensorBytes(t))
	return l.done(l.run(p, x, room, dy), func() launch {
		src, dst := room(), e.at(dw)
		return func(s drv.Stream) error {
			return e.gpu.kernels.ToChannelsFirst(s, kernels.Float32, t.Type, t.K, t.C, t.R*t.S, t.PadC, dst, src)
		}
	}), nil
}

// allocate takes memory of the device that lives as long as the executor.
func (e *Executor) allocate(what string, bytes int64) (drv.Ptr, error) {
	at, err := e.gpu.malloc(what, bytes)
	if err == nil && at != 0 {
		e.owned = append(e.owned, at)
		e.ownedBytes += bytes
	}
	return at, err
}

// isRead reports whether an op of the plan reads v.
func (e *Executor) isRead(v *plan.Value) bool {
	for _, o := range e.plan.Ops {
		for _, in := range o.In {
			if in != nil && in.Root() == v {
				return true
			}
		}
	}
	return false
}

// conv is the library's plan for a pass, one for all ops that ask the same.
func (e *Executor) conv(pass cudnn.Op, c cudnn.Conv) (convPlan, error) {
	key := convKey{pass, c}
	if p, ok := e.convs[key]; ok {
		return p, nil
	}
	p, err := e.gpu.vendor.conv(pass, c)
	if err != nil {
		return nil, err
	}
	e.convs[key] = p
	return p, nil
}

type convKey struct {
	pass cudnn.Op
	conv cudnn.Conv
}
