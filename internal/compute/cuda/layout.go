package cuda

import (
	"github.com/paragon-train/paragon/internal/compute/cuda/drv"
	"github.com/paragon-train/paragon/internal/compute/plan"
)

// A layouts has the launch that moves images between channels first and channels last.
type layouts struct {
	gpu    *GPU
	inputs *inputs
}

func (f *layouts) lowerers() lowerers { return lowerers{plan.Convert: f.convert} }

// convert moves the numbers of a value to the other layout.
func (f *layouts) convert(l *lowering) (lowered, error) {
	o := l.o
	return l.done(func() launch {
		x, y := o.In[0], o.Out[0]
		n, c, pixels := x.Shape[0], x.Shape[1], x.Shape[2]*x.Shape[3]
		from, to, src, dst := typeOf(x), typeOf(y), l.at(x), l.at(y)
		if y.Layout == plan.ChannelsLast {
			lanes := lanesOf(y)
			if in := f.inputs.bytes(x); in != nil {
				return in.convert(f.gpu, to, lanes, dst)
			}
			return func(s drv.Stream) error {
				return f.gpu.kernels.ToChannelsLast(s, to, from, n, c, pixels, lanes, dst, src)
			}
		}
		lanes := lanesOf(x)
		return func(s drv.Stream) error {
			return f.gpu.kernels.ToChannelsFirst(s, to, from, n, c, pixels, lanes, dst, src)
		}
	}), nil
}
