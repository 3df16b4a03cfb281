package f32

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/paragon-train/paragon/internal/testing/alloctest"
)

var channelShapes = [][2]int{{1, 1}, {5, 3}, {3, 8}, {130, 16}, {129, 24}, {7, 64}, {300, 70}, {2, 300}, {140, 272}, {9, 512}}

func TestChannelSums(t *testing.T) {
	onPaths(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(2, 1))
		for _, s := range channelShapes {
			rows, c := s[0], s[1]
			x := normal(r, rows*c)
			sum, sumSq := make([]float64, c), make([]float64, c)
			sum[0] = 100
			ChannelSums(sum, sumSq, x)
			for j := range c {
				want, wantSq := 0.0, 0.0
				if j == 0 {
					want = 100
				}
				for i := j; i < len(x); i += c {
					want += float64(x[i])
					wantSq += float64(x[i]) * float64(x[i])
				}
				if math.Abs(sum[j]-want) > 1e-6*(100+wantSq) || math.Abs(sumSq[j]-wantSq) > 1e-6*wantSq {
					t.Fatalf("%d rows of %d: channel %d: Σ %g and %g, want %g and %g", rows, c, j, sum[j], sumSq[j], want, wantSq)
				}
			}
		}
	})
}

// The mean is a hundred times the deviation: sums around a value near it give the variance to five
// digits.
func TestChannelSumsAroundACenterGiveTheVariance(t *testing.T) {
	onPaths(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(2, 4))
		for _, s := range channelShapes {
			rows, c := s[0], s[1]
			x, center := normal(r, rows*c), normal(r, c)
			for i := range x {
				x[i] += 100
			}
			for j := range center {
				center[j] = center[j]*0.1 + 100
			}
			sum, sumSq := make([]float64, c), make([]float64, c)
			ChannelSumsAround(sum, sumSq, x, center)
			for j := range c {
				want, wantSq := 0.0, 0.0
				for i := j; i < len(x); i += c {
					d := float64(x[i]) - float64(center[j])
					want += d
					wantSq += d * d
				}
				if math.Abs(sum[j]-want) > 1e-6*(1+wantSq) || math.Abs(sumSq[j]-wantSq) > 1e-6*wantSq {
					t.Fatalf("%d rows of %d: channel %d: Σ %g and %g, want %g and %g", rows, c, j, sum[j], sumSq[j], want, wantSq)
				}
			}
		}
	})
}

func TestChannelGradSumsWithAndWithoutMask(t *testing.T) {
	onPaths(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(2, 2))
		for _, s := range channelShapes {
			for _, masked := range []bool{false, true} {
				rows, c := s[0], s[1]
				dy, x, center := normal(r, rows*c), normal(r, rows*c), normal(r, c)
				var y []float32
				if masked {
					y = normal(r, rows*c)
				}
				sumDy, sumDyX := make([]float64, c), make([]float64, c)
				ChannelGradSums(sumDy, sumDyX, dy, x, y, center)
				for j := range c {
					var a, b, abs float64
					for i := j; i < len(x); i += c {
						if y == nil || y[i] > 0 {
							a += float64(dy[i])
							b += float64(dy[i]) * (float64(x[i]) - float64(center[j]))
							abs += math.Abs(float64(dy[i])) * (1 + math.Abs(float64(x[i])-float64(center[j])))
						}
					}
					if math.Abs(sumDy[j]-a) > 1e-6*abs || math.Abs(sumDyX[j]-b) > 1e-6*abs {
						t.Fatalf("%d rows of %d, mask %t: channel %d: %g and %g, want %g and %g", rows, c, masked, j, sumDy[j], sumDyX[j], a, b)
					}
				}
			}
		}
	})
}

