package pixel

import (
	"bytes"
	"math/rand/v2"
	"testing"
)

// both calls do with the assembly and without it.
func both(t *testing.T, do func() []uint8) {
	t.Helper()
	if !fast {
		t.Skip("skipped: this processor has no AVX2, so there is nothing to compare")
	}
	defer func() { fast = true }()
	got := do()
	fast = false
	if want := do(); !bytes.Equal(got, want) {
		for i := range got {
			if got[i] != want[i] {
				t.Fatalf("byte %d of %d: the assembly gives %d, plain Go %d", i, len(got), got[i], want[i])
			}
		}
	}
}

func random(r *rand.Rand, n int) []uint8 {
	b := make([]uint8, n)
	for i := range b {
		switch b[i] = uint8(r.Uint32()); r.IntN(8) {
		case 0:
			b[i] = 0
		case 1:
			b[i] = 255
		}
	}
	return b
}

// Blocks of few and of many coefficients, up to values that no image has and that overflow.
func TestTransformIsThatOfPlainGo(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for i := range 3000 {
		var block [64]int16
		for range 1 + r.IntN(64) {
			block[r.IntN(64)] = int16(r.Uint32()) >> r.IntN(16)
		}
		both(t, func() []uint8 {
			dst := make([]uint8, 8*(8+i%5))
			Transform(dst, 8+i%5, &block)
			return dst
		})
	}
}

func TestFillIsTransformOfAMean(t *testing.T) {
	for dc := -1 << 15; dc < 1<<15; dc++ {
		got, want := make([]uint8, 64), make([]uint8, 64)
		Fill(got, 8, int16(dc))
		transform(want, 8, &[64]int16{int16(dc)})
		if !bytes.Equal(got, want) {
			t.Fatalf("mean %d: got %v, want %v", dc, got, want)
		}
	}
}

func TestConversionIsThatOfPlainGo(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for n := range 70 {
		y, cb, cr := random(r, n), random(r, n), random(r, n)
		both(t, func() []uint8 {
			dst := make([]uint8, 3*n+5)
			Convert(dst[:3*n], y, cb, cr)
			return dst
		})
	}
	// Every chroma with some luminances.
	y, cb, cr := make([]uint8, 1<<16), make([]uint8, 1<<16), make([]uint8, 1<<16)
	for _, v := range []uint8{0, 1, 127, 255} {
		for i := range y {
			y[i], cb[i], cr[i] = v, uint8(i), uint8(i>>8)
		}
		both(t, func() []uint8 {
			dst := make([]uint8, 3*len(y))
			Convert(dst, y, cb, cr)
			return dst
		})
	}
}

func TestSmoothingIsThatOfPlainGo(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for n := range 100 {
		in, near := random(r, n+2), random(r, n+2)
		both(t, func() []uint8 {
			dst := make([]uint8, 2*n+7)
			Smooth(dst[:2*n], in, near)
			return dst
		})
	}
}

func weighed(r *rand.Rand, in, out int) *Weights {
	w := &Weights{Each: 7, Values: make([]int32, out*7)}
	for x := range out {
		count := 1 + r.IntN(min(7, in))
		w.First, w.Count = append(w.First, int32(r.IntN(in-count+1))), append(w.Count, int32(count))
		for i := range count {
			w.Values[x*7+i] = int32(r.IntN(3<<Fraction)-1<<Fraction) / int32(count)
		}
	}
	// The last pixel reaches the end of the row.
	w.First[out-1] = int32(in) - w.Count[out-1]
	return w
}

func TestResamplingIsThatOfPlainGo(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	for range 300 {
		in, out, rows := 1+r.IntN(40), 1+r.IntN(40), 1+r.IntN(8)
		across := weighed(r, in, out)
		src := random(r, in*3*rows)
		both(t, func() []uint8 {
			dst := make([]uint8, out*3*rows+4)
			Across(dst, out*3, src, in*3, rows, across)
			return dst
		})
		down := weighed(r, rows, 1)
		both(t, func() []uint8 {
			dst := make([]uint8, in*3+4)
			Down(dst[:in*3], src[int(down.First[0])*in*3:], in*3, down.Values[:down.Count[0]])
			return dst
		})
	}
}
