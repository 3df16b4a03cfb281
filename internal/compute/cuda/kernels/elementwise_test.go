//go:build linux && (amd64 || arm64) && !android && !nocuda

package kernels

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/paragon-train/paragon/internal/compute/op"
)

// random is n numbers around 0, the same for the same seed.
func random(seed uint64, n int) []float64 {
	r := rand.New(rand.NewPCG(seed, uint64(n)))
	v := make([]float64, n)
	for i := range v {
		v[i] = r.NormFloat64()
	}
	return v
}

// counts are numbers of numbers around those at which a vector, a block and a grid end.
var counts = []int{1, 7, 8, 9, 8191, 70001}

func mapped(v []float64, f func(float64) float64) []float64 {
	out := make([]float64, len(v))
	for i, x := range v {
		out[i] = f(x)
	}
	return out
}

func TestElementwise(t *testing.T) {
	relu := func(x float64) float64 {
		if x <= 0 {
			return 0
		}
		return x
	}
	everyWay(t, func(b *box, typ Type) {
		for _, n := range counts {
			if n > 9 && b.order != 5 || n > 9000 && (b.skew != 0 || typ != BFloat16) {
				continue
			}
			av, bv := random(1, n), random(2, n)
			if n > 1 {
				av[n/2] = math.NaN()
			}
			a, other := b.put(typ, av), b.put(typ, bv)
			sum := mapped(av, func(x float64) float64 { return x })
			for i := range sum {
				sum[i] += bv[i]
			}
			y := b.empty(typ, n)
			b.must(b.Add(0, typ, int64(n), y, a, other, false))
			near(b.t, "add", typ, b.get(typ, y, n), sum, 1)
			y = b.empty(typ, n)
			b.must(b.Add(0, typ, int64(n), y, a, other, true))
			near(b.t, "add and relu", typ, b.get(typ, y, n), mapped(sum, relu), 1)
			y = b.empty(typ, n)
			b.must(b.ReLU(0, typ, int64(n), y, a))
			same(b.t, "relu", b.get(typ, y, n), mapped(av, relu))
			dx := b.empty(typ, n)
			b.must(b.ReLUGrad(0, typ, int64(n), dx, y, other))
			want := mapped(bv, func(x float64) float64 { return x })
			for i, v := range av {
				if v <= 0 {
					want[i] = 0
				} else if v != v {
					want[i] = v
				}
			}
			same(b.t, "relu gradient", b.get(typ, dx, n), want)
			sy, sdy := specials(n)
			b.must(b.ReLUGrad(0, typ, int64(n), dx, b.put(typ, sy), b.put(typ, sdy)))
			same(b.t, "relu gradient of NaNs", b.get(typ, dx, n), numbersOf(do(b.t, &op.ReLUGrad{}, dense(sy, n), dense(sdy, n))[0]))
			b.must(b.Add(0, typ, int64(n), a, a, other, false)) // in place
			near(b.t, "add in place", typ, b.get(typ, a, n), sum, 1)
			y = b.empty(typ, n)
			b.must(b.Fill(0, typ, int64(n), y, 0.75))
			same(b.t, "fill", b.get(typ, y, n), mapped(av, func(float64) float64 { return 0.75 }))
			b.reset()
		}
	})
}

func TestCastRoundsToNearestEven(t *testing.T) {
	everyWay(t, func(b *box, from Type) {
		n := 4000
		v := random(3, n)
		for i := range v {
			v[i] *= math.Exp(float64(i%60 - 30))
		}
		copy(v, []float64{0, math.Inf(1), math.Inf(-1), 65504, 65519, 65520, 1e-8, 6e-8, -6e-8, 2.98e-8, 1.00390625, 1.01171875, 0.5 + 0x1p-12, 1e38, math.NaN()})
		src := b.put(from, v)
		for _, to := range floats {
			dst := b.empty(to, n)
			b.must(b.Cast(0, to, from, int64(n), dst, src))
			want := mapped(v, func(x float64) float64 {
				if to == Float32 {
					return x
				}
				return float64(wide(to, narrow(to, float32(x))))
			})
			same(b.t, fmt.Sprintf("cast to %v", to), b.get(to, dst, n), want)
		}
	})
}

