package conv

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/paragon-train/paragon/internal/compute/f32"
	"github.com/paragon-train/paragon/internal/compute/pool"
)

// Winograd's error is relative to what is added before the multiplication: the bound here is 1e-5
// of the largest sum of absolute products of the image.
func TestWinogradIsThePlainConvolution(t *testing.T) {
	shapes := []Shape{
		square(1, 3, 16, 32, 3, 1, 1), square(2, 8, 32, 64, 3, 1, 1), square(3, 5, 48, 32, 3, 1, 1), square(13, 4, 64, 96, 3, 1, 1),
		square(2, 7, 16, 32, 3, 1, 0), square(2, 4, 16, 32, 3, 1, 2), square(1, 2, 32, 32, 3, 1, 1),
		square(3, 4, 144, 160, 3, 1, 1), // the last blocks of dw are smaller
		square(35, 7, 48, 32, 3, 1, 1),  // patches in two parts
		{N: 2, H: 4, W: 9, C: 32, K: 32, R: 3, S: 3, StrideH: 1, StrideW: 1, PadH: 0, PadW: 1},
	}
	all := runners(t, 1, 3)
	for i, s := range shapes {
		if (slow || testing.Short()) && i%3 != 0 {
			continue
		}
		r := rand.New(rand.NewPCG(uint64(i), 7))
		x, w, dy := random(r, s.XLen()), random(r, s.WLen()), random(r, s.YLen())
		want := convolve(s, x, w, dy)
		ways := []runner{}
		for _, run := range all {
			for _, run.winograd = range []useWinograd{wherePossible, wherePossible4} {
				ways = append(ways, run)
			}
		}
		for _, run := range ways {
			y, dx, dw := run.compute(t, s, x, w, dy)
			for name, c := range map[string]struct {
				got       []float32
				want, abs []float64
			}{"y": {y, want.y, want.absY}, "dx": {dx, want.dx, want.absDx}, "dw": {dw, want.dw, want.absDw}} {
				bound := 0.0
				for _, a := range c.abs {
					bound = max(bound, a)
				}
				for j := range c.want {
					if d := math.Abs(float64(c.got[j]) - c.want[j]); !(d <= 1e-5*bound) {
						t.Fatalf("%v, %v, %d threads: %s[%d] = %g, want %g within %.2g", s, run.path, run.pool.Threads(), name, j, c.got[j], c.want[j], 1e-5*bound)
					}
				}
			}
		}
	}
}

// Blocks of all sizes, several parts of each, several steps of a part, the last one smaller.
func TestWinogradOfLargeBatches(t *testing.T) {
	if testing.Short() || slow {
		t.Skip("takes a second, and much longer with the race detector")
	}
	for i, s := range []Shape{square(67, 8, 160, 192, 3, 1, 1), square(9, 31, 64, 32, 3, 1, 1), square(33, 16, 32, 96, 3, 1, 0)} {
		r := rand.New(rand.NewPCG(uint64(i), 9))
		x, w, dy := random(r, s.XLen()), random(r, s.WLen()), random(r, s.YLen())
		for _, run := range runners(t, 3) {
			if !f32.Tiles(run.path).CanWinograd() {
				continue
			}
			for _, run.winograd = range []useWinograd{wherePossible, wherePossible4} {
				y, dx, dw := run.compute(t, s, x, w, dy)
				checkSome(t, fmt.Sprintf("%v, %v, by Winograd: ", s, run.path), s, r, x, w, dy, y, dx, dw)
			}
		}
	}
}

// In bfloat16 it is the transformed inputs and weights that are rounded, sums of up to four and
// nine. So the error is relative to what is near by, here 2⁻⁸ of the largest sum of absolute
// products, and on average at most two and a quarter times that of plain products.
func TestWinogradOfBFloat16IsNearThePlainConvolution(t *testing.T) {
	all := pairRunners(t, 1, 3)
	for i, s := range []Shape{square(2, 8, 32, 64, 3, 1, 1), square(13, 4, 64, 96, 3, 1, 1), square(3, 5, 96, 32, 3, 1, 1), square(2, 7, 32, 32, 3, 1, 0), square(1, 2, 32, 32, 3, 1, 1)} {
		if (slow || testing.Short()) && i%3 != 0 {
			continue
		}
		r := rand.New(rand.NewPCG(uint64(i), 7))
		x, w, dy := random(r, s.XLen()), random(r, s.WLen()), random(r, s.YLen())
		want := convolve(s, x, w, dy)
		for _, run := range all {
			plainY, plainDx, _ := run.compute(t, s, x, w, dy)
			run.winograd = wherePossible
			y, dx, _ := run.compute(t, s, x, w, dy)
			for name, c := range map[string]struct {
				got, plain []float32
				want, abs  []float64
			}{"y": {y, plainY, want.y, want.absY}, "dx": {dx, plainDx, want.dx, want.absDx}} {
				bound := 0x1p-8 * slices.Max(c.abs)
				sum, sumPlain := 0.0, 0.0
				for j, v := range c.want {
					d := math.Abs(float64(c.got[j]) - v)
					if !(d <= bound) {
						t.Fatalf("%v, %v, %d threads: %s[%d] = %g, want %g within %.2g", s, run.path, run.pool.Threads(), name, j, c.got[j], v, bound)
					}
					sum += d
					sumPlain += math.Abs(float64(c.plain[j]) - v)
				}
				if sum > 2.25*sumPlain {
					t.Errorf("%v, %v, %d threads: average error of %s is %.2f times that of plain products, want at most 2.25", s, run.path, run.pool.Threads(), name, sum/sumPlain)
				}
			}
		}
	}
}

func TestWinogradIsUsedWhereItPays(t *testing.T) {
	p := pool.New(2)
	defer p.Close()
	for _, run := range runners(t, 2) {
		for _, c := range []struct {
			shape Shape
			want  bool
		}{
			{square(64, 32, 64, 64, 3, 1, 1), true},
			{square(64, 1, 512, 512, 3, 1, 1), false},
			{square(64, 8, 64, 128, 3, 2, 1), false},
			{square(64, 8, 64, 128, 1, 1, 0), false},
			{square(64, 8, 20, 40, 3, 1, 1), false},
		} {
			plan, err := newPlan(c.shape, p, run.tile(), whereFaster)
			if err != nil {
				t.Fatal(err)
			}
			want := c.want && run.tile().CanWinograd()
			if f, b, w := byWinograd(plan.forward), byWinograd(plan.backward), byWinograd(plan.weight); f != want || b != want || w != want {
				t.Errorf("%v, %v: Winograd forward %t, backward-data %t, backward-weight %t, want %t", c.shape, run.path, f, b, w, want)
			}
			if f, b := patchSide(plan.forward), patchSide(plan.backward); want && run.tile().CanWinograd4() && (f != 4 || b != 4) {
				t.Errorf("%v, %v: patches of %d forward, %d backward, want 4", c.shape, run.path, f, b)
			}
		}
	}
}

// byWinograd reports whether a pass is by Winograd.
func byWinograd(pass any) bool { return patchSide(pass) > 0 }

// patchSide is the side of the patches of a pass that is by Winograd, else 0.
func patchSide(pass any) int {
	if w, ok := pass.(*widenedWeight); ok {
		pass = w.weightPass
	}
	switch w := pass.(type) {
	case *winograd:
		return w.side
	case *winogradWeight:
		return 2
	}
	return 0
}
