package conv

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/paragon-train/paragon/internal/compute/f32"
	"github.com/paragon-train/paragon/internal/compute/pool"
	"github.com/paragon-train/paragon/internal/testing/alloctest"
)

// depthwiseShapes have rows in one task and in several, strides, dilation, padding that differs, and
// rows and columns that no tap reaches.
var depthwiseShapes = []Shape{
	{N: 2, H: 5, W: 4, C: 3, R: 3, S: 3, StrideH: 1, StrideW: 1, PadH: 1, PadW: 1},
	{N: 3, H: 40, W: 33, C: 48, R: 3, S: 3, StrideH: 1, StrideW: 1, PadH: 1, PadW: 1},
	{N: 2, H: 30, W: 31, C: 40, R: 3, S: 3, StrideH: 2, StrideW: 2, PadH: 1, PadW: 1},
	{N: 1, H: 8, W: 8, C: 17, R: 3, S: 3, StrideH: 2, StrideW: 2, MoreH: 1, MoreW: 1},
	{N: 2, H: 9, W: 7, C: 16, R: 5, S: 3, StrideH: 1, StrideW: 2, PadH: 4, PadW: 1, DilationH: 2},
	{N: 1, H: 3, W: 3, C: 8, R: 1, S: 1, StrideH: 1, StrideW: 1, PadH: 2, PadW: 2},
	{N: 1, H: 7, W: 7, C: 8, R: 2, S: 2, StrideH: 3, StrideW: 3},
	{N: 2, H: 4, W: 4, C: 960, R: 3, S: 3, StrideH: 1, StrideW: 1, PadH: 1, PadW: 1},
}

// depthwiseNaive is convolve of one channel after the other.
func depthwiseNaive(s Shape, x, w, dy []float32) naive {
	all := naive{y: make([]float64, len(dy)), dx: make([]float64, len(x)), dw: make([]float64, len(w)), absY: make([]float64, len(dy)), absDx: make([]float64, len(x)), absDw: make([]float64, len(w))}
	one := s
	one.C, one.K = 1, 1
	take := func(x []float32, c int) (out []float32) {
		for i := c; i < len(x); i += s.C {
			out = append(out, x[i])
		}
		return out
	}
	put := func(to, from []float64, c int) {
		for i, v := range from {
			to[i*s.C+c] = v
		}
	}
	for c := range s.C {
		taps := w[c*s.R*s.S : (c+1)*s.R*s.S]
		r := convolve(one, take(x, c), taps, take(dy, c))
		put(all.y, r.y, c)
		put(all.absY, r.absY, c)
		put(all.dx, r.dx, c)
		put(all.absDx, r.absDx, c)
		copy(all.dw[c*s.R*s.S:], r.dw)
		copy(all.absDw[c*s.R*s.S:], r.absDw)
	}
	return all
}

func TestDepthwiseIsThePlainLoop(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, s := range depthwiseShapes {
		s.K = s.C
		x, w, dy := random(r, s.XLen()), random(r, s.R*s.S*s.C), random(r, s.YLen())
		want := depthwiseNaive(s, x, w, dy)
		var first [3][]float32
		for _, threads := range []int{1, 3} {
			p := pool.New(threads)
			d, err := NewDepthwise(s, p)
			if err != nil {
				t.Fatal(err)
			}
			scratch := make([]float32, d.ScratchLen(false))
			y, dx, dw := random(r, len(dy)), random(r, len(x)), random(r, len(w))
			d.Forward(f32.Array{F32: y}, f32.Array{F32: x}, w, scratch)
			d.BackwardData(f32.Array{F32: dx}, f32.Array{F32: dy}, w, scratch, false)
			d.BackwardWeight(dw, f32.Array{F32: x}, f32.Array{F32: dy}, scratch)
			closeTo(t, s.String()+" y", y, want.y, want.absY)
			closeTo(t, s.String()+" dx", dx, want.dx, want.absDx)
			closeTo(t, s.String()+" dw", dw, want.dw, want.absDw)
			if threads == 1 {
				first = [3][]float32{slices.Clone(y), slices.Clone(dx), slices.Clone(dw)}
			} else if !slices.Equal(first[0], y) || !slices.Equal(first[1], dx) || !slices.Equal(first[2], dw) {
				t.Errorf("%v: three threads give other bits than one", s)
			}
			if n := alloctest.PerRun(3, func() {
				d.Forward(f32.Array{F32: y}, f32.Array{F32: x}, w, scratch)
				d.BackwardData(f32.Array{F32: dx}, f32.Array{F32: dy}, w, scratch, true)
				d.BackwardWeight(dw, f32.Array{F32: x}, f32.Array{F32: dy}, scratch)
			}); n > 0 {
				t.Errorf("%v: a run allocates %v times", s, n)
			}
			p.Close()
		}
	}
}

// Images stored as bfloat16 give what the same numbers in float32 give, rounded.
func TestDepthwiseOfStoredImages(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	p := pool.New(2)
	defer p.Close()
	for _, s := range depthwiseShapes {
		s.K = s.C
		d, err := NewDepthwise(s, p)
		if err != nil {
			t.Fatal(err)
		}
		half := func(x []float32) (stored, wide f32.Array) {
			stored, wide = f32.Array{BF16: make([]uint16, len(x))}, f32.Array{F32: make([]float32, len(x))}
			f32.ToBFloat16(stored.BF16, x)
			f32.FromBFloat16(wide.F32, stored.BF16)
			return stored, wide
		}
		scratch := make([]float32, d.ScratchLen(true))
		w := random(r, s.R*s.S*s.C)
		x, wideX := half(random(r, s.XLen()))
		dy, wideDy := half(random(r, s.YLen()))
		y, wideY := half(random(r, s.YLen()))
		dx, wideDx := half(random(r, s.XLen()))
		dw, wideDw := make([]float32, len(w)), make([]float32, len(w))
		same := func(what string, stored, wide f32.Array) {
			want := make([]uint16, wide.Len())
			f32.ToBFloat16(want, wide.F32)
			if !slices.Equal(stored.BF16, want) {
				t.Errorf("%v: %s of bfloat16 is another than that of the same numbers in float32", s, what)
			}
		}
		d.Forward(y, x, w, scratch)
		d.Forward(wideY, wideX, w, scratch)
		same("y", y, wideY)
		for _, add := range []bool{true, false} {
			d.BackwardData(dx, dy, w, scratch, add)
			d.BackwardData(wideDx, wideDy, w, scratch, add)
			same("dx", dx, wideDx)
		}
		d.BackwardWeight(dw, x, dy, scratch)
		d.BackwardWeight(wideDw, wideX, wideDy, scratch)
		if !slices.Equal(dw, wideDw) {
			t.Errorf("%v: dw of bfloat16 is another than that of the same numbers in float32", s)
		}
	}
}
