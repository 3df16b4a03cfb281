package f32

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// The squares are those of the plain loop, bit for bit, on every path, at every length and
// alignment and wherever the arrays are cut at multiples of 32.
func TestMeasuredSquaresAreThePlainLoopsToTheBit(t *testing.T) {
	onPaths(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(7, 3))
		for n := range 195 + 3*squareBlock {
			if n > 195 && n%squareBlock > 70 {
				continue
			}
			for _, over := range []bool{false, true} {
				dst, all := guarded(r, n)
				x := unaligned(r, n)
				var p Precondition
				if over {
					p = Precondition{unaligned(r, n), 1.25, 1e-3}

					// Some are negative, and are left out as zeros are.
					for i := range p.Variance {
						p.Variance[i] *= 4
						if r.IntN(5) == 0 {
							p.Variance[i] = []float32{0, 0x1p-120, 0x1p-119}[r.IntN(3)]
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
						s[i%squareLanes] += float64(x) * float64(x)
					}
				}
				if over {
					square = func(s *SquareSum, x []float32) { preconditionedSquares(s, x, &p) }
				}
				square(&want.Before, dst)
				square(&want.Added, x)
				square(&want.After, sum)
				var got AddSquares
				cut := r.IntN(n+1) &^ (squareBlock - 1)
				if !over {
					cut = r.IntN(n+1) &^ (squareLanes - 1)
				}
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

// preconditionedSquares is the definition: the reciprocal of a divisor by that of its product with
// another one, 8 squares summed in float32.
func preconditionedSquares(s *SquareSum, x []float32, p *Precondition) {
	divisor := func(i int) float32 {
		v := p.Variance[i]
		if !(v > 0x1p-120) {
			return 1
		}

		// The product is rounded, so that no machine fuses it with the sum.
		return float32(float32(math.Sqrt(float64(v)))*p.Root) + p.Epsilon
	}
	for lane := range squareLanes {
		for block := 0; block < len(x); block += squareBlock {
			var sum float32
			for i := block + lane; i < min(block+squareBlock, len(x)); i += squareLanes {
				by := 1 / divisor(i)
				if group := i - lane; group+squareLanes <= len(x) {
					other := divisor(group + (lane+squareLanes/2)%squareLanes)
					by = float32(1/float32(divisor(i)*other)) * other
				}
				if y := float32(x[i] * by); p.Variance[i] > 0x1p-120 {
					sum += float32(y * y)
				}
			}
			s[lane] += float64(sum)
		}
	}
}

// With the divisors of a rule the squares are what they are in float64, to some bits of a float32.
func TestPreconditionedSquaresAreNearThoseOfFloat64(t *testing.T) {
	onPaths(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(5, 6))

		// size is that of gradients.
		for _, size := range []float64{1e-12, 1e-3, 1, 1e15} {
			x, v := make([]float32, 5000), make([]float32, 5000)
			p := Precondition{v, 1.4, 1e-8}
			var want float64
			for i := range x {
				v[i] = float32(size * size * math.Exp(3*r.NormFloat64()))
				x[i] = float32(size * r.NormFloat64())
				if v[i] > 0x1p-120 {
					y := float64(x[i]) / (math.Sqrt(float64(v[i]))*float64(p.Root) + float64(p.Epsilon))
					want += y * y
				}
			}
			var s SquareSum
			s.Add(x, p)
			if got := s.Total(); !(math.Abs(got/want-1) < 1e-6) {
				t.Errorf("gradients of %g: got %v, want %v", size, got, want)
			}
		}
	})
}

// One pass over memory has the bits of two.
func TestAdamMeasuredIsAddToMeasuredAndAdam(t *testing.T) {
	onPaths(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(8, 9))
		for _, n := range []int{0, 1, 31, 255, 256, 257, 300, 512, 767, 1024} {
			u := Update{Scale: 0.5, Clip: 3, Shrink: 0.75, Rate: 0.01, Decay: 0.1, Beta1: 0.9, Rest1: 0.1, Beta2: 0.99, Rest2: 0.01, Root: 1.5, Epsilon: 1e-3, Keep: 0.9}
			type arrays struct{ value, grad, x, mean, variance []float32 }
			var want, got arrays
			guards := map[string][]float32{}
			for name, a := range map[string][2]*[]float32{"value": {&want.value, &got.value}, "grad": {&want.grad, &got.grad}, "x": {&want.x, &got.x},
				"mean": {&want.mean, &got.mean}, "variance": {&want.variance, &got.variance}} {
				*a[1], guards[name] = guarded(r, n)
				for i := range *a[1] {
					if name == "variance" && i%5 == 0 {
						(*a[1])[i] = 0
					} else if n > 700 && r.IntN(12) == 0 {
						(*a[1])[i] = oddValues[r.IntN(len(oddValues))]
					}
				}
				*a[0] = slices.Clone(*a[1])
			}
			var wantSums, gotSums AddSquares
			AddToMeasured(want.grad, want.x, Precondition{want.variance, 1.25, 1e-3}, &wantSums, true, true)
			u.Adam(want.value, want.grad, want.mean, want.variance)
			u.AdamMeasured(got.value, got.grad, got.x, got.mean, Precondition{got.variance, 1.25, 1e-3}, &gotSums)
			for _, c := range []struct {
				name      string
				got, want []float32
			}{{"value", got.value, want.value}, {"grad", got.grad, want.grad}, {"x", got.x, want.x}, {"mean", got.mean, want.mean}, {"variance", got.variance, want.variance}} {
				sameBits(t, c.name, c.got, c.want)
				intact(t, c.name, guards[c.name], n)
			}
			for i := range squareLanes {
				for j, c := range [][2]float64{{gotSums.Before[i], wantSums.Before[i]}, {gotSums.Added[i], wantSums.Added[i]}, {gotSums.After[i], wantSums.After[i]}} {
					if c[0] != c[1] && (c[0] == c[0] || c[1] == c[1]) {
						t.Fatalf("n %d: sum %d, lane %d: got %v, want %v", n, j, i, c[0], c[1])
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
//	go test ./internal/compute/f32 -run xxx -bench AddToMeasured
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

func TestSquareSumHasTheSameBitsOnEveryPath(t *testing.T) {
	for _, n := range lengths {
		x := normal(rand.New(rand.NewPCG(8, uint64(n))), n)
		var want SquareSum
		for i, v := range x {
			want[i%squareLanes] += float64(v) * float64(v)
		}
		onPaths(t, func(t *testing.T) {
			var got SquareSum
			got.Add(x, Precondition{})
			if got != want {
				t.Errorf("squares of %d values: partial sums %v, want %v", n, got, want)
			}
		})
	}
}
