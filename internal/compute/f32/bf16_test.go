package f32

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// pairSum is the sum of pairs that PairTiles promises for a tile.
func pairSum(tile *Tile, sum float32, a, b []float32) float32 {
	for i := range a {
		al, ah := halves(a[i])
		bl, bh := halves(b[i])
		if tile.path == NEON {
			sum = oddSum(sum, oddSum(al*bl, ah*bh))
			continue
		}
		sum = float32(math.FMA(float64(ah), float64(bh), float64(sum)))
		sum = float32(math.FMA(float64(al), float64(bl), float64(sum)))
	}
	return sum
}

// oddSum is a + b, rounded to the neighbour with an odd last bit if it is not exact (for numbers
// that are not subnormal).
func oddSum(a, b float32) float32 {
	exact, near := new(big.Float).SetPrec(400), float32(0)
	exact.Add(exact.SetFloat64(float64(a)), big.NewFloat(float64(b)))
	near, _ = exact.Float32()
	bits := math.Float32bits(near)
	switch c := exact.Cmp(big.NewFloat(float64(near))); {
	case c == 0 || bits&1 == 1:
		return near
	case (c > 0) == (near > 0):
		return math.Float32frombits(bits + 1)
	}
	return math.Float32frombits(bits - 1)
}

// randomPairs is n pairs of normal numbers.
func randomPairs(r *rand.Rand, n int) []float32 {
	dst := make([]float32, n)
	packPairsPortable(dst, normal(r, 2*n))
	return dst
}

// pairTiles is the tile of each implementation that this machine has.
func pairTiles() map[string]*Tile {
	all := map[string]*Tile{"portable": PairTiles(Portable)}
	for _, p := range Available() {
		if HasBFloat16(p) {
			all["assembly"] = PairTiles(p)
		}
	}
	return all
}

func sameFloats(t *testing.T, what string, got, want []float32) {
	t.Helper()
	for i := range want {
		if math.Float32bits(got[i]) != math.Float32bits(want[i]) {
			t.Fatalf("%s[%d] is %g (%#x), want %g (%#x)", what, i, got[i], math.Float32bits(got[i]), want[i], math.Float32bits(want[i]))
		}
	}
}

func TestGatherOfPairsAddsInThePromisedOrder(t *testing.T) {
	for name, tile := range pairTiles() {
		for n := 1; n <= tile.Rows; n++ {
			for _, ncols := range []int{tile.Cols, tile.Cols - 1, 1} {
				for _, add := range []uint64{0, 1} {
					r := rand.New(rand.NewPCG(uint64(n), uint64(ncols)))
					const stride = 37
					in, w := randomPairs(r, tile.Rows*stride), randomPairs(r, 30*tile.Cols)
					out := normal(r, tile.Rows*tile.Cols)
					want := slices.Clone(out)
					a := GatherArgs{In: in, W: w, Out: out, Add: add, Segments: []Segment{{In: 3, Len: 9, W: 2 * tile.Cols}, {In: 20, Len: 14, W: 16 * tile.Cols}}}
					for i := range n {
						a.InRow[i], a.OutRow[i] = i*stride, (n-1-i)*tile.Cols
						for j := range ncols {
							at := a.OutRow[i] + j
							sum := float32(0)
							for _, s := range a.Segments {
								var column []float32
								for k := range s.Len {
									column = append(column, w[s.W+k*tile.Cols+j])
								}
								sum = pairSum(tile, sum, in[a.InRow[i]+s.In:][:s.Len], column)
							}
							if add != 0 {
								sum += want[at]
							}
							want[at] = sum
						}
					}
					tile.Gather(&a, n, ncols)
					sameFloats(t, fmt.Sprintf("%s, %d rows, %d columns, add %d: out", name, n, ncols, add), out, want)
				}
			}
		}
	}
}

func TestOuterOfPairsAddsInThePromisedOrder(t *testing.T) {
	for name, tile := range pairTiles() {
		for _, rows := range tile.OuterRows {
			for _, add := range []uint64{0, 1} {
				r := rand.New(rand.NewPCG(uint64(rows), add))
				a := OuterArgs{A: randomPairs(r, 200), B: randomPairs(r, 300), Out: normal(r, rows*tile.Cols), Add: add}
				for range 17 {
					a.Pairs = append(a.Pairs, [2]uint32{r.Uint32N(180), r.Uint32N(260)})
				}
				want := slices.Clone(a.Out)
				for i := range want {
					var x, y []float32
					for _, p := range a.Pairs {
						x, y = append(x, a.A[int(p[0])+i/tile.Cols]), append(y, a.B[int(p[1])+i%tile.Cols])
					}
					sum := pairSum(tile, 0, x, y)
					if add != 0 {
						sum += want[i]
					}
					want[i] = sum
				}
				tile.Outer(&a, rows)
				sameFloats(t, fmt.Sprintf("%s, %d rows, add %d: out", name, rows, add), a.Out, want)
			}
		}
	}
}