func TestChannelLoopsAreTheirFormulas(t *testing.T) {
	onPaths(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(2, 3))
		for _, s := range channelShapes {
			rows, c := s[0], s[1]
			n := rows * c
			x, dy, y, res := normal(r, n), normal(r, n), normal(r, n), normal(r, n)
			p, q, sh := normal(r, c), normal(r, c), normal(r, c)
			check := func(name string, run func(dst []float32), formula func(i, j int) float64) {
				t.Helper()
				dst, all := guarded(r, n)
				run(dst)
				for i := range dst {
					if want := formula(i, i%c); !near(float64(dst[i]), want, 1e-6) {
						t.Fatalf("%s, %d rows of %d: [%d] = %g, want %g", name, rows, c, i, dst[i], want)
					}
				}
				intact(t, name, all, n)
			}
			f := func(v []float32, i int) float64 { return float64(v[i]) }
			dz := func(i int) float64 {
				if y[i] > 0 {
					return f(dy, i)
				}
				return 0
			}
			line := func(i, j int) float64 { return f(x, i)*f(p, j) + f(sh, j) }
			check("ScaleShift", func(d []float32) { ScaleShift(d, x, p, sh, false) }, line)
			check("ScaleShift with ReLU", func(d []float32) { ScaleShift(d, x, p, sh, true) }, func(i, j int) float64 { return max(0, line(i, j)) })
			check("ScaleShiftAdd", func(d []float32) { ScaleShiftAdd(d, x, res, p, sh, false) }, func(i, j int) float64 { return line(i, j) + f(res, i) })
			check("ScaleShiftAdd with ReLU", func(d []float32) { ScaleShiftAdd(d, x, res, p, sh, true) }, func(i, j int) float64 { return max(0, line(i, j)+f(res, i)) })
			check("NormGrad", func(d []float32) { NormGrad(d, dy, x, nil, p, q, sh) }, func(i, j int) float64 { return f(p, j)*f(dy, i) + f(q, j)*f(x, i) + f(sh, j) })
			check("NormGrad with mask", func(d []float32) { NormGrad(d, dy, x, y, p, q, sh) }, func(i, j int) float64 { return f(p, j)*dz(i) + f(q, j)*f(x, i) + f(sh, j) })
		}
	})
}

func TestChannelFunctionsAllocateNothing(t *testing.T) {
	onPaths(t, func(t *testing.T) {
		for _, c := range []int{6, 70} { // 6 channels are widened
			x, a, b, f := make([]float32, 65*c), make([]float64, c), make([]float64, c), make([]float32, c)
			half := make([]uint16, len(x))
			if n := alloctest.PerRun(10, func() {
				ChannelSums(a, b, x)
				ChannelSumsAround(a, b, x, f)
				ChannelGradSums(a, b, x, x, x, f)
				ScaleShift(x, x, f, f, true)
				ScaleShiftAdd(x, x, x, f, f, false)
				NormGrad(x, x, x, nil, f, f, f)
				ChannelSumsBFloat16(a, b, half)
				ChannelSumsAroundBFloat16(a, b, half, f)
				ChannelGradSumsBFloat16(a, b, half, half, half, f)
				ScaleShiftBFloat16(half, half, half, f, f, true)
				NormGradBFloat16(half, half, half, half, f, f, f)
			}); n != 0 {
				t.Errorf("%d channels: %v allocations, want 0", c, n)
			}
		}
	})
}

func BenchmarkChannel(b *testing.B) {
	const rows, c = 1024, 64
	x, y, dy := make([]float32, rows*c), make([]float32, rows*c), make([]float32, rows*c)
	s1, s2, p := make([]float64, c), make([]float64, c), make([]float32, c)
	for _, op := range []struct {
		name  string
		bytes int
		f     func()
	}{
		{"ChannelSums", 4, func() { ChannelSums(s1, s2, x) }},
		{"ChannelGradSums", 12, func() { ChannelGradSums(s1, s2, dy, x, y, p) }},
		{"ScaleShiftReLU", 8, func() { ScaleShift(y, x, p, p, true) }},
		{"NormGrad", 16, func() { NormGrad(dy, dy, x, y, p, p, p) }},
	} {
		b.Run(fmt.Sprintf("op=%s/rows=%d/c=%d", op.name, rows, c), func(b *testing.B) {
			b.SetBytes(int64(op.bytes) * rows * c)
			for b.Loop() {
				op.f()
			}
		})
	}
}
