package cpu

import (
	"fmt"

	"github.com/paragon-train/paragon/internal/compute/f32"
	"github.com/paragon-train/paragon/internal/compute/op"
	"github.com/paragon-train/paragon/internal/compute/plan"
)

// An activations has the kernels of functions of one number and of their gradients.
type activations struct {
	mem     *memory
	threads threads
}

func (a *activations) builders() builders {
	return builders{plan.Activation: a.activation, plan.ActivationGrad: a.activationGrad, plan.SwiGLU: a.swiglu, plan.SwiGLUGrad: a.swigluGrad}
}

// function is package f32's function of this name.
func function(f op.Function) (f32.Function, error) {
	switch f {
	case op.GELU:
		return f32.GELU, nil
	case op.GELUTanh:
		return f32.GELUTanh, nil
	case op.SiLU:
		return f32.SiLU, nil
	case op.Sigmoid:
		return f32.Sigmoid, nil
	case op.Tanh:
		return f32.Tanh, nil
	case op.LeakyReLU:
		return f32.LeakyReLU, nil
	case op.ReLU6:
		return f32.ReLU6, nil
	case op.Softplus:
		return f32.Softplus, nil
	}
	return 0, fmt.Errorf("activation %q has no kernel", string(f))
}

// activation is f(x); y may be x.
func (a *activations) activation(o *plan.Op) (kernel, error) {
	attr := o.Attr.(*op.Activation)
	f, err := function(attr.Function)
	if err != nil {
		return kernel{}, err
	}
	slope := float32(attr.Slope)
	return kernel{bind: func() func() error {
		y, x := a.mem.array(o.Out[0]), a.mem.array(o.In[0])
		return then(a.threads.split(y.Len(), activationGrain, func(lo, hi int) { activate(f, y.Part(lo, hi), x.Part(lo, hi), slope) }))
	}}, nil
}

// activationGrad is f′·dy; dx may be dy, or what f′ is computed from.
func (a *activations) activationGrad(o *plan.Op) (kernel, error) {
	attr := o.Attr.(*op.ActivationGrad)
	f, err := function(attr.Function)
	if err != nil {
		return kernel{}, err
	}
	slope := float32(attr.Slope)
	return kernel{bind: func() func() error {
		dx, kept, dy := a.mem.array(o.Out[0]), a.mem.array(o.In[0]), a.mem.array(o.In[1])
		return then(a.threads.split(dx.Len(), activationGrain, func(lo, hi int) {
			activateGrad(f, dx.Part(lo, hi), dy.Part(lo, hi), kept.Part(lo, hi), slope)
		}))
	}}, nil
}

// swiglu is silu(gate)·up; z may be either.
func (a *activations) swiglu(o *plan.Op) (kernel, error) {
	return kernel{bind: func() func() error {
		z, gate, up := a.mem.floats(o.Out[0]), a.mem.floats(o.In[0]), a.mem.floats(o.In[1])
		return then(a.threads.split(len(z), activationGrain, func(lo, hi int) { f32.SwiGLU(z[lo:hi], gate[lo:hi], up[lo:hi]) }))
	}}, nil
}

// swigluGrad makes the gradients that are wanted; dgate may be an argument.
func (a *activations) swigluGrad(o *plan.Op) (kernel, error) {
	return kernel{bind: func() func() error {
		floats := func(v *plan.Value) []float32 {
			if v == nil {
				return nil
			}
			return a.mem.floats(v)
		}
		dgate, dup := floats(o.Out[0]), floats(o.Out[1])
		gate, up, dz := a.mem.floats(o.In[0]), a.mem.floats(o.In[1]), a.mem.floats(o.In[2])
		return then(a.threads.split(len(gate), activationGrain, func(lo, hi int) {
			// room takes what is not wanted.
			var room [roomPart]float32
			for ; lo < hi; lo += roomPart {
				end := min(lo+roomPart, hi)
				g, u := room[:end-lo], room[:end-lo]
				if dgate != nil {
					g = dgate[lo:end]
				}
				if dup != nil {
					u = dup[lo:end]
				}
				f32.SwiGLUGrad(g, u, gate[lo:end], up[lo:end], dz[lo:end])
			}
		}))
	}}, nil
}

// activationGrain is grain of functions that cost some times as much as a sum.
const activationGrain = grain / 2

// roomPart numbers that nobody wants have room on the stack.
const roomPart = 1024

// activate is f32.Activate of an array as it is stored.
func activate(f f32.Function, y, x f32.Array, slope float32) {
	if y.BF16 != nil {
		f32.ActivateBFloat16(f, y.BF16, x.BF16, slope)
	} else {
		f32.Activate(f, y.F32, x.F32, slope)
	}
}

// activateGrad is f32.ActivateGrad of arrays as they are stored.
func activateGrad(f f32.Function, dx, dy, kept f32.Array, slope float32) {
	if dx.BF16 != nil {
		f32.ActivateGradBFloat16(f, dx.BF16, dy.BF16, kept.BF16, slope)
	} else {
		f32.ActivateGrad(f, dx.F32, dy.F32, kept.F32, slope)
	}
}

// A behind is the activation behind a batch normalisation, which keeps its result.
type behind struct {
	function f32.Function
	slope    float32

	// g, dy and y are those of the gradient.
	g, dy, y f32.Array
}

// activationBehind is that of an op; nil if it has none.
func activationBehind(o *plan.Op) (*behind, error) {
	if o.Behind == nil {
		return nil, nil
	}
	f, err := function(o.Behind.Function)
	return &behind{function: f, slope: float32(o.Behind.Slope)}, err
}

// apply sets y to the activation of x.
func (b *behind) apply(y, x f32.Array) { activate(b.function, y, x, b.slope) }

// before prepares the gradient g in front of the activation, of dy and of the result y, in dx, or in
// memory of its own where dx is not wanted. It leaves dy to be g, and y to be none.
func (b *behind) before(dy, y *f32.Array, dx f32.Array) {
	b.g, b.dy, b.y = dx, *dy, *y
	switch {
	case !dx.None():
	case dy.BF16 != nil:
		b.g.BF16 = make([]uint16, dy.Len())
	default:
		b.g.F32 = make([]float32, dy.Len())
	}
	*dy, *y = b.g, f32.Array{}
}

// gradient computes g of a part.
func (b *behind) gradient(lo, hi int) {
	activateGrad(b.function, b.g.Part(lo, hi), b.dy.Part(lo, hi), b.y.Part(lo, hi), b.slope)
}
