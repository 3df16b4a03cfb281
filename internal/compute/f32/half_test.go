package f32

import (
	"math"
	"math/rand/v2"
	"testing"
)

// interesting are float32 bit patterns around every place where rounding to 16 bits changes.
func interesting() []float32 {
	bits := []uint32{0, 1, 0x7f800000, 0x7f800001, 0x7fc00000, 0x7fffffff, 0x7fa00000, 0x7f7fffff, 0x477fe000, 0x477fefff, 0x477ff000, 0x477fdfff,
		0x38800000, 0x387fffff, 0x387fe000, 0x33000000, 0x33000001, 0x32ffffff, 0x33800000, 0x33c00000, 0x34400000, 0x00800000, 0x007fffff}
	for e := uint32(0); e < 255; e++ {
		for _, m := range []uint32{0, 1, 0xfff, 0x1000, 0x1001, 0x2fff, 0x3000, 0x3001, 0x7fff, 0x8000, 0x8001, 0x17fff, 0x18000, 0x7fffff} {
			bits = append(bits, e<<23|m)
		}
	}
	r := rand.New(rand.NewPCG(3, 1))
	for range 5000 {
		bits = append(bits, r.Uint32())
	}
	var x []float32
	for _, b := range bits {
		x = append(x, math.Float32frombits(b), math.Float32frombits(b|1<<31))
	}
	return x
}

// nearest16 finds, among all finite float16 values, the nearest to f, ties to the even one: the
// definition.
func nearest16(f float64, values []float64) uint16 {
	lo, hi := 0, len(values)-1
	for lo < hi { // first value ≥ |f|
		if m := (lo + hi) / 2; values[m] >= math.Abs(f) {
			hi = m
		} else {
			lo = m + 1
		}
	}
	best := lo
	if lo > 0 {
		if below, above := math.Abs(f)-values[lo-1], values[lo]-math.Abs(f); below < above || below == above && (lo-1)%2 == 0 {
			best = lo - 1
		}
	}
	h := uint16(best)
	if math.Signbit(f) {
		h |= 0x8000
	}
	return h
}

func TestFloat16RoundsToNearestEven(t *testing.T) {
	// values are all float16 from 0 to infinity, which stands where the next value would be.
	values := make([]float64, 0x7c01)
	for i := range values {
		e, m := i>>10, float64(i&0x3ff)
		if e == 0 {
			values[i] = m * 0x1p-24
		} else {
			values[i] = (1024 + m) * math.Ldexp(1, e-25)
		}
	}
	x := interesting()
	onPaths(t, func(t *testing.T) {
		got := make([]uint16, len(x))
		ToFloat16(got, x)
		back := make([]float32, len(x))
		FromFloat16(back, got)
		for i, f := range x {
			if f != f {
				if back[i] == back[i] || got[i] != Float16Bits(f) {
					t.Errorf("NaN %#x became %#x and %g, want the NaN %#x", math.Float32bits(f), got[i], back[i], Float16Bits(f))
				}
				continue
			}
			want := nearest16(float64(f), values)
			if got[i] != want {
				t.Fatalf("%g (%#x) = %#x, want %#x", f, math.Float32bits(f), got[i], want)
			}
			if m := want & 0x7fff; m < 0x7c00 && math.Abs(float64(back[i])) != values[m] || math.Signbit(float64(back[i])) != math.Signbit(float64(f)) {
				t.Fatalf("%#x = %g, want %g", want, back[i], values[m])
			}
		}
	})
}

func TestAllFloat16ConvertThereAndBack(t *testing.T) {
	onPaths(t, func(t *testing.T) {
		all, back := make([]uint16, 1<<16), make([]uint16, 1<<16)
		for i := range all {
			all[i] = uint16(i)
		}
		wide := make([]float32, 1<<16)
		FromFloat16(wide, all)
		ToFloat16(back, wide)
		for i, h := range all {
			if h&0x7c00 == 0x7c00 && h&0x3ff != 0 {
				h |= 0x200 // NaNs become quiet
			}
			if back[i] != h || math.Float32bits(wide[i]) != math.Float32bits(Float16Value(all[i])) {
				t.Fatalf("%#x became %g and %#x", all[i], wide[i], back[i])
			}
		}
	})
}

func TestBFloat16RoundsToNearestEven(t *testing.T) {
	x := interesting()
	onPaths(t, func(t *testing.T) {
		got, back := make([]uint16, len(x)), make([]float32, len(x))
		ToBFloat16(got, x)
		FromBFloat16(back, got)
		for i, f := range x {
			if math.Float32bits(back[i]) != uint32(got[i])<<16 {
				t.Fatalf("%#x = %g, want its bits in the upper half", got[i], back[i])
			}
			if f != f {
				if back[i] == back[i] {
					t.Fatalf("NaN %#x became %g", math.Float32bits(f), back[i])
				}
				continue
			}
			// The definition, on the magnitude's bits, which are ordered like the
			// values: the nearer of the two neighbours.
			u := math.Float32bits(f)
			below, rest := uint16(u>>16), u&0xffff
			want := below
			if rest > 0x8000 || rest == 0x8000 && below&1 == 1 {
				want++
			}
			if got[i] != want {
				t.Fatalf("%g (%#x) = %#x, want %#x", f, u, got[i], want)
			}
		}
	})
}

func BenchmarkConvert(b *testing.B) {
	x, h := make([]float32, 1<<20), make([]uint16, 1<<20)
	for _, op := range []struct {
		name string
		f    func()
	}{
		{"ToFloat16", func() { ToFloat16(h, x) }}, {"FromFloat16", func() { FromFloat16(x, h) }},
		{"ToBFloat16", func() { ToBFloat16(h, x) }}, {"FromBFloat16", func() { FromBFloat16(x, h) }},
	} {
		b.Run("op="+op.name, func(b *testing.B) {
			b.SetBytes(6 << 20)
			for b.Loop() {
				op.f()
			}
		})
	}
}
