package conv

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/paragon-train/paragon/internal/f32"
	"github.com/paragon-train/paragon/internal/pool"
)

// naive is the plain loop of the three formulas, in float64, with the sums of absolute products beside them, which bound the
// rounding error.
type naive struct{ y, dx, dw, absY, absDx, absDw []float64 }

func convolve(s Shape, x, w, dy []float32) naive {
	r := naive{make([]float64, s.YLen()), make([]float64, s.XLen()), make([]float64, s.WLen()), make([]float64, s.YLen()), make([]float64, s.XLen()), make([]float64, s.WLen())}
	outH, outW := s.OutH(), s.OutW()
	for n := range s.N {
		for oh := range outH {
			for ow := range outW {
				for i := range s.R {
					for j := range s.S {
						h, v := oh*s.StrideH+i-s.PadH, ow*s.StrideW+j-s.PadW
						if h < 0 || h >= s.H || v < 0 || v >= s.W {
							continue
						}
						for k := range s.K {
							py := ((n*outH+oh)*outW+ow)*s.K + k
							for c := range s.C {
								px, pw := ((n*s.H+h)*s.W+v)*s.C+c, ((k*s.C+c)*s.R+i)*s.S+j
								fx, fw, fy := float64(x[px]), float64(w[pw]), float64(dy[py])
								r.y[py] += fx * fw
								r.dx[px] += fy * fw
								r.dw[pw] += fx * fy
								r.absY[py] += math.Abs(fx * fw)
								r.absDx[px] += math.Abs(fy * fw)
								r.absDw[pw] += math.Abs(fx * fy)
							}
						}
					}
				}
			}
		}
	}
	return r
}

func random(r *rand.Rand, n int) []float32 {
	v := make([]float32, n)
	for i := range v {
		v[i] = float32(r.NormFloat64())
	}
	return v
}

// close checks got against want to 4e-6 of the sum of absolute products: float32 with room for any order of adding.
func closeTo(t *testing.T, what string, got []float32, want, abs []float64) {
	t.Helper()
	for i := range want {
		if d := math.Abs(float64(got[i]) - want[i]); !(d <= 4e-6*abs[i]) {
			t.Errorf("%s[%d] = %g, want %g (difference %.3g, Σ|products| %.3g)", what, i, got[i], want[i], d, abs[i])
			return
		}
	}
}

// check compares all methods with the plain loops, on one path. Arrays are cut out of larger ones whose rest must not change,
// and destinations start as NaN.
func check(t *testing.T, s Shape, path f32.Path, p *pool.Pool, seed uint64) {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 1))
	x, w, dy := random(r, s.XLen()), random(r, s.WLen()), random(r, s.YLen())
	want := convolve(s, x, w, dy)
	plan, err := newPlan(s, p, f32.Tiles(path))
	if err != nil {
		t.Fatal(err)
	}
	plan.SetScratch(nans(plan.ScratchLen()))
	const guard = 64
	dst := func(n int) []float32 { return nans(n + guard) }
	y, dx, dw := dst(s.YLen()), dst(s.XLen()), dst(s.WLen())
	plan.Forward(y[:s.YLen()], x, w)
	plan.BackwardData(dx[:s.XLen()], dy, w)
	plan.BackwardWeight(dw[:s.WLen()], x, dy)
	name := fmt.Sprintf("%v, %v, %d threads: ", s, path, p.Threads())
	closeTo(t, name+"y", y, want.y, want.absY)
	closeTo(t, name+"dx", dx, want.dx, want.absDx)
	closeTo(t, name+"dw", dw, want.dw, want.absDw)
	for _, d := range [][]float32{y[s.YLen():], dx[s.XLen():], dw[s.WLen():]} {
		for i, v := range d {
			if v == v {
				t.Fatalf("%svalue %d after the end was overwritten with %g", name, i, v)
			}
		}
	}
}

func nans(n int) []float32 {
	v := make([]float32, n)
	for i := range v {
		v[i] = float32(math.NaN())
	}
	return v
}

// square is a shape with the same size, kernel, stride and padding in both directions.
func square(n, h, c, k, r, stride, pad int) Shape {
	return Shape{N: n, H: h, W: h, C: c, K: k, R: r, S: r, StrideH: stride, StrideW: stride, PadH: pad, PadW: pad}
}

