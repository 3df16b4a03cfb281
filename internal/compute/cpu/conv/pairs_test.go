package conv

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/paragon-train/paragon/internal/compute/f32"
	"github.com/paragon-train/paragon/internal/compute/pool"
	"github.com/paragon-train/paragon/internal/testing/alloctest"
)

// pairRunners is the assembly, where this machine has it, the portable loops, and an emulated tile
// unit, each on some numbers of threads.
func pairRunners(t *testing.T, threads ...int) []runner {
	var all []runner
	for _, path := range f32.Available() {
		if path != f32.Portable && !f32.HasBFloat16(path) {
			continue
		}
		for _, n := range threads {
			p := pool.New(n)
			t.Cleanup(p.Close)
			all = append(all, runner{path: path, pool: p, winograd: never, pairs: true})
			if path == f32.AVX512 || path == f32.Portable && !f32.HasBFloat16(f32.AVX512) {
				all = append(all, runner{path: path, pool: p, winograd: never, pairs: true, unit: true})
			}
		}
	}
	return all
}

// rounded is v as bfloat16.
//
//go:norace
func rounded(v []float32) []float32 {
	r := make([]float32, len(v))
	for i := range v {
		r[i] = f32.BFloat16Value(f32.BFloat16Bits(v[i]))
	}
	return r
}

// checkPairs compares with the plain loops over rounded operands (but for sums over few channels),
// as closely as float32 is, and with those over the operands as they are: a product of two rounded
// numbers is off by 2⁻⁷ + 2⁻¹⁶ at most.
func checkPairs(t *testing.T, s Shape, seed uint64, runners []runner) {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 1))
	x, w, dy := random(r, s.XLen()), random(r, s.WLen()), random(r, s.YLen())
	want, exact := convolve(s, rounded(x), rounded(w), rounded(dy)), convolve(s, x, w, dy)
	if s.C < fewChannels {
		want.y, want.absY = exact.y, exact.absY
	}
	if s.K < fewChannels {
		want.dx, want.absDx = exact.dx, exact.absDx
	}
	for _, run := range runners {
		y, dx, dw := run.compute(t, s, x, w, dy)
		name := fmt.Sprintf("%v, bfloat16, %v, %d threads: ", s, run.path, run.pool.Threads())
		closeTo(t, name+"y", y, want.y, want.absY)
		closeTo(t, name+"dx", dx, want.dx, want.absDx)
		closeTo(t, name+"dw", dw, want.dw, want.absDw)
		for _, c := range []struct {
			name      string
			got       []float32
			want, abs []float64
		}{{"y", y, exact.y, exact.absY}, {"dx", dx, exact.dx, exact.absDx}, {"dw", dw, exact.dw, exact.absDw}} {
			if i := beyond(c.got, c.want, c.abs, 0x1p-7+0x1p-15); i >= 0 {
				t.Fatalf("%s%s[%d] is %g, want %g within %.3g", name, c.name, i, c.got[i], c.want[i], (0x1p-7+0x1p-15)*c.abs[i])
			}
		}
	}
}

func TestBFloat16ConvolutionsAreThoseOfRoundedOperands(t *testing.T) {
	all := pairRunners(t, 1, 3)
	for i, s := range quick(edgeShapes, 1e6) {
		checkPairs(t, s, uint64(i), all)
	}
}

func TestRandomShapesOfBFloat16(t *testing.T) {
	count := 60
	if testing.Short() || slow {
		count = 15
	}
	all := pairRunners(t, 2)
	for seed := range uint64(count) {
		if s, ok := randomShape(seed, 4); ok {
			checkPairs(t, s, seed, all)
		}
	}
}

func TestResNetShapesOfBFloat16(t *testing.T) {
	values := random(rand.New(rand.NewPCG(5, 5)), 3<<20)
	for i := range values {
		values[i] = f32.BFloat16Value(f32.BFloat16Bits(values[i]))
	}
	all := pairRunners(t, 2)
	for i, s := range resnetShapes(3) {
		if (testing.Short() || slow) && i%4 != 0 {
			continue
		}
		r := rand.New(rand.NewPCG(uint64(i), 5))
		x, w, dy := values[i:][:s.XLen()], values[2*i+100:][:s.WLen()], values[3*i+1000:][:s.YLen()]
		for _, run := range all {
			// Plain Go and emulators of other CPUs take long for bfloat16.
			plain := run.path == f32.Portable || run.unit
			if plain && slow || (plain || testing.Short()) && s.Flops() > 1e7 {
				continue
			}
			y, dx, dw := run.compute(t, s, x, w, dy)
			checkSome(t, fmt.Sprintf("%v, bfloat16, %v: ", s, run.path), s, r, x, w, dy, y, dx, dw)
		}
	}
}

func TestBFloat16ResultsDoNotDependOnThreads(t *testing.T) {
	for _, s := range []Shape{square(5, 8, 64, 64, 3, 1, 1), square(9, 4, 48, 40, 3, 2, 1), square(3, 9, 3, 33, 3, 1, 1)} {
		r := rand.New(rand.NewPCG(3, 3))
		x, w, dy := random(r, s.XLen()), random(r, s.WLen()), random(r, s.YLen())
		all := pairRunners(t, 1, 2, 4)

		// first has what is the same for all numbers of threads.
		first := map[runner][3][]float32{}
		for _, run := range all {
			y, dx, dw := run.compute(t, s, x, w, dy)
			got := [3][]float32{y, dx, dw}
			alike := run
			alike.pool = nil
			if run.pool.Threads() == 1 {
				first[alike] = got
			}
			for i, name := range []string{"y", "dx", "dw"} {
				if !slices.Equal(got[i], first[alike][i]) {
					t.Errorf("%v, %v: %s with %d threads differs from that with 1", s, run.path, name, run.pool.Threads())
				}
			}
		}
	}
}

func TestBFloat16MethodsAllocateNothing(t *testing.T) {
	for _, run := range pairRunners(t, 2) {
		for _, s := range []Shape{square(5, 4, 20, 40, 3, 1, 1), square(3, 6, 3, 40, 3, 2, 1)} {
			plan, err := newPlan(s, run.pool, run.tile(), whereFaster)
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
				t.Errorf("%v, %v: %v allocations in a call of each method, want 0", s, run.path, n)
			}
		}
	}
}
