package conv

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/paragon-train/paragon/internal/compute/f32"
	"github.com/paragon-train/paragon/internal/compute/pool"
	"github.com/paragon-train/paragon/internal/testing/alloctest"
)

// naive is the plain loop of the three formulas, in float64, with the sums of absolute products
// beside them, which bound the rounding error.
type naive struct{ y, dx, dw, absY, absDx, absDw []float64 }

// convolve and what compares numbers are left without instrumentation: they run alone, on results
// that compute has read before them.
//
//go:norace
func convolve(s Shape, x, w, dy []float32) naive {
	r := naive{make([]float64, s.YLen()), make([]float64, s.XLen()), make([]float64, s.WLen()), make([]float64, s.YLen()), make([]float64, s.XLen()), make([]float64, s.WLen())}
	outH, outW := s.OutH(), s.OutW()
	stepH, stepW := s.steps()
	for n := range s.N {
		for oh := range outH {
			for ow := range outW {
				for i := range s.R {
					for j := range s.S {
						h, v := oh*s.StrideH+i*stepH-s.PadH, ow*s.StrideW+j*stepW-s.PadW
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

// close checks got against want to 4e-6 of the sum of absolute products: float32 with room for any
// order of adding.
func closeTo(t *testing.T, what string, got []float32, want, abs []float64) {
	t.Helper()
	if i := beyond(got, want, abs, 4e-6); i >= 0 {
		t.Errorf("%s[%d] = %g, want %g (difference %.3g, Σ|products| %.3g)", what, i, got[i], want[i], math.Abs(float64(got[i])-want[i]), abs[i])
	}
}

// beyond returns the first number of got that is further from want than a part of abs, or -1.
//
//go:norace
func beyond(got []float32, want, abs []float64, part float64) int {
	for i := range want {
		if d := math.Abs(float64(got[i]) - want[i]); !(d <= part*abs[i]) {
			return i
		}
	}
	return -1
}

// A runner is where and how a plan runs.
type runner struct {
	path     f32.Path
	pool     *pool.Pool
	winograd useWinograd
	pairs    bool // products of bfloat16
	unit     bool // by an emulated tile unit
}

// runners is each path on one thread and on three.
func runners(t *testing.T, threads ...int) []runner {
	var all []runner
	for _, path := range f32.Available() {
		for _, n := range threads {
			p := pool.New(n)
			t.Cleanup(p.Close)
			all = append(all, runner{path: path, pool: p, winograd: never})
		}
	}
	return all
}

// compute runs all methods. Destinations start as NaN and are cut out of larger arrays whose rest
// must not change.
func (r runner) compute(t *testing.T, s Shape, x, w, dy []float32) (y, dx, dw []float32) {
	t.Helper()
	plan, err := newPlan(s, r.pool, r.tile(), r.winograd)
	if err != nil {
		t.Fatal(err)
	}
	plan.SetScratch(nans(plan.ScratchLen()))
	const guard = 64
	y, dx, dw = nans(s.YLen()+guard), nans(s.XLen()+guard), nans(s.WLen()+guard)
	plan.Forward(y[:s.YLen()], x, w)
	plan.BackwardData(dx[:s.XLen()], dy, w)
	plan.BackwardWeight(dw[:s.WLen()], x, dy)
	twice := slices.Clone(dx)
	plan.BackwardDataAdd(twice[:s.XLen()], dy, w)
	if i := notTwice(dx[:s.XLen()], slices.Clone(twice)); i >= 0 {
		t.Fatalf("%v, %v: BackwardDataAdd to dx[%d] = %g gives %g, want twice that", s, r.path, i, dx[i], twice[i])
	}
	for _, d := range [][]float32{y[s.YLen():], dx[s.XLen():], dw[s.WLen():]} {
		for i, v := range d {
			if v == v {
				t.Fatalf("%v, %v: value %d after the end was overwritten with %g", s, r.path, i, v)
			}
		}
	}

	// The race detector sees every number read, so the results are copied.
	return slices.Clone(y[:s.YLen()]), slices.Clone(dx[:s.XLen()]), slices.Clone(dw[:s.WLen()])
}

//go:norace
func notTwice(dx, twice []float32) int {
	for i, v := range dx {
		if d := math.Abs(float64(twice[i] - 2*v)); !(d <= 1e-4*(1+math.Abs(float64(v)))) {
			return i
		}
	}
	return -1
}

// check compares all methods with the plain loops.
func check(t *testing.T, s Shape, seed uint64, runners []runner) {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 1))
	x, w, dy := random(r, s.XLen()), random(r, s.WLen()), random(r, s.YLen())
	want := convolve(s, x, w, dy)
	for _, run := range runners {
		y, dx, dw := run.compute(t, s, x, w, dy)
		name := fmt.Sprintf("%v, %v, %d threads: ", s, run.path, run.pool.Threads())
		closeTo(t, name+"y", y, want.y, want.absY)
		closeTo(t, name+"dx", dx, want.dx, want.absDx)
		closeTo(t, name+"dw", dw, want.dw, want.absDw)
	}
}

func nans(n int) []float32 {
	v := make([]float32, n)
	if n > 0 {
		v[0] = float32(math.NaN())
	}
	for k := 1; k < n; k *= 2 {
		copy(v[k:], v[:k])
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
	square(5, 7, 12, 32, 1, 2, 0), // three pixels of four get nothing
	square(2, 8, 5, 7, 1, 3, 0),
	square(2, 6, 40, 50, 3, 2, 1),
	square(1, 5, 8, 8, 5, 1, 2),
	square(1, 4, 9, 10, 2, 2, 0),
	square(2, 5, 6, 7, 2, 1, 1), // y is larger than x
	square(1, 3, 4, 5, 3, 1, 3), // some see nothing but padding
	square(1, 10, 4, 5, 3, 4, 0),
	square(40, 3, 33, 65, 3, 1, 1),
	square(2, 9, 3, 64, 3, 2, 1),
	square(2, 3, 2, 64, 5, 1, 4),
	{N: 2, H: 7, W: 4, C: 10, K: 12, R: 1, S: 3, StrideH: 1, StrideW: 2, PadH: 0, PadW: 1},
	{N: 2, H: 3, W: 20, C: 2, K: 6, R: 3, S: 5, StrideH: 2, StrideW: 1, PadH: 1, PadW: 0},
	{N: 1, H: 6, W: 5, C: 100, K: 3, R: 4, S: 2, StrideH: 3, StrideW: 2, PadH: 2, PadW: 1},

	// Taps that are no neighbours, and padding that differs from side to side.
	{N: 2, H: 8, W: 9, C: 16, K: 32, R: 3, S: 3, StrideH: 1, StrideW: 1, PadH: 2, PadW: 2, DilationH: 2, DilationW: 2},
	{N: 9, H: 8, W: 9, C: 32, K: 32, R: 3, S: 3, StrideH: 1, StrideW: 1, PadH: 1, PadW: 1, MoreH: 1},
	{N: 2, H: 8, W: 8, C: 3, K: 40, R: 3, S: 3, StrideH: 2, StrideW: 2, MoreH: 1, MoreW: 1},
	{N: 2, H: 9, W: 7, C: 5, K: 2, R: 3, S: 2, StrideH: 2, StrideW: 1, PadH: 2, PadW: 3, MoreH: -2, MoreW: -1, DilationH: 1, DilationW: 4},
	{N: 3, H: 6, W: 6, C: 20, K: 20, R: 1, S: 1, StrideH: 1, StrideW: 1, MoreW: 2},
}

// quick is the shapes, where numeric loops are slow without those that take more operations than
// most.
func quick(shapes []Shape, most float64) []Shape {
	if !slow && !testing.Short() {
		return shapes
	}
	return slices.DeleteFunc(slices.Clone(shapes), func(s Shape) bool { return float64(s.Flops()) > most })
}

func TestConvolutionsAreThoseOfThePlainLoops(t *testing.T) {
	all := runners(t, 1, 3)
	for i, s := range quick(edgeShapes, 1e6) {
		check(t, s, uint64(i), all)
	}
}

// randomShape makes a small valid shape of what two numbers say.
func randomShape(a, b uint64) (Shape, bool) {
	r := rand.New(rand.NewPCG(a, b))
	one := func(n int) int { return 1 + r.IntN(n) }
	s := Shape{N: one(5), H: one(12), W: one(12), C: one(40), K: one(70), R: one(5), S: one(5),
		StrideH: one(3), StrideW: one(3), PadH: r.IntN(3), PadW: r.IntN(3), DilationH: one(2), DilationW: one(2), MoreH: r.IntN(2), MoreW: r.IntN(2)}
	return s, s.Validate() == nil
}

func TestRandomShapes(t *testing.T) {
	count := 60
	if testing.Short() || slow {
		count = 15
	}
	all := runners(t, 2)
	for seed := range uint64(count) {
		if s, ok := randomShape(seed, 2); ok {
			check(t, s, seed, all)
		}
	}
}

func FuzzShapes(f *testing.F) {
	f.Add(uint64(1), uint64(3))
	f.Fuzz(func(t *testing.T, a, b uint64) {
		if s, ok := randomShape(a, b); ok {
			check(t, s, a, runners(t, 2))
		}
	})
}

func TestResultsDoNotDependOnTheNumberOfThreads(t *testing.T) {
	for _, path := range f32.Available() {
		for _, s := range []Shape{square(6, 8, 64, 64, 3, 1, 1), square(9, 4, 128, 100, 3, 2, 1), square(33, 16, 3, 64, 3, 1, 1), square(40, 8, 64, 96, 3, 1, 1), square(33, 14, 6, 16, 5, 1, 0)} {
			if (path == f32.Portable || testing.Short()) && s.N > 10 || slow && s.N > 33 {
				continue
			}
			r := rand.New(rand.NewPCG(3, 3))
			x, w, dy := random(r, s.XLen()), random(r, s.WLen()), random(r, s.YLen())
			var first [3][]float32
			for threads := 1; threads <= 5; threads += 2 {
				p := pool.New(threads)
				y, dx, dw := runner{path: path, pool: p, winograd: whereFaster}.compute(t, s, x, w, dy)
				p.Close()
				got := [3][]float32{y, dx, dw}
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
		for _, s := range []Shape{square(3, 6, 20, 40, 3, 1, 1), square(3, 6, 3, 40, 3, 2, 1), square(32, 14, 6, 16, 5, 1, 0)} {
			plan, err := newPlan(s, p, f32.Tiles(path), whereFaster)
			if err != nil {
				t.Fatal(err)
			}
			plan.SetScratch(make([]float32, plan.ScratchLen()))
			x, w, y := make([]float32, s.XLen()), make([]float32, s.WLen()), make([]float32, s.YLen())
			if n := alloctest.PerRun(20, func() {
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

func (r runner) tile() *f32.Tile {
	switch {
	case r.unit:
		return f32.PairTiles(r.path).WithEmulatedUnit()
	case r.pairs:
		return f32.PairTiles(r.path)
	}
	return f32.Tiles(r.path)
}