func TestPackPairsRoundsToNearestEven(t *testing.T) {
	for name, tile := range pairTiles() {
		for _, n := range lengths {
			r := rand.New(rand.NewPCG(uint64(n), 1))
			x := normal(r, n)
			for i := range x {
				if i%5 == 0 { // ties
					x[i] = math.Float32frombits(math.Float32bits(x[i])&^0xffff | 0x8000)
				}
			}
			for i, v := range []float32{float32(math.Inf(1)), float32(math.NaN()), math.MaxFloat32, 0, float32(math.Copysign(0, -1))} {
				if i < n {
					x[n-1-i] = v
				}
			}
			want, got := make([]float32, (n+1)/2), make([]float32, (n+1)/2)
			for i := range want {
				high := float32(0)
				if 2*i+1 < n {
					high = x[2*i+1]
				}
				want[i] = pair(x[2*i], high)
			}
			tile.PackPairs(got, x)
			sameFloats(t, fmt.Sprintf("%s, %d values: dst", name, n), got, want)
		}
	}
}

func TestPackPairRowsPacksEachRow(t *testing.T) {
	for name, tile := range pairTiles() {
		for _, c := range []struct{ rows, n int }{{1, 16}, {16, 32}, {5, 48}, {3, 7}, {0, 16}, {2, 0}} {
			r := rand.New(rand.NewPCG(uint64(c.n), 1))
			stride := c.n + 5
			x, got := normal(r, 2*c.rows*c.n), normal(r, c.rows*stride+20)
			want := slices.Clone(got)
			for i := range c.rows {
				packPairsPortable(want[i*stride:i*stride+c.n], x[2*i*c.n:2*(i+1)*c.n])
			}
			tile.PackPairRows(got, stride, x, c.rows, c.n)
			sameFloats(t, fmt.Sprintf("%s, %+v: dst", name, c), got, want)
		}
	}
}

func TestPairRowsPutsZerosAfterTheValues(t *testing.T) {
	for name, tile := range pairTiles() {
		for _, c := range []struct{ rows, n, width int }{{1, 1, 1}, {3, 5, 12}, {4, 12, 12}, {2, 16, 16}, {3, 20, 32}, {5, 32, 32}, {2, 0, 3}, {2, 40, 70}, {1, 300, 300}, {0, 1, 1}} {
			for _, odd := range []bool{false, true} {
				r := rand.New(rand.NewPCG(uint64(c.n), 1))
				dstStride, srcStride := c.width+3, c.n+5
				low, high := normal(r, c.rows*srcStride+1), normal(r, c.rows*srcStride+1)
				if odd {
					high = nil
				}
				got := normal(r, c.rows*dstStride+40)
				want := slices.Clone(got)
				for i := range c.rows {
					for j := range c.width {
						var l, h float32
						if j < c.n {
							l = low[i*srcStride+j]
							if !odd {
								h = high[i*srcStride+j]
							}
						}
						want[i*dstStride+j] = pair(l, h)
					}
				}
				tile.PairRows(got, dstStride, low, high, srcStride, c.rows, c.n, c.width)
				sameFloats(t, fmt.Sprintf("%s, %+v, no upper rows: %t: dst", name, c, odd), got, want)
			}
		}
	}
}

// Rows of a matrix may be joined two by two in their own memory.
func TestPairRowsInPlace(t *testing.T) {
	for name, tile := range pairTiles() {
		const rows, cols = 7, 32
		x := normal(rand.New(rand.NewPCG(1, 1)), 2*rows*cols)
		want := make([]float32, rows*cols)
		tile.PairRows(want, cols, x, x[cols:], 2*cols, rows, cols, cols)
		tile.PairRows(x, cols, x, x[cols:], 2*cols, rows, cols, cols)
		sameFloats(t, name+": x", x[:rows*cols], want)
	}
}

func TestPairPeakIsAPositiveRateWhereThereIsAssembly(t *testing.T) {
	for _, p := range Available() {
		rate, single := MeasurePairPeak(p, 20*time.Millisecond), MeasurePeak(p, 20*time.Millisecond)
		t.Logf("%v: %.1f GFLOP/s a core of bfloat16, %.1f of float32", p, rate/1e9, single/1e9)
		if (rate > 0) != HasBFloat16(p) {
			t.Errorf("%v: peak %g operations/s, assembly %t", p, rate, HasBFloat16(p))
		}
	}
}
