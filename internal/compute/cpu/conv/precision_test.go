package conv

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/paragon-train/paragon/internal/compute/f32"
	"github.com/paragon-train/paragon/internal/compute/pool"
)

// relative is the root mean square of the differences over that of the numbers.
//
//go:norace
func relative(got []float32, want []float64) float64 {
	var d, w float64
	for i, v := range want {
		d += (float64(got[i]) - v) * (float64(got[i]) - v)
		w += v * v
	}
	return math.Sqrt(d / w)
}

// Sums over many channels and pixels are made in parts: their rounding does not grow with their
// length.
func TestLongSumsKeepTheirPrecision(t *testing.T) {
	p := pool.New(2)
	defer p.Close()
	for _, s := range []Shape{
		{N: 4, H: 4, W: 4, C: 512, K: 40, R: 3, S: 3, StrideH: 1, StrideW: 1, PadH: 1, PadW: 1},
		{N: 4, H: 4, W: 4, C: 40, K: 512, R: 3, S: 3, StrideH: 1, StrideW: 1, PadH: 1, PadW: 1},
		{N: 16, H: 16, W: 16, C: 8, K: 8, R: 3, S: 3, StrideH: 1, StrideW: 1, PadH: 1, PadW: 1},
	} {
		plan, err := newPlan(s, p, f32.Tiles(f32.Active()), never)
		if err != nil {
			t.Fatal(err)
		}
		plan.SetScratch(make([]float32, plan.ScratchLen()))
		r := rand.New(rand.NewPCG(7, 1))
		x, w, dy := random(r, s.XLen()), random(r, s.WLen()), random(r, s.YLen())
		want := convolve(s, x, w, dy)
		y, dx, dw := make([]float32, s.YLen()), make([]float32, s.XLen()), make([]float32, s.WLen())
		plan.Forward(y, x, w)
		plan.BackwardData(dx, dy, w)
		plan.BackwardWeight(dw, x, dy)
		for _, result := range []struct {
			name string
			got  []float32
			want []float64
		}{{"y", y, want.y}, {"dx", dx, want.dx}, {"dw", dw, want.dw}} {
			if e := relative(result.got, result.want); e > 5e-7 {
				t.Errorf("%v: %s is off by %.2g of its size, want at most 5e-7", s, result.name, e)
			}
		}
	}
}
