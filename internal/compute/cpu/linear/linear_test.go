package linear

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/paragon-train/paragon/internal/compute/f32"
	"github.com/paragon-train/paragon/internal/compute/pool"
	"github.com/paragon-train/paragon/internal/testing/alloctest"
	"github.com/paragon-train/paragon/internal/testing/amxtest"
)

type layer struct{ batch, in, out int }

// layers are the sizes tested: fractions of tiles and panels in each dimension, one of each, and
// sums of several parts.
var layers = []layer{
	{1, 1, 1}, {1, 7, 3}, {2, 16, 12}, {3, 33, 13}, {16, 10, 25}, {17, 64, 24}, {31, 100, 50}, {33, 65, 10}, {64, 120, 84}, {65, 31, 129},
	{4, 100, 50}, {1, 300, 1000}, {5, 1500, 40}, {5, 40, 1500}, {1301, 17, 9}, {128, 257, 200},
}

// arrays are x, w, bias and dy of a layer.
func (s layer) arrays(r *rand.Rand) (x, w, bias, dy []float32) {
	normal := func(n int) []float32 {
		v := make([]float32, n)
		for i := range v {
			v[i] = float32(r.NormFloat64())
		}
		return v
	}
	return normal(s.batch * s.in), normal(s.out * s.in), normal(s.out), normal(s.batch * s.out)
}

// A sum is what a result should be: Σ of products, and Σ of their absolute values.
type sum struct{ value, size float64 }

//go:norace
func (s *sum) add(a, b float32) {
	s.value += float64(a) * float64(b)
	s.size += math.Abs(float64(a) * float64(b))
}

// expect computes the four results, y before the ReLU. It and what compares numbers are left
// without instrumentation: they run alone.
//
//go:norace
func (s layer) expect(x, w, bias, dy []float32) (y, dx, dw, db []sum) {
	y, dx, dw, db = make([]sum, s.batch*s.out), make([]sum, s.batch*s.in), make([]sum, s.out*s.in), make([]sum, s.out)
	for b := range s.batch {
		for o := range s.out {
			d := dy[b*s.out+o]
			for i := range s.in {
				y[b*s.out+o].add(x[b*s.in+i], w[o*s.in+i])
				dx[b*s.in+i].add(d, w[o*s.in+i])
				dw[o*s.in+i].add(d, x[b*s.in+i])
			}
			if bias != nil {
				y[b*s.out+o].add(bias[o], 1)
			}
			db[o].add(d, 1)
		}
	}
	return y, dx, dw, db
}

func closeTo(t *testing.T, what string, got []float32, want []sum, tolerance float64) {
	t.Helper()

	// The race detector sees every number read, so the result is copied.
	got = slices.Clone(got)
	if i := beyond(got, want, tolerance); i >= 0 {
		w := want[i]
		t.Fatalf("%s[%d] is %g, want %g: off by %.1e of the sum of its products' sizes", what, i, got[i], w.value, math.Abs(float64(got[i])-w.value)/w.size)
	}
}

// beyond returns the first number of got that is further from want than the tolerance, or -1.
//
//go:norace
func beyond(got []float32, want []sum, tolerance float64) int {
	for i, w := range want {
		if !(math.Abs(float64(got[i])-w.value) <= tolerance*(w.size+1e-30)) {
			return i
		}
	}
	return -1
}

// newPlan is a plan whose scratch memory is full of NaN.
func newPlan(t testing.TB, s layer, tile *f32.Tile, p *pool.Pool) (l *Plan, forward, backward []float32, doubles []float64) {
	t.Helper()
	l, err := New(s.batch, s.in, s.out, tile, p)
	if err != nil {
		t.Fatal(err)
	}
	nan := func(n int) []float32 {
		v := make([]float32, n)
		for i := range v {
			v[i] = float32(math.NaN())
		}
		return v
	}
	doubles = make([]float64, l.BackwardDoubles())
	for i := range doubles {
		doubles[i] = math.NaN()
	}
	return l, nan(l.ForwardScratchLen()), nan(l.BackwardScratchLen()), doubles
}

