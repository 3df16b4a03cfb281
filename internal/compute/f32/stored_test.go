package f32

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// halfAndWide are n numbers as bfloat16 and the same as float32; some are zeros, infinities, NaNs
// and subnormal.
func halfAndWide(r *rand.Rand, n int, strange bool) (half []uint16, wide []float32) {
	half, wide = make([]uint16, n), make([]float32, n)
	ToBFloat16(half, normal(r, n))
	for i := range half {
		if strange && r.IntN(8) == 0 {
			half[i] = []uint16{0, 0x8000, 0x7f80, 0xff80, 0x7fc0, 0xffc1, 1, 0x8003}[r.IntN(8)]
		}
	}
	FromBFloat16(wide, half)
	return half, wide
}

func narrow(x []float32) []uint16 {
	h := make([]uint16, len(x))
	ToBFloat16(h, x)
	return h
}

// sameHalves compares with what rounding float32 results gives; one NaN is as good as another.
func sameHalves(t *testing.T, what string, got []uint16, want []float32) {
	t.Helper()
	for i, w := range narrow(want) {
		if g := BFloat16Value(got[i]); got[i] != w && !(g != g && want[i] != want[i]) {
			t.Fatalf("%s[%d] is %#x (%g), want %#x (%g)", what, i, got[i], g, w, want[i])
		}
	}
}

// On the same path, loops over bfloat16 compute what those over float32 do, and round it.
func TestChannelLoopsOverBFloat16RoundWhatThoseOverFloat32Give(t *testing.T) {
	onPaths(t, func(t *testing.T) {
		// The loops over float32 fuse products and sums there, and those over bfloat16 are plain
		// Go.
		if kernels.tile.path == AVX2 {
			old := kernels
			defer func() { kernels = old }()
			kernels = &portable
		}
		r := rand.New(rand.NewPCG(5, 1))
		for _, s := range channelShapes {
			rows, c := s[0], s[1]
			n := rows * c
			what := fmt.Sprintf("%d rows of %d: ", rows, c)
			x, x32 := halfAndWide(r, n, false)
			y, y32 := halfAndWide(r, n, false)
			z, z32 := halfAndWide(r, n, false)
			p, q, u := normal(r, c), normal(r, c), normal(r, c)
			sums := func(f func(a, b []float64)) []float64 {
				s := make([]float64, 2*c)
				f(s[:c], s[c:])
				return s
			}
			for name, pair := range map[string][2][]float64{
				"ChannelSums":       {sums(func(a, b []float64) { ChannelSumsBFloat16(a, b, x) }), sums(func(a, b []float64) { ChannelSums(a, b, x32) })},
				"ChannelSumsAround": {sums(func(a, b []float64) { ChannelSumsAroundBFloat16(a, b, x, p) }), sums(func(a, b []float64) { ChannelSumsAround(a, b, x32, p) })},
				"ChannelGradSums": {sums(func(a, b []float64) { ChannelGradSumsBFloat16(a, b, x, y, nil, p) }),
					sums(func(a, b []float64) { ChannelGradSums(a, b, x32, y32, nil, p) })},
				"ChannelGradSums masked": {sums(func(a, b []float64) { ChannelGradSumsBFloat16(a, b, x, y, z, p) }),
					sums(func(a, b []float64) { ChannelGradSums(a, b, x32, y32, z32, p) })},
			} {
				if !slices.Equal(pair[0], pair[1]) {
					t.Fatalf("%s%s of bfloat16 are %v, want %v", what, name, pair[0], pair[1])
				}
			}
			got, want := make([]uint16, n), make([]float32, n)
			for _, relu := range []bool{false, true} {
				ScaleShiftBFloat16(got, x, nil, p, q, relu)
				ScaleShift(want, x32, p, q, relu)
				sameHalves(t, what+"ScaleShift", got, want)
				ScaleShiftBFloat16(got, x, y, p, q, relu)
				ScaleShiftAdd(want, x32, y32, p, q, relu)
				sameHalves(t, what+"ScaleShiftAdd", got, want)
			}
			NormGradBFloat16(got, x, y, nil, p, q, u)
			NormGrad(want, x32, y32, nil, p, q, u)
			sameHalves(t, what+"NormGrad", got, want)
			NormGradBFloat16(got, x, y, z, p, q, u)
			NormGrad(want, x32, y32, z32, p, q, u)
			sameHalves(t, what+"NormGrad masked", got, want)
		}
	})
}

func TestElementwiseLoopsOverBFloat16RoundWhatThoseOverFloat32Give(t *testing.T) {
	onPaths(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(5, 2))
		for _, n := range lengths {
			x, x32 := halfAndWide(r, n, true)
			y, y32 := halfAndWide(r, n, true)
			got, want := make([]uint16, n), make([]float32, n)
			AddBFloat16(got, x, y)
			Add(want, x32, y32)
			sameHalves(t, "Add", got, want)
			ReLUBFloat16(got, x)
			ReLU(want, x32)
			sameHalves(t, "ReLU", got, want)
			ReLUGradBFloat16(got, x, y)
			ReLUGrad(want, x32, y32)
			sameHalves(t, "ReLUGrad", got, want)
			chosen, chosen32 := make([]uint8, n), make([]uint8, n)
			copy(got, x)
			copy(want, x32)
			MaxWhichBFloat16(got, chosen, y, 3)
			MaxWhich(want, chosen32, y32, 3)
			sameHalves(t, "MaxWhich", got, want)
			if !slices.Equal(chosen, chosen32) {
				t.Fatalf("MaxWhich chose %v of bfloat16, want %v", chosen, chosen32)
			}
			sum, sum32 := normal(r, n), make([]float32, n)
			copy(sum32, sum)
			AddToBFloat16(sum, x)
			AddTo(sum32, x32)
			for i := range sum {
				if math.Float32bits(sum[i]) != math.Float32bits(sum32[i]) && sum[i] == sum[i] {
					t.Fatalf("AddTo[%d] is %g, want %g", i, sum[i], sum32[i])
				}
			}
		}
	})
}

