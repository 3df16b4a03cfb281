package f32

import (
	"bytes"
	"math"
	"math/rand/v2"
	"testing"
)

func sameValues(t *testing.T, what string, got, want []float32) {
	t.Helper()
	for i := range want {
		if math.Abs(float64(got[i]-want[i])) > 1e-6 {
			t.Errorf("%s = %v, want %v", what, got, want)
			return
		}
	}
}

// The examples with known codes: the same words are on the wire of MXNet.
func TestCodesOfTheKnownExamples(t *testing.T) {
	onPaths(t, func(t *testing.T) {
		grad := []float32{0.6, -0.7, 0.1, 0.5, -0.5}
		code, residual, out := make([]byte, 4), make([]float32, 5), make([]float32, 5)
		Encode2Bit(code, residual, grad, 0.5)
		if want := []byte{0xe3, 0x80, 0, 0}; !bytes.Equal(code, want) {
			t.Errorf("2-bit code of %v = % x, want % x", grad, code, want)
		}
		sameValues(t, "2-bit residual", residual, []float32{.1, -.2, .1, 0, 0})
		AddDecoded2Bit(out, code, 0.5)
		sameValues(t, "2-bit decoded", out, []float32{.5, -.5, 0, .5, -.5})

		grad = []float32{.3, -.2, 0, 1.5, -2, .01, -.01, 4, .5}
		for threshold, want := range map[float32][]byte{0: {0x95, 0x80, 0, 0}, 0.5: {0x11, 0, 0, 0}, -0.5: {0xf7, 0x80, 0, 0}} {
			code, residual, out = []byte{1, 2, 3, 4}, make([]float32, 9), make([]float32, 9)
			Encode1Bit(code, residual, grad, threshold)
			if !bytes.Equal(code, want) {
				t.Errorf("1-bit code of %v at %g = % x, want % x", grad, threshold, code, want)
			}
			if threshold == 0 {
				sameValues(t, "1-bit residual", residual, []float32{-.7, .8, 1, .5, -1, -.99, .99, 3, -.5})
				AddDecoded1Bit(out, code)
				sameValues(t, "1-bit decoded", out, []float32{1, -1, -1, 1, -1, 1, -1, 1, 1})
			}
		}
	})
}

func TestCodeLengths(t *testing.T) {
	for _, c := range []struct{ n, two, one int }{{0, 0, 0}, {1, 4, 4}, {16, 4, 4}, {17, 8, 4}, {33, 12, 8}, {1466521, 366632, 183316}, {1440000, 360000, 180000}} {
		if two, one := Code2BitLen(c.n), Code1BitLen(c.n); two != c.two || one != c.one {
			t.Errorf("codes of %d elements have %d and %d bytes, want %d and %d", c.n, two, one, c.two, c.one)
		}
	}
}

// Over many pushes, on any path: bits as the plain loop gives them, and nothing is lost between
// code and residual.
func TestCodesAgreeWithThePlainLoopToTheBit(t *testing.T) {
	type codec struct {
		name   string
		len    func(n int) int
		encode func(code []byte, r, g []float32, t float32)
		plain  func(code []byte, r, g []float32, t float32)
		decode func(dst []float32, code []byte, t float32)
		slow   func(dst []float32, code []byte, t float32)
	}
	codecs := []codec{
		{"2bit", Code2BitLen, Encode2Bit, encode2BitPortable, AddDecoded2Bit, addDecoded2BitPortable},
		{"1bit", Code1BitLen, Encode1Bit, encode1BitPortable,
			func(dst []float32, code []byte, _ float32) { AddDecoded1Bit(dst, code) }, func(dst []float32, code []byte, _ float32) { addDecoded1BitPortable(dst, code) }},
	}
	onPaths(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(4, 1))
		for _, c := range codecs {
			for _, n := range lengths {
				residual, want := make([]float32, n), make([]float32, n)
				out, wantOut := normal(r, n), make([]float32, n)
				copy(wantOut, out)
				for range 5 {
					g := normal(r, n)
					for i := range g {
						if i%5 == 0 {
							g[i] = []float32{0.5, -0.5, 0, float32(math.NaN()), float32(math.Inf(1)), float32(math.Copysign(0, -1))}[r.IntN(6)]
						}
					}
					code, wantCode := make([]byte, c.len(n)), make([]byte, c.len(n))
					r.Uint64()
					c.encode(code, residual, g, 0.5)
					c.plain(wantCode, want, g, 0.5)
					c.decode(out, code, 0.5)
					c.slow(wantOut, wantCode, 0.5)
					if !bytes.Equal(code, wantCode) {
						t.Fatalf("%s of %d: code % x, want % x", c.name, n, code, wantCode)
					}
					for i := range want {
						if math.Float32bits(residual[i]) != math.Float32bits(want[i]) && want[i] == want[i] {
							t.Fatalf("%s of %d: residual[%d] = %g, want %g", c.name, n, i, residual[i], want[i])
						}
						if math.Float32bits(out[i]) != math.Float32bits(wantOut[i]) {
							t.Fatalf("%s of %d: decoded[%d] = %g, want %g", c.name, n, i, out[i], wantOut[i])
						}
					}
				}
			}
		}
	})
}

func BenchmarkCompress(b *testing.B) {
	const n = 1 << 20
	r := rand.New(rand.NewPCG(1, 1))
	g, res, out, code := normal(r, n), make([]float32, n), make([]float32, n), make([]byte, Code2BitLen(n))
	one := code[:Code1BitLen(n)]
	for _, op := range []struct {
		name string
		f    func()
	}{
		{"Encode2Bit", func() { Encode2Bit(code, res, g, 0.5) }}, {"AddDecoded2Bit", func() { AddDecoded2Bit(out, code, 0.5) }},
		{"Encode1Bit", func() { Encode1Bit(one, res, g, 0) }}, {"AddDecoded1Bit", func() { AddDecoded1Bit(out, one) }},
	} {
		b.Run("op="+op.name, func(b *testing.B) {
			b.SetBytes(4 * n)
			for b.Loop() {
				op.f()
			}
		})
	}
}
