package conv

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/paragon-train/paragon/internal/compute/f32"
	"github.com/paragon-train/paragon/internal/testing/alloctest"
)

func toHalves(v []float32) f32.Array {
	h := make([]uint16, len(v))
	f32.ToBFloat16(h, v)
	return f32.Array{BF16: h}
}

// storages are some ways in which a convolution's images can be stored: x, y, dy and dx as bfloat16
// or not.
func storages(f func(name string, x, y, dy, dx bool)) {
	for _, i := range []int{0, 15, 5, 10} {
		f(fmt.Sprintf("%04b", i), i&1 != 0, i&2 != 0, i&4 != 0, i&8 != 0)
	}
}

// Images of bfloat16 numbers give the same sums however they are stored, rounded where results are
// stored as bfloat16.
func TestStoredImagesGiveTheSameSums(t *testing.T) {
	all := pairRunners(t, 1, 3)
	for _, run := range pairRunners(t, 2) {
		run.winograd = wherePossible
		all = append(all, run)
	}

	// Products of float32 widen what is stored as bfloat16.
	for _, run := range runners(t, 2) {
		run.winograd = whereFaster
		all = append(all, run)
		run.winograd = wherePossible
		all = append(all, run)
	}

	// The last of the shapes is a reduction in parts.
	shapes := append(slices.Concat(edgeShapes, unitShapes, fewShapes), square(3, 6, 32, 64, 3, 1, 1), square(2, 5, 64, 32, 3, 1, 1), square(1, 3, 1024, 8, 3, 1, 1))
	for i, s := range shapes {
		if (slow || testing.Short()) && (s.Flops() > 1e6 || i%3 != 0) {
			continue
		}
		for _, run := range all {
			if (run.path == f32.Portable || run.unit) && (s.Flops() > 2e6 || (slow || testing.Short() || run.pool.Threads() > 1) && s.Flops() > 2e5) {
				continue
			}
			checkStored(t, s, uint64(i), run)
		}
	}
}

// checkStored compares all passes over images in some storages with those over float32.
func checkStored(t *testing.T, s Shape, seed uint64, run runner) {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 7))
	x, w, dy := rounded(random(r, s.XLen())), random(r, s.WLen()), rounded(random(r, s.YLen()))
	old := rounded(random(r, s.XLen()))
	wantY, wantDx, wantDw := run.compute(t, s, x, w, dy)
	plan, err := newPlan(s, run.pool, run.tile(), run.winograd)
	if err != nil {
		t.Fatal(err)
	}
	storages(func(storage string, xHalf, yHalf, dyHalf, dxHalf bool) {
		name := fmt.Sprintf("%v, %v, %d threads, winograd %v, storage %s: ", s, run.path, run.pool.Threads(), run.winograd, storage)
		in := func(v []float32, half bool) f32.Array {
			if half {
				return toHalves(v)
			}
			return f32.Array{F32: slices.Clone(v)}
		}
		out := func(n int, half bool) f32.Array { return in(nans(n), half) }
		y, dx, dw := out(s.YLen(), yHalf), out(s.XLen(), dxHalf), nans(s.WLen())
		X, Dy := in(x, xHalf), in(dy, dyHalf)
		plan.ForwardStored(y, X, w, nans(plan.ForwardScratchLen(xHalf)))
		plan.BackwardDataStored(dx, Dy, w, nans(plan.BackwardDataScratchLen(dyHalf)), false)
		plan.BackwardWeightStored(dw, X, Dy, nans(plan.BackwardWeightScratchLen(true)))
		sum := in(old, dxHalf)
		plan.BackwardDataStored(sum, Dy, w, nans(plan.BackwardDataScratchLen(dyHalf)), true)
		sameArray(t, name+"y", y, wantY)
		sameArray(t, name+"dx", dx, wantDx)
		sameArray(t, name+"dw", f32.Array{F32: dw}, wantDw)
		added := wide(sum)
		for i, v := range wantDx {
			got, want := float64(added[i]), float64(old[i])+float64(v)
			if d := math.Abs(got - want); !(d <= 0x1p-8*math.Abs(want)+1e-4) {
				t.Fatalf("%sdx[%d] added to %g is %g, want %g", name, i, old[i], got, want)
			}
		}
	})
}

func wide(a f32.Array) []float32 {
	if a.F32 != nil {
		return a.F32
	}
	v := make([]float32, len(a.BF16))
	f32.FromBFloat16(v, a.BF16)
	return v
}

func sameArray(t *testing.T, what string, got f32.Array, want []float32) {
	t.Helper()
	v := wide(got)
	if got.BF16 != nil {
		want = rounded(want)
	}
	for i, w := range want {
		if v[i] != w {
			t.Fatalf("%s[%d] is %g, want %g", what, i, v[i], w)
		}
	}
}

func TestStoredMethodsAllocateNothing(t *testing.T) {
	for _, run := range pairRunners(t, 2) {
		for _, s := range []Shape{square(5, 3, 20, 20, 3, 1, 1), square(3, 6, 3, 40, 3, 2, 1), square(2, 6, 64, 64, 3, 1, 1)} {
			if (run.path == f32.Portable || run.unit) && s.Flops() > 1e6 {
				continue
			}
			plan, err := newPlan(s, run.pool, run.tile(), whereFaster)
			if err != nil {
				t.Fatal(err)
			}
			scratch := make([]float32, max(plan.ForwardScratchLen(true), plan.BackwardDataScratchLen(true), plan.BackwardWeightScratchLen(true)))
			x, w, y := toHalves(make([]float32, s.XLen())), make([]float32, s.WLen()), toHalves(make([]float32, s.YLen()))
			if n := alloctest.PerRun(20, func() {
				plan.ForwardStored(y, x, w, scratch)
				plan.BackwardDataStored(x, y, w, scratch, true)
				plan.BackwardWeightStored(w, x, y, scratch)
			}); n != 0 {
				t.Errorf("%v, %v: %v allocations in a call of each method, want 0", s, run.path, n)
			}
		}
	}
}