func TestScaleAndUnscaleFindWhatIsNotFinite(t *testing.T) {
	everyWay(t, func(b *box, typ Type) {
		for _, n := range []int{5, 700} {
			v := random(4, n)
			src, factor := b.put(typ, v), b.put(Float32, []float64{0.25})
			want := mapped(v, func(x float64) float64 { return x * 0.5 })
			y := b.empty(typ, n)
			b.must(b.Scale(0, typ, int64(n), y, src, 2, factor))
			near(b.t, "scale", typ, b.get(typ, y, n), want, 1)
			found := b.put(Int32, []float64{0})
			dst := b.empty(Float32, n)
			b.must(b.Unscale(0, typ, int64(n), dst, src, 2, factor, found))
			near(b.t, "unscale", Float32, b.get(Float32, dst, n), want, 1)
			if got := b.get(Int32, found, 1)[0]; got != 0 {
				b.t.Fatalf("found is %v after finite numbers, want 0", got)
			}
			for _, bad := range []float64{math.Inf(-1), math.NaN()} {
				for _, at := range []int{0, n - 1} {
					found := b.put(Int32, []float64{0})
					spoilt := append([]float64{}, v...)
					spoilt[at] = bad
					b.must(b.Unscale(0, typ, int64(n), dst, b.put(typ, spoilt), 1, 0, found))
					if got := b.get(Int32, found, 1)[0]; got != 1 {
						b.t.Fatalf("found is %v after %v at %d of %d, want 1", got, bad, at, n)
					}
				}
			}
		}
	})
}

func TestDropoutDropsTheElementsOfItsDefinition(t *testing.T) {
	for _, rate := range []float64{0.1, 0.5, 0.999} {
		d := &op.Dropout{Rate: rate, Seed: 7, Name: "drop"}
		key := d.Key(3, 1)
		everyWay(t, func(b *box, typ Type) {
			for _, shape := range [][3]int{{2, 3, 5}, {1, 8, 7}, {3, 16, 9}} { // N, C, H·W
				n, c, hw := shape[0], shape[1], shape[2]
				all := n * c * hw
				v := random(5, all)
				x := b.put(typ, v)
				keyAt := b.room(8)
				b.write(keyAt, binary.LittleEndian.AppendUint64(nil, key))
				scale := float32(1 / (1 - rate))
				flat, images := make([]float64, all), make([]float64, all)
				for i := range flat {
					if op.DropoutKeep(key, i, d.Threshold()) {
						flat[i] = v[i] * float64(scale)
					}
					if e := (i/c/hw*c+i%c)*hw + i/c%hw; op.DropoutKeep(key, e, d.Threshold()) {
						images[i] = v[i] * float64(scale)
					}
				}
				y := b.empty(typ, all)
				b.must(b.Dropout(0, typ, int64(all), y, x, keyAt, d.Threshold(), scale, 0, 0))
				near(b.t, "dropout", typ, b.get(typ, y, all), flat, 1)
				b.must(b.Dropout(0, typ, int64(all), x, x, keyAt, d.Threshold(), scale, c, hw))
				near(b.t, "dropout of images in place", typ, b.get(typ, x, all), images, 1)
			}
		})
	}
}

func TestBias(t *testing.T) {
	everyWay(t, func(b *box, typ Type) {
		for _, s := range [][3]int{{1, 1, 1}, {9, 3, 1}, {300, 8, 1}, {33, 10, 1}, {70, 64, 1}, {5, 65, 1}, {3, 2056, 1}, {2000, 8, 1}, {2, 3, 5}, {4, 8, 300}} {
			n, c, inner := s[0], s[1], s[2]
			all := n * c * inner
			v, bias := random(6, all), random(7, c)
			x, bp := b.put(typ, v), b.put(Float32, bias)
			want, sums := make([]float64, all), make([]float64, c)
			for i := range want {
				want[i] = v[i] + bias[i/inner%c]
				sums[i/inner%c] += v[i]
			}
			y := b.empty(typ, all)
			b.must(b.BiasAdd(0, typ, n, c, inner, y, x, bp, false))
			near(b.t, "bias", typ, b.get(typ, y, all), want, 1)
			b.must(b.BiasAdd(0, typ, n, c, inner, y, x, bp, true))
			near(b.t, "bias and relu", typ, b.get(typ, y, all), mapped(want, func(x float64) float64 { return max(x, 0) }), 1)
			db, workspace := b.empty(Float32, c), b.room(int(b.SumsWorkspace(c)))
			b.must(b.BiasGrad(0, typ, n, c, inner, db, x, workspace))
			near(b.t, "bias gradient", Float32, b.get(Float32, db, c), sums, 20)
			b.reset()
		}
	})
}

// specials are n results of a ReLU with their gradients: all pairs of special numbers.
func specials(n int) (y, dy []float64) {
	special := []float64{math.NaN(), -1, 0, 2, math.Inf(1), math.Copysign(0, -1)}
	for i := range n {
		y, dy = append(y, special[i%6]), append(dy, special[i/6%6])
	}
	return y, dy
}
