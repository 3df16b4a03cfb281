package f32

import (
	"fmt"
	"math"
	"unsafe"
)

// Products of bfloat16 with sums in float32 work on pairs: two bfloat16 that follow each other in a
// reduction lie in the place of one float32, the first in the lower half, and one instruction
// (VDPBF16PS, BFMMLA) multiplies pair with pair and adds both products to a float32 sum. So the
// tile of pairs is laid out and called as the tile of float32 is, with half as many values in a
// reduction. Pairs are held in []float32, whose values then mean nothing as numbers.

// PairTiles returns the tile of a path whose operands in Gather and Outer are pairs of bfloat16;
// the results, and all that the other methods move, are float32. The assembly needs HasBFloat16;
// elsewhere it is the portable tile.
//
// For each pair the upper product is added first, then the lower one, each rounded to nearest. On
// NEON the two products are added to each other and then to the sum, and what is not exact is
// rounded to the neighbour with an odd last bit, as BFMMLA does: an error of at most a whole unit
// in place of half a one, and none on average. The assembly takes subnormal numbers for zeros, as
// the instructions do.
func PairTiles(p Path) *Tile {
	switch {
	case p == AMX && hasPath(p):
		return &tileUnitTile
	case HasBFloat16(p):
		return &pairTile
	}
	return &portablePairTile
}

var (
	portablePairTile = Tile{Rows: portableRows, Cols: portableCols, OuterRows: []int{portableRows}, path: Portable, pairs: true}
	tileUnitTile     = Tile{Rows: 12, Cols: 32, OuterRows: []int{12, 8, 4}, path: AVX512, pairs: true, unit: newUnitTile(AVX512)}
)

// Pairs reports whether the operands of Gather and Outer are pairs of bfloat16.
func (t *Tile) Pairs() bool { return t.pairs }

// Single is the tile of float32 on the path of a tile of pairs; others are their own.
func (t *Tile) Single() *Tile {
	if t.pairs {
		return Tiles(t.path)
	}
	return t
}

// PackPairs rounds x to bfloat16 and sets dst[i] to the pair of x[2i] and x[2i+1]; the last pair of
// an odd number of values has a zero. len(dst) is half of len(x), rounded up. The conversion is
// ToBFloat16's, but for subnormal numbers, which may become zeros.
func (t *Tile) PackPairs(dst, x []float32) {
	if len(dst) != (len(x)+1)/2 {
		panic(fmt.Sprintf("f32: PackPairs: dst has %d pairs, x %d values", len(dst), len(x)))
	}
	t.packPairs(dst, x)
}

// PackPairRows is PackPairs of rows of 2·n values each that follow each other in x, to rows of n
// pairs that are dstStride apart.
func (t *Tile) PackPairRows(dst []float32, dstStride int, x []float32, rows, n int) {
	if rows > 0 && n > 0 {
		t.packPairRows(dst[:(rows-1)*dstStride+n], dstStride, x[:2*rows*n], rows, n)
	}
}

// PairRows sets, for each of some rows, the first n values of dst to the pairs of low's and high's
// values, and those after them up to width to zeros. Rows are dstStride and srcStride apart; n ≤
// width. If high is nil, the upper halves are zeros. dst may begin where low begins if no row of it
// reaches beyond the row that it is made of.
func (t *Tile) PairRows(dst []float32, dstStride int, low, high []float32, srcStride, rows, n, width int) {
	pairRowsWithin(t, dst, dstStride, low, high, srcStride, rows, n, width)
}

// pairRowsWithin is PairRows, and panics where rows are beyond the slices.
func pairRowsWithin[E element](t *Tile, dst []float32, dstStride int, low, high []E, srcStride, rows, n, width int) {
	if rows == 0 || width == 0 {
		return
	}
	dst, low = dst[:(rows-1)*dstStride+width], low[:(rows-1)*srcStride+n]
	if high != nil {
		high = high[:(rows-1)*srcStride+n]
	}
	pairRows(t, dst, dstStride, low, high, srcStride, rows, n, width)
}

// pair is the pair of two numbers.
func pair(low, high float32) float32 {
	return math.Float32frombits(uint32(BFloat16Bits(low)) | uint32(BFloat16Bits(high))<<16)
}

// halves are the numbers of a pair.
func halves(p float32) (low, high float32) {
	u := math.Float32bits(p)
	return math.Float32frombits(u << 16), math.Float32frombits(u &^ 0xffff)
}

func packPairsPortable(dst, x []float32) {
	n := len(x) / 2
	if n > 0 {
		toBFloat16Portable(unsafe.Slice((*uint16)(unsafe.Pointer(&dst[0])), 2*n), x[:2*n])
	}
	if len(x)%2 != 0 {
		dst[n] = pair(x[2*n], 0)
	}
}

func packPairRowsPortable(dst []float32, dstStride int, x []float32, rows, n int) {
	for i := range rows {
		packPairsPortable(dst[i*dstStride:i*dstStride+n], x[2*i*n:2*(i+1)*n])
	}
}

func pairRowsPortable[E element](dst []float32, dstStride int, low, high []E, srcStride, rows, n, width int) {
	for i := range rows {
		to := unsafe.Slice((*uint32)(unsafe.Pointer(&dst[i*dstStride])), width)
		for j := range n {
			v := uint32(halfBits(low[i*srcStride+j]))
			if high != nil {
				v |= uint32(halfBits(high[i*srcStride+j])) << 16
			}
			to[j] = v
		}
		clear(to[n:])
	}
}

func gatherPairsPortable(a *GatherArgs, n, ncols int) {
	for i := range n {
		out := a.Out[a.OutRow[i]:]
		var sum [portableCols]float32
		for _, seg := range a.Segments {
			in := a.In[a.InRow[i]+seg.In:][:seg.Len]
			w := a.W[seg.W:][:seg.Len*portableCols]
			for k, v := range in {
				addPairs(&sum, v, (*[portableCols]float32)(w[k*portableCols:]))
			}
		}
		if a.Add != 0 {
			for j := range ncols {
				sum[j] += out[j]
			}
		}
		copy(out, sum[:ncols])
	}
}

func outerPairsPortable(a *OuterArgs, rows int) {
	for i := range rows {
		out := (*[portableCols]float32)(a.Out[i*portableCols:])
		var sum [portableCols]float32
		for _, p := range a.Pairs {
			addPairs(&sum, a.A[int(p[0])+i], (*[portableCols]float32)(a.B[p[1]:]))
		}
		if a.Add != 0 {
			for j, v := range out {
				sum[j] += v
			}
		}
		*out = sum
	}
}

// addPairs adds the products of a pair with those of a row. A product of two bfloat16 is exact in
// float32, so that it does not matter whether the compiler fuses it with the sum.
func addPairs(sum *[portableCols]float32, v float32, w *[portableCols]float32) {
	low, high := halves(v)
	for j := range sum {
		l, h := halves(w[j])
		s := sum[j] + high*h
		sum[j] = s + low*l
	}
}
