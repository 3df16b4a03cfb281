package cpu

import (
	"fmt"

	"github.com/paragon-train/paragon/internal/compute/f32"
	"github.com/paragon-train/paragon/internal/compute/plan"
)

// The functions below are those of package f32 on arrays that the plan stores in one type.

func addArrays(y, a, b f32.Array, relu bool) {
	if y.BF16 != nil {
		f32.AddBFloat16(y.BF16, a.BF16, b.BF16)
	} else {
		f32.Add(y.F32, a.F32, b.F32)
	}
	if relu {
		reluArray(y, y)
	}
}

func reluArray(y, x f32.Array) {
	if y.BF16 != nil {
		f32.ReLUBFloat16(y.BF16, x.BF16)
	} else {
		f32.ReLU(y.F32, x.F32)
	}
}

func reluGradArrays(dx, dy, y f32.Array) {
	if dx.BF16 != nil {
		f32.ReLUGradBFloat16(dx.BF16, dy.BF16, y.BF16)
	} else {
		f32.ReLUGrad(dx.F32, dy.F32, y.F32)
	}
}

// addTo sets dst += x.
func addTo(dst []float32, x f32.Array) {
	if x.BF16 != nil {
		f32.AddToBFloat16(dst, x.BF16)
	} else {
		f32.AddTo(dst, x.F32)
	}
}

func channelTotals(a, b []float64, x f32.Array) {
	if x.BF16 != nil {
		f32.ChannelSumsBFloat16(a, b, x.BF16)
	} else {
		f32.ChannelSums(a, b, x.F32)
	}
}

func channelTotalsAround(a, b []float64, x f32.Array, center []float32) {
	if x.BF16 != nil {
		f32.ChannelSumsAroundBFloat16(a, b, x.BF16, center)
	} else {
		f32.ChannelSumsAround(a, b, x.F32, center)
	}
}

func channelGradTotals(a, b []float64, dy, x, y f32.Array, center []float32) {
	if dy.BF16 != nil {
		f32.ChannelGradSumsBFloat16(a, b, dy.BF16, x.BF16, y.BF16, center)
	} else {
		f32.ChannelGradSums(a, b, dy.F32, x.F32, y.F32, center)
	}
}

// scaleShift sets y = x·scale + shift, plus res if there is one, and then max(·, 0) if relu.
func scaleShift(y, x, res f32.Array, scale, shift []float32, relu bool) {
	switch {
	case y.BF16 != nil:
		f32.ScaleShiftBFloat16(y.BF16, x.BF16, res.BF16, scale, shift, relu)
	case res.F32 != nil:
		f32.ScaleShiftAdd(y.F32, x.F32, res.F32, scale, shift, relu)
	default:
		f32.ScaleShift(y.F32, x.F32, scale, shift, relu)
	}
}

func clearArray(y f32.Array) {
	clear(y.F32)
	clear(y.BF16)
}

func normGrad(dx, dy, x, y f32.Array, p, q, r []float32) {
	if dx.BF16 != nil {
		f32.NormGradBFloat16(dx.BF16, dy.BF16, x.BF16, y.BF16, p, q, r)
	} else {
		f32.NormGrad(dx.F32, dy.F32, x.F32, y.F32, p, q, r)
	}
}

func maxWhich(out f32.Array, chosen []uint8, x f32.Array, which uint8) {
	if out.BF16 != nil {
		f32.MaxWhichBFloat16(out.BF16, chosen, x.BF16, which)
	} else {
		f32.MaxWhich(out.F32, chosen, x.F32, which)
	}
}

// checkStorage is an error if the plan stores bfloat16 and the executor does not compute with it.
func checkStorage(p *plan.Plan, cfg Config) error {
	for _, o := range p.Ops {
		for _, v := range o.Out {
			if v != nil && v.BFloat16() && !cfg.BFloat16 {
				return fmt.Errorf("cpu: node %q: the plan stores %v as bfloat16, want a Config with BFloat16", o.Node, v)
			}
		}
	}
	return nil
}
