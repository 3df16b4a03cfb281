package conv

import (
	"fmt"
	"math"
)

// A Shape says what is convolved with what.
type Shape struct {
	N                int // images
	H, W, C          int // x is N×H×W×C
	K, R, S          int // w is K×C×R×S
	StrideH, StrideW int

	// PadH and PadW are the rows and columns of zeros on either side.
	PadH, PadW int
}

// OutH is the height of y.
func (s Shape) OutH() int { return (s.H+2*s.PadH-s.R)/s.StrideH + 1 }

// OutW is the width of y.
func (s Shape) OutW() int { return (s.W+2*s.PadW-s.S)/s.StrideW + 1 }

// XLen is the number of values of x and dx.
func (s Shape) XLen() int { return s.N * s.H * s.W * s.C }

// YLen is the number of values of y and dy.
func (s Shape) YLen() int { return s.N * s.OutH() * s.OutW() * s.K }

// WLen is the number of values of w and dw.
func (s Shape) WLen() int { return s.K * s.C * s.R * s.S }

// Flops is the nominal number of operations of one pass, a multiplication and an addition for each
// tap, padding counted.
func (s Shape) Flops() float64 {
	return 2 * float64(s.N*s.OutH()*s.OutW()) * float64(s.K*s.C*s.R*s.S)
}

func (s Shape) String() string {
	return fmt.Sprintf("%d×%d×%d×%d * %d×%d×%d stride %d×%d pad %d×%d", s.N, s.H, s.W, s.C, s.K, s.R, s.S, s.StrideH, s.StrideW, s.PadH, s.PadW)
}

// Validate reports the first field that is out of range.
func (s Shape) Validate() error {
	for _, f := range []struct {
		name     string
		val, min int
	}{
		{"N", s.N, 1}, {"H", s.H, 1}, {"W", s.W, 1}, {"C", s.C, 1}, {"K", s.K, 1}, {"R", s.R, 1}, {"S", s.S, 1},
		{"StrideH", s.StrideH, 1}, {"StrideW", s.StrideW, 1}, {"PadH", s.PadH, 0}, {"PadW", s.PadW, 0},
	} {
		if f.val < f.min {
			return fmt.Errorf("conv: shape %v: %s is %d, want at least %d", s, f.name, f.val, f.min)
		}
	}
	if s.H+2*s.PadH < s.R || s.W+2*s.PadW < s.S {
		return fmt.Errorf("conv: shape %v: kernel %d×%d is larger than the padded input %d×%d", s, s.R, s.S, s.H+2*s.PadH, s.W+2*s.PadW)
	}
	for _, n := range []float64{
		float64(s.N) * float64(s.H) * float64(s.W) * float64(s.C),
		float64(s.N) * float64(s.OutH()) * float64(s.OutW()) * float64(s.K),
		float64(s.K) * float64(s.C) * float64(s.R) * float64(s.S),
	} {
		if n > math.MaxInt32 {
			return fmt.Errorf("conv: shape %v: an array of %.0f values, want at most %d", s, n, math.MaxInt32)
		}
	}
	return nil
}
