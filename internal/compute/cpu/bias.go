package cpu

import (
	"github.com/paragon-train/paragon/internal/compute/f32"
	"github.com/paragon-train/paragon/internal/compute/plan"
)

// A biases has the kernels that add a number to each channel, and those of its gradient.
type biases struct {
	mem     *memory
	threads threads
}

func (b *biases) builders() builders {
	return builders{plan.BiasAdd: b.biasAdd, plan.BiasGrad: b.biasGrad}
}

// columnSums returns a function that sets sum to the sum of the rows of x.
func (b *biases) columnSums(sum []float32, x f32.Array) func() {
	c := len(sum)
	rows := x.Len() / c
	totals := newChannelSum(b.threads, b.mem.doubles(sumDoubles(rows, c)), rows, c, func(a, b []float64, lo, hi int) {
		channelTotals(a, b, x.Part(lo*c, hi*c))
	})
	return func() {
		totals.run(rows)
		for k := range sum {
			sum[k] = float32(totals.a[k])
		}
	}
}

// channelLast is true if channels follow each other in v's memory.
func channelLast(v *plan.Value) bool { return v.Layout == plan.ChannelsLast || len(v.Shape) == 2 }

// biasAdd adds a number to each channel, and computes the ReLU behind it. Where channels are last
// it is x·1 + b, the loop that normalisations have.
func (b *biases) biasAdd(o *plan.Op) (kernel, error) {
	v := o.In[0]
	c := v.Channels()
	return kernel{bind: func() func() error {
		bias := b.mem.floats(o.In[1])
		if channelLast(v) {
			y, x := b.mem.array(o.Out[0]), b.mem.array(v)
			one := make([]float32, c)
			for k := range one {
				one[k] = 1
			}
			return then(b.threads.split(y.Len()/c, rowGrain(c), func(lo, hi int) {
				scaleShift(y.Part(lo*c, hi*c), x.Part(lo*c, hi*c), f32.Array{}, one, bias, o.ReLU)
			}))
		}
		y, x := b.mem.floats(o.Out[0]), b.mem.floats(v)
		inner := v.Shape[2:].TotalSize()
		return then(b.threads.split(len(y)/inner, rowGrain(inner), func(lo, hi int) {
			for i := lo * inner; i < hi*inner; i++ {
				y[i] = x[i] + bias[i/inner%c]
			}
			if o.ReLU {
				f32.ReLU(y[lo*inner:hi*inner], y[lo*inner:hi*inner])
			}
		}))
	}}, nil
}

// biasGrad sums the gradient over all but the channels, in float64.
func (b *biases) biasGrad(o *plan.Op) (kernel, error) {
	v := o.In[0]
	c := v.Channels()
	return kernel{doubles: sumDoubles(v.Len()/c, c), bind: func() func() error {
		db := b.mem.floats(o.Out[0])
		if channelLast(v) {
			return then(b.columnSums(db, b.mem.array(v)))
		}
		dy := b.mem.floats(v)
		inner := v.Shape[2:].TotalSize()
		return then(b.threads.split(c, 1, func(lo, hi int) {
			for k := lo; k < hi; k++ {
				sum := 0.0
				for n := k; n < len(dy)/inner; n += c {
					sum += float64(f32.Sum(dy[n*inner : (n+1)*inner]))
				}
				db[k] = float32(sum)
			}
		}))
	}}, nil
}
