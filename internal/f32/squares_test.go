package f32

import (
	"math"
	"math/rand/v2"
	"testing"
)

// The squares are those of the plain loop, bit for bit, on every path, at every length and alignment and wherever the arrays are cut at multiples of 32.
func TestMeasuredSquaresAreThePlainLoopsToTheBit(t *testing.T) {
	onPaths(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(7, 3))
		for n := range 195 {
			for _, over := range []bool{false, true} {
				dst, all := guarded(r, n)
				x := unaligned(r, n)
				var p Precondition
				if over {
					p = Precondition{unaligned(r, n), 1.25, 1e-3}
					for i := range p.Variance { // some are negative, and are left out as zeros are
						p.Variance[i] *= 4
						if r.IntN(5) == 0 {
							p.Variance[i] = 0
						}
					}
				}
				if n%4 == 3 {
					for _, a := range [][]float32{dst, x, p.Variance} {
						for i := range a {
							if r.IntN(12) == 0 {
								a[i] = oddValues[r.IntN(len(oddValues))]
							}
						}
					}
				}
				var want AddSquares
				sum := make([]float32, n)
				for i := range sum {
					sum[i] = dst[i] + x[i]
				}
				square := func(s *SquareSum, x []float32) {
					for i, x := range x {
						y := float64(x)
						if over {
							if !(p.Variance[i] > 0) {
								continue
							}
							d := float32(float32(math.Sqrt(float64(p.Variance[i]))) * p.Root) // rounded, so that no machine fuses it with the addition
							y = float64(float32(x * (1 / (d + p.Epsilon))))
						}
						s[i%squareLanes] += y * y
					}
				}
				square(&want.Before, dst)
				square(&want.Added, x)
				square(&want.After, sum)
				var got AddSquares
				cut := r.IntN(n+1) &^ (squareLanes - 1)
				AddToMeasured(dst[:cut], x[:cut], p.Part(0, min(cut, len(p.Variance))), &got, true, true)
				AddToMeasured(dst[cut:], x[cut:], p.Part(min(cut, len(p.Variance)), len(p.Variance)), &got, true, true)
				sameBits(t, "sum", dst, sum)
				intact(t, "sum", all, n)
				for i := range got.Before {
					for _, c := range []struct {
						name      string
						got, want float64
					}{{"before", got.Before[i], want.Before[i]}, {"added", got.Added[i], want.Added[i]}, {"after", got.After[i], want.After[i]}} {
						if c.got != c.want && (c.got == c.got || c.want == c.want) {
							t.Fatalf("n %d, over %v: %s[%d]: got %v, want %v", n, over, c.name, i, c.got, c.want)
						}
					}
				}
			}
		}
	})
}

// A value of which no second moment is known is left out, whatever it is.
func TestSquaresLeaveOutValuesWithoutAVariance(t *testing.T) {
	onPaths(t, func(t *testing.T) {
		x, v := make([]float32, 40), make([]float32, 40)
		for i := range x {
			x[i], v[i] = 3, 4
			if i%2 == 0 {
				x[i], v[i] = oddValues[i/2%len(oddValues)], 0
			}
		}
		var s SquareSum
		s.Add(x, Precondition{v, 1, 0})
		if got, want := s.Total(), 20*2.25; got != want {
			t.Errorf("got %v, want %v", got, want)
		}
	})
}

// The sums of 4 Mi values in memory.
//
//	go test ./internal/f32 -run xxx -bench AddToMeasured
func BenchmarkAddToMeasured(b *testing.B) {
	const n = 4 << 20
	dst, x, v := make([]float32, n), make([]float32, n), make([]float32, n)
	for i := range x {
		x[i], v[i] = 1e-9*rand.Float32(), rand.Float32()
	}
	var s AddSquares
	for _, c := range []struct {
		name string
		run  func()
	}{
		{"op=plain", func() { AddTo(dst, x) }},
		{"op=measured", func() { AddToMeasured(dst, x, Precondition{}, &s, true, true) }},
		{"op=preconditioned", func() { AddToMeasured(dst, x, Precondition{v, 1, 1e-8}, &s, true, true) }},
		{"op=squares", func() { s.Added.Add(x, Precondition{}) }},
		{"op=squares-preconditioned", func() { s.Added.Add(x, Precondition{v, 1, 1e-8}) }},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.SetBytes(4 * n)
			for b.Loop() {
				c.run()
			}
		})
	}
}