type kind struct {
	name      string
	tile      *f32.Tile
	tolerance float64
}

// kinds are the tiles of all paths that this machine has.
func kinds() (all []kind) {
	for _, p := range f32.Available() {
		all = append(all, kind{p.String(), f32.Tiles(p), 1e-6})
	}
	pairs := f32.PairTiles(f32.Available()[len(f32.Available())-1])
	all = append(all, kind{"pairs", pairs, 1.0 / 128})
	if portable := f32.PairTiles(f32.Portable); portable != pairs {
		all = append(all, kind{"portable pairs", portable, 1.0 / 128})
	}
	return append(all, kind{"emulated tile unit", pairs.WithEmulatedUnit(), 1.0 / 128})
}

// The tile unit's machine code, where there is none in a traced process.
func TestTileUnitComputesLayers(t *testing.T) {
	amxtest.Run(t, f32.BFloat16Products() == f32.TileProducts, f32.FromEnv, func(t *testing.T) {
		p := pool.New(2)
		defer p.Close()
		tile := f32.BFloat16Tiles()
		if tile.Unit() == nil {
			t.Fatalf("products of bfloat16 are by %v, want %v", f32.BFloat16Products(), f32.TileProducts)
		}

		// The last layer has more panels than one call of the unit.
		for _, s := range append(layers[:8:8], layer{5, 1500, 40}) {
			x, w, bias, dy := s.arrays(rand.New(rand.NewPCG(6, 1)))
			wantY, wantDx, wantDw, wantDb := s.expect(x, w, bias, dy)
			l, forward, backward, doubles := newPlan(t, s, tile, p)
			y, dx, dw, db := make([]float32, len(dy)), make([]float32, len(x)), make([]float32, len(w)), make([]float32, len(bias))
			l.Forward(y, x, w, bias, false, forward)
			l.Backward(dx, dw, db, x, w, dy, backward, doubles)
			what := fmt.Sprintf("%+v: ", s)
			closeTo(t, what+"y", y, wantY, 1.0/128)
			closeTo(t, what+"dx", dx, wantDx, 1.0/128)
			closeTo(t, what+"dw", dw, wantDw, 1.0/128)
			closeTo(t, what+"db", db, wantDb, 1e-6)
		}
	})
}

func TestPassesAreTheirFormulas(t *testing.T) {
	p := pool.New(3)
	defer p.Close()
	for _, s := range layers {
		r := rand.New(rand.NewPCG(1, uint64(s.in)))
		x, w, bias, dy := s.arrays(r)
		wantY, wantDx, wantDw, wantDb := s.expect(x, w, bias, dy)
		plainY, _, _, _ := s.expect(x, w, nil, dy)
		for _, k := range kinds() {
			l, forward, backward, doubles := newPlan(t, s, k.tile, p)
			y, dx, dw, db := make([]float32, len(dy)), make([]float32, len(x)), make([]float32, len(w)), make([]float32, len(bias))
			what := fmt.Sprintf("%s %+v: ", k.name, s)
			l.Forward(y, x, w, bias, false, forward)
			closeTo(t, what+"y", y, wantY, k.tolerance)
			l.Backward(dx, dw, db, x, w, dy, backward, doubles)
			closeTo(t, what+"dx", dx, wantDx, k.tolerance)
			closeTo(t, what+"dw", dw, wantDw, k.tolerance)
			closeTo(t, what+"db", db, wantDb, 1e-6)

			relu := make([]float32, len(y))
			l.Forward(relu, x, w, bias, true, forward)
			for i, v := range y {
				if relu[i] != max(v, 0) {
					t.Fatalf("%sy[%d] with ReLU is %g, want max(%g, 0)", what, i, relu[i], v)
				}
			}
			l.Forward(y, x, w, nil, false, forward)
			closeTo(t, what+"y without bias", y, plainY, k.tolerance)
		}
	}
}