func TestTilesMoveBFloat16AsTheyMoveFloat32(t *testing.T) {
	for _, p := range Available() {
		tile := PairTiles(p)
		r := rand.New(rand.NewPCG(5, 3))
		for _, s := range [][3]int{{1, 1, 1}, {3, 4, 12}, {5, 16, 16}, {2, 17, 32}, {4, 32, 32}, {2, 40, 70}} {
			rows, n, width := s[0], s[1], s[2]
			stride := n + 3
			low, low32 := halfAndWide(r, rows*stride, false)
			high, high32 := halfAndWide(r, rows*stride, false)
			got, want := normal(r, rows*width), make([]float32, rows*width)
			tile.PairRowsBFloat16(got, width, low, high, stride, rows, n, width)
			tile.PairRows(want, width, low32, high32, stride, rows, n, width)
			sameFloats(t, fmt.Sprintf("%v: %v: pairs", p, s), got, want)
			tile.PairRowsBFloat16(got, width, low, nil, stride, rows, n, width)
			tile.PairRows(want, width, low32, nil, stride, rows, n, width)
			sameFloats(t, fmt.Sprintf("%v: %v: pairs with zeros", p, s), got, want)
		}
		x, x32 := halfAndWide(r, 64, false)
		pairs := make([]float32, 32)
		tile.PackPairs(pairs, x32)
		sameFloats(t, fmt.Sprintf("%v: PairsOf", p), PairsOf(x), pairs)

		for _, tile := range []*Tile{tile, Tiles(p)} {
			for rows := 1; rows <= tile.Rows; rows++ {
				for _, ncols := range []int{1, tile.Cols - 1, tile.Cols} {
					var at [MaxTileRows]int
					for i := range rows {
						at[i] = (rows - 1 - i) * (tile.Cols + 5)
					}
					sums := normal(r, rows*tile.Cols)
					sums[0] = float32(math.NaN())
					for _, add := range []bool{false, true} {
						dst, dst32 := halfAndWide(r, rows*(tile.Cols+5), false)
						for i := range rows {
							for j := range ncols {
								v := sums[i*tile.Cols+j]
								if add {
									v += dst32[at[i]+j]
								}
								dst32[at[i]+j] = v
							}
						}
						tile.NarrowRows(dst, &at, sums, rows, ncols, add)
						sameHalves(t, fmt.Sprintf("%v: %d rows of %d, add %v: dst", p, rows, ncols, add), dst, dst32)
					}
				}
			}
		}
	}
}

func TestWinogradOverBFloat16RoundsWhatThatOverFloat32Gives(t *testing.T) {
	for _, p := range Available() {
		tile, r := Tiles(p), rand.New(rand.NewPCG(5, 4))
		const n = 48
		for _, way := range []struct {
			side                                 int
			inputHalf, input, outputHalf, output func(a *WinogradArgs)
		}{
			{2, tile.WinogradInputBFloat16, tile.WinogradInput, tile.WinogradOutputBFloat16, tile.WinogradOutput},
			{4, tile.Winograd4InputBFloat16, tile.Winograd4Input, tile.Winograd4OutputBFloat16, tile.Winograd4Output},
		} {
			for _, add := range []uint64{0, 1} {
				values := (way.side + 2) * (way.side + 2)
				half, wide := WinogradArgs{Count: n}, WinogradArgs{Count: n}
				got, want := make([][]float32, values), make([][]float32, values)
				for i := range values {
					x, x32 := halfAndWide(r, n, false)
					got[i], want[i] = make([]float32, n), make([]float32, n)
					half.Src[i], wide.Src[i] = Half(&x[0]), &x32[0]
					half.Dst[i], wide.Dst[i] = &got[i][0], &want[i][0]
				}
				way.inputHalf(&half)
				way.input(&wide)
				for i := range got {
					sameFloats(t, fmt.Sprintf("%v: patch of %d: transformed pixels %d", p, way.side, i), got[i], want[i])
				}
				half.Src, half.Add, wide.Src, wide.Add = half.Dst, add, wide.Dst, add
				y, y32 := make([][]uint16, way.side*way.side), make([][]float32, way.side*way.side)
				for i := range y {
					y[i], y32[i] = halfAndWide(r, n, false)
					half.Dst[i], wide.Dst[i] = Half(&y[i][0]), &y32[i][0]
				}
				way.outputHalf(&half)
				way.output(&wide)
				for i := range y {
					sameHalves(t, fmt.Sprintf("%v: patch of %d: pixels %d", p, way.side, i), y[i], y32[i])
				}
			}
		}
	}
}
