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

	// MoreH and MoreW are how many more of them there are at the end; they may be negative.
	MoreH, MoreW int

	// DilationH and DilationW are the distances of taps. 0 is 1.
	DilationH, DilationW int
}

// steps are the distances of taps, at least 1.
func (s Shape) steps() (h, w int) { return max(1, s.DilationH), max(1, s.DilationW) }

// dilated reports whether taps are not neighbours.
func (s Shape) dilated() bool { return s.DilationH > 1 || s.DilationW > 1 }

// extentH and extentW are the rows and columns from the first tap to the last.
func (s Shape) extentH() int { return (s.R-1)*max(1, s.DilationH) + 1 }
func (s Shape) extentW() int { return (s.S-1)*max(1, s.DilationW) + 1 }

// forwardReach and backwardReach are those of both axes.
func (s Shape) forwardReach() (rows, cols reach) {
	h, w := s.steps()
	return forwardReach(s.H, s.R, s.StrideH, s.PadH, h), forwardReach(s.W, s.S, s.StrideW, s.PadW, w)
}

func (s Shape) backwardReach() (rows, cols reach) {
	h, w := s.steps()
	return backwardReach(s.OutH(), s.R, s.StrideH, s.PadH, h), backwardReach(s.OutW(), s.S, s.StrideW, s.PadW, w)
}

// forwardTaps and backwardTaps are the taps of forward and of backward-data.
func (s Shape) forwardTaps() gatherTaps {
	rows, cols := s.forwardReach()
	return gatherTaps{axisClasses(s.OutH(), rows), axisClasses(s.OutW(), cols), [2]int{s.R, s.S}}
}

func (s Shape) backwardTaps() gatherTaps {
	rows, cols := s.backwardReach()
	return gatherTaps{axisClasses(s.H, rows), axisClasses(s.W, cols), [2]int{s.R, s.S}}
}

// OutH is the height of y.
func (s Shape) OutH() int { return (s.H+2*s.PadH+s.MoreH-s.extentH())/s.StrideH + 1 }

// OutW is the width of y.
func (s Shape) OutW() int { return (s.W+2*s.PadW+s.MoreW-s.extentW())/s.StrideW + 1 }

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
	text := fmt.Sprintf("%d×%d×%d×%d * %d×%d×%d stride %d×%d pad %d×%d", s.N, s.H, s.W, s.C, s.K, s.R, s.S, s.StrideH, s.StrideW, s.PadH, s.PadW)
	if s.MoreH != 0 || s.MoreW != 0 {
		text += fmt.Sprintf(" pad at the end %+d %+d", s.MoreH, s.MoreW)
	}
	if s.dilated() {
		h, w := s.steps()
		text += fmt.Sprintf(" dilation %d×%d", h, w)
	}
	return text
}

// Validate reports the first field that is out of range.
func (s Shape) Validate() error {
	for _, f := range []struct {
		name     string
		val, min int
	}{
		{"N", s.N, 1}, {"H", s.H, 1}, {"W", s.W, 1}, {"C", s.C, 1}, {"K", s.K, 1}, {"R", s.R, 1}, {"S", s.S, 1},
		{"StrideH", s.StrideH, 1}, {"StrideW", s.StrideW, 1}, {"PadH", s.PadH, 0}, {"PadW", s.PadW, 0},
		{"DilationH", s.DilationH, 0}, {"DilationW", s.DilationW, 0},
	} {
		if f.val < f.min {
			return fmt.Errorf("conv: shape %v: %s is %d, want at least %d", s, f.name, f.val, f.min)
		}
	}
	if h, w := s.H+2*s.PadH+s.MoreH, s.W+2*s.PadW+s.MoreW; h < s.extentH() || w < s.extentW() {
		return fmt.Errorf("conv: shape %v: kernel %d×%d is larger than the padded input %d×%d", s, s.extentH(), s.extentW(), h, w)
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