// Results that are not wanted are left out, and the others stay the same bits.
func TestBackwardComputesWhatIsWanted(t *testing.T) {
	p := pool.New(2)
	defer p.Close()
	s := layer{40, 70, 50}
	for _, k := range kinds() {
		x, w, _, dy := s.arrays(rand.New(rand.NewPCG(2, 1)))
		l, _, scratch, doubles := newPlan(t, s, k.tile, p)
		all := [3][]float32{make([]float32, len(x)), make([]float32, len(w)), make([]float32, s.out)}
		l.Backward(all[0], all[1], all[2], x, w, dy, scratch, doubles)
		for wanted := range 8 {
			var got [3][]float32
			for i := range got {
				if wanted>>i&1 != 0 {
					got[i] = make([]float32, len(all[i]))
				}
			}
			l, _, scratch, doubles := newPlan(t, s, k.tile, p)
			l.Backward(got[0], got[1], got[2], x, w, dy, scratch, doubles)
			for i := range got {
				if got[i] != nil && !slices.Equal(got[i], all[i]) {
					t.Errorf("%s: result %d of those in mask %b differs from what all together give", k.name, i, wanted)
				}
			}
		}
	}
}

func TestBitsDoNotDependOnThreads(t *testing.T) {
	for _, s := range []layer{{64, 300, 200}, {70, 1100, 30}, {700, 50, 60}} {
		for _, k := range kinds() {
			if k.tolerance < 1e-3 && k.name != f32.Available()[len(f32.Available())-1].String() {
				// The order of sums is the same code on all paths.
				continue
			}
			x, w, bias, dy := s.arrays(rand.New(rand.NewPCG(3, 1)))
			var first [][]float32
			for _, threads := range []int{1, 2, 5} {
				p := pool.New(threads)
				l, forward, backward, doubles := newPlan(t, s, k.tile, p)
				got := [][]float32{make([]float32, len(dy)), make([]float32, len(x)), make([]float32, len(w)), make([]float32, s.out)}
				l.Forward(got[0], x, w, bias, true, forward)
				l.Backward(got[1], got[2], got[3], x, w, dy, backward, doubles)
				p.Close()
				if first == nil {
					first = got
				}
				for i := range got {
					if !slices.Equal(got[i], first[i]) {
						t.Errorf("%+v %s: result %d on %d threads differs from that on 1", s, k.name, i, threads)
					}
				}
			}
		}
	}
}

// A sum of n equal products is off by some n times its last bit if it is made in one go, and by
// parts by some n/parts times.
func TestLongSumsKeepTheirPrecision(t *testing.T) {
	p := pool.New(1)
	defer p.Close()
	s := layer{2, 16384, 3}
	x, w := make([]float32, s.batch*s.in), make([]float32, s.out*s.in)
	for i := range x {
		x[i] = 0.1
	}
	for i := range w {
		w[i] = 1
	}
	l, scratch, _, _ := newPlan(t, s, f32.Tiles(f32.Active()), p)
	y := make([]float32, s.batch*s.out)
	l.Forward(y, x, w, nil, false, scratch)
	if want := 16384 * float64(x[0]); math.Abs(float64(y[0])/want-1) > 1e-5 {
		t.Errorf("16384 times %g is %g, want %g: off by %.1e of it", x[0], y[0], want, math.Abs(float64(y[0])/want-1))
	}
}

