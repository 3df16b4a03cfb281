package cpu

import (
	"github.com/paragon-train/paragon/internal/compute/f32"
	"github.com/paragon-train/paragon/internal/compute/op"
	"github.com/paragon-train/paragon/internal/compute/plan"
)

// A dropout has the kernel of op.Dropout. What it drops depends on the step, so that the mask of a
// step can be made again, and on the stream.
type dropout struct {
	mem     *memory
	threads threads

	// counts has the step. It changes between runs.
	counts *counts

	// stream is the replica's: another one drops other elements.
	stream uint64
}

func (d *dropout) builders() builders { return builders{plan.Dropout: d.drop} }

// drop numbers elements in the order of (N,C,H,W), whatever the layout, so that the mask is that
// of the op's definition.
func (d *dropout) drop(o *plan.Op) (kernel, error) {
	a := o.Attr.(*op.Dropout)
	return kernel{bind: func() func() error {
		y, x := d.mem.array(o.Out[0]), d.mem.array(o.In[0])
		threshold, scale := a.Threshold(), float32(1/(1-a.Rate))
		var key uint64
		keep := func(lo, hi int, element func(i int) int) {
			for i := lo; i < hi; i++ {
				keep := op.DropoutKeep(key, element(i), threshold)
				switch {
				case y.BF16 != nil && keep:
					y.BF16[i] = f32.BFloat16Bits(f32.BFloat16Value(x.BF16[i]) * scale)
				case y.BF16 != nil:
					y.BF16[i] = f32.BFloat16Bits(dropped(f32.BFloat16Value(x.BF16[i])))
				case keep:
					y.F32[i] = x.F32[i] * scale
				default:
					y.F32[i] = dropped(x.F32[i])
				}
			}
		}
		element := func(i int) int { return i }
		if v := o.In[0]; v.Layout == plan.ChannelsLast {
			c, hw := v.Channels(), v.Shape[2]*v.Shape[3]
			element = func(i int) int { return (i/c/hw*c+i%c)*hw + i/c%hw }
		}
		run := d.threads.split(y.Len(), grain, func(lo, hi int) {
			if y.F32 != nil && o.In[0].Layout == plan.RowMajor {
				f32.Drop(y.F32[lo:hi], x.F32[lo:hi], key, uint64(lo), threshold, scale)
				return
			}
			keep(lo, hi, element)
		})
		return func() error {
			key = a.Key(d.counts.step, d.stream)
			run()
			return nil
		}
	}}, nil
}

// dropped is 0, or x if it is a NaN.
func dropped(x float32) float32 {
	if x != x {
		return x
	}
	return 0
}