var edgeShapes = []Shape{
	square(1, 1, 1, 1, 1, 1, 0),
	square(1, 1, 1, 1, 3, 1, 1),
	square(3, 1, 20, 40, 3, 1, 1),  // only the middle tap is used
	square(2, 2, 20, 33, 3, 1, 1),  // every pixel is a corner
	square(13, 2, 16, 17, 3, 2, 1), // ImageNet stem's last stages
	square(2, 9, 3, 35, 3, 1, 1),
	square(2, 11, 3, 16, 7, 2, 3),
	square(5, 7, 12, 31, 1, 1, 0),
	square(5, 7, 12, 32, 1, 2, 0), // three of four pixels of dx get nothing
	square(2, 8, 5, 7, 1, 3, 0),
	square(2, 6, 40, 50, 3, 2, 1),
	square(1, 5, 8, 8, 5, 1, 2),
	square(1, 4, 9, 10, 2, 2, 0),
	square(2, 5, 6, 7, 2, 1, 1), // y is larger than x
	square(1, 3, 4, 5, 3, 1, 3), // pixels of y that see nothing but padding
	square(1, 10, 4, 5, 3, 4, 0),
	square(40, 3, 33, 65, 3, 1, 1),
	{N: 2, H: 7, W: 4, C: 10, K: 12, R: 1, S: 3, StrideH: 1, StrideW: 2, PadH: 0, PadW: 1},
	{N: 2, H: 3, W: 20, C: 2, K: 6, R: 3, S: 5, StrideH: 2, StrideW: 1, PadH: 1, PadW: 0},
	{N: 1, H: 6, W: 5, C: 100, K: 3, R: 4, S: 2, StrideH: 3, StrideW: 2, PadH: 2, PadW: 1},
}

func TestConvolutionsAreThoseOfThePlainLoops(t *testing.T) {
	for _, path := range f32.Available() {
		for _, threads := range []int{1, 3} {
			p := pool.New(threads)
			for i, s := range edgeShapes {
				check(t, s, path, p, uint64(i))
			}
			p.Close()
		}
	}
}

// Random shapes, seeds printed with the shape.
func TestRandomShapes(t *testing.T) {
	count := 60
	if testing.Short() {
		count = 15
	}
	for _, path := range f32.Available() {
		p := pool.New(2)
		for seed := range uint64(count) {
			r := rand.New(rand.NewPCG(seed, 2))
			one := func(n int) int { return 1 + r.IntN(n) }
			s := Shape{N: one(5), H: one(12), W: one(12), C: one(40), K: one(70), R: one(5), S: one(5),
				StrideH: one(3), StrideW: one(3), PadH: r.IntN(3), PadW: r.IntN(3)}
			if s.Validate() != nil {
				continue
			}
			check(t, s, path, p, seed)
		}
		p.Close()
	}
}

// The plans of large reductions and batches cut their work into parts; small limits are not needed to reach those.
func TestResultsDoNotDependOnTheNumberOfThreads(t *testing.T) {
	for _, path := range f32.Available() {
		for _, s := range []Shape{square(6, 8, 64, 64, 3, 1, 1), square(9, 4, 128, 100, 3, 2, 1), square(33, 16, 3, 64, 3, 1, 1)} {
			if path == f32.Portable && s.N > 10 {
				continue
			}
			r := rand.New(rand.NewPCG(3, 3))
			x, w, dy := random(r, s.XLen()), random(r, s.WLen()), random(r, s.YLen())
			var first [3][]float32
			for threads := 1; threads <= 5; threads += 2 {
				p := pool.New(threads)
				plan, err := newPlan(s, p, f32.Tiles(path))
				if err != nil {
					t.Fatal(err)
				}
				got := [3][]float32{make([]float32, s.YLen()), make([]float32, s.XLen()), make([]float32, s.WLen())}
				plan.Forward(got[0], x, w)
				plan.BackwardData(got[1], dy, w)
				plan.BackwardWeight(got[2], x, dy)
				p.Close()
				if threads == 1 {
					first = got
				}
				for i, name := range []string{"y", "dx", "dw"} {
					if !slices.Equal(got[i], first[i]) {
						t.Errorf("%v, %v: %s with %d threads differs from that with 1", s, path, name, threads)
					}
				}
			}
		}
	}
}

func TestMethodsAllocateNothing(t *testing.T) {
	p := pool.New(2)
	defer p.Close()
	for _, path := range f32.Available() {
		for _, s := range []Shape{square(3, 6, 20, 40, 3, 1, 1), square(3, 6, 3, 40, 3, 2, 1)} {
			plan, err := newPlan(s, p, f32.Tiles(path))
			if err != nil {
				t.Fatal(err)
			}
			plan.SetScratch(make([]float32, plan.ScratchLen()))
			x, w, y := make([]float32, s.XLen()), make([]float32, s.WLen()), make([]float32, s.YLen())
			if n := testing.AllocsPerRun(20, func() {
				plan.Forward(y, x, w)
				plan.BackwardData(x, y, w)
				plan.BackwardWeight(w, x, y)
			}); n != 0 {
				t.Errorf("%v, %v: %v allocations in a call of each method, want 0", s, path, n)
			}
		}
	}
}

func TestShapesOutOfRangeAreRefused(t *testing.T) {
	good := square(2, 8, 4, 4, 3, 1, 1)
	for name, change := range map[string]func(*Shape){
		"N": func(s *Shape) { s.N = 0 }, "C": func(s *Shape) { s.C = -1 }, "StrideW": func(s *Shape) { s.StrideW = 0 },
		"PadH": func(s *Shape) { s.PadH = -1 }, "kernel": func(s *Shape) { s.R = 11 }, "array": func(s *Shape) { s.N = 1 << 30 },
	} {
		s := good
		change(&s)
		if err := s.Validate(); err == nil {
			t.Errorf("%s out of range (%v): no error", name, s)
		}
	}
	if err := good.Validate(); err != nil {
		t.Errorf("%v: %v", good, err)
	}
}