// The tile unit adds up steps of 32 products, and so needs no parts: sums of random products
// against float64, root mean squares.
func TestTileUnitsLongSumsKeepTheirPrecision(t *testing.T) {
	p := pool.New(1)
	defer p.Close()
	tile := f32.PairTiles(f32.Portable).WithEmulatedUnit()
	for _, in := range []int{576, 4608, 16384} {
		s := layer{32, in, 32}
		x, w, _, dy := s.arrays(rand.New(rand.NewPCG(8, 8)))
		for _, v := range [][]float32{x, w} {
			for i := range v {
				v[i] = f32.BFloat16Value(f32.BFloat16Bits(v[i]))
			}
		}
		want, _, _, _ := s.expect(x, w, nil, dy)
		l, scratch, _, _ := newPlan(t, s, tile, p)
		y := make([]float32, len(dy))
		l.Forward(y, x, w, nil, false, scratch)
		var square, all float64
		for i, v := range want {
			square, all = square+(float64(y[i])-v.value)*(float64(y[i])-v.value), all+v.value*v.value
		}
		if off := math.Sqrt(square / all); off > 7e-7 {
			t.Errorf("sums of %d products are off by %.2g of their size, want at most 7e-7", in, off)
		} else {
			t.Logf("sums of %d products are off by %.2g of their size", in, off)
		}
	}
}

func TestPassesAllocateNothing(t *testing.T) {
	p := pool.New(2)
	defer p.Close()
	s := layer{64, 100, 90}
	for _, k := range kinds() {
		x, w, bias, dy := s.arrays(rand.New(rand.NewPCG(4, 1)))
		l, forward, backward, doubles := newPlan(t, s, k.tile, p)
		y, dx, dw := make([]float32, len(dy)), make([]float32, len(x)), make([]float32, len(w))
		if n := alloctest.PerRun(5, func() {
			l.Forward(y, x, w, bias, true, forward)
			l.Backward(dx, dw, bias, x, w, dy, backward, doubles)
		}); n != 0 {
			t.Errorf("%s: passes allocate %v times", k.name, n)
		}
	}
}

func TestNewRefusesEmptyLayers(t *testing.T) {
	p := pool.New(1)
	defer p.Close()
	for _, s := range []layer{{0, 1, 1}, {1, 0, 1}, {1, 1, -1}} {
		if _, err := New(s.batch, s.in, s.out, f32.Tiles(f32.Active()), p); err == nil {
			t.Errorf("New of %+v gave no error", s)
		}
	}
}

func BenchmarkPasses(b *testing.B) {
	p := pool.New(0)
	defer p.Close()
	for _, s := range []layer{{64, 784, 512}, {64, 512, 512}, {64, 512, 10}, {128, 784, 512}, {128, 512, 512}, {4096, 384, 1536}, {4096, 1536, 384}} {
		for _, k := range []kind{{"float32", f32.Tiles(f32.Active()), 0}, {"bfloat16", f32.PairTiles(f32.Active()), 0}} {
			x, w, bias, dy := s.arrays(rand.New(rand.NewPCG(5, 1)))
			l, forward, backward, doubles := newPlan(b, s, k.tile, p)
			y, dx, dw := make([]float32, len(dy)), make([]float32, len(x)), make([]float32, len(w))
			name := fmt.Sprintf("batch=%d/in=%d/out=%d/dtype=%s/pass=", s.batch, s.in, s.out, k.name)
			rate := func(b *testing.B, products int) {
				b.ReportMetric(2e-9*float64(products*s.batch*s.in*s.out*b.N)/b.Elapsed().Seconds(), "GFLOP/s")
			}
			b.Run(name+"forward", func(b *testing.B) {
				for b.Loop() {
					l.Forward(y, x, w, bias, true, forward)
				}
				rate(b, 1)
			})
			b.Run(name+"weight", func(b *testing.B) {
				for b.Loop() {
					l.Backward(nil, dw, nil, x, w, dy, backward, doubles)
				}
				rate(b, 1)
			})
			b.Run(name+"data", func(b *testing.B) {
				for b.Loop() {
					l.Backward(dx, nil, nil, x, w, dy, backward, doubles)
				}
				rate(b, 1)
			})
			b.Run(name+"backward", func(b *testing.B) {
				for b.Loop() {
					l.Backward(dx, dw, bias, x, w, dy, backward, doubles)
				}
				rate(b, 2)
			})
		}
	}
}
