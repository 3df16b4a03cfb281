package f32

import (
	"fmt"
	"math"
	"slices"
	"testing"
)

// untouched is a number that no test computes: what is not to be written still holds it.
const untouched = -12345

func filled(n int, v float32) []float32 { return slices.Repeat([]float32{v}, n) }

func numbered(n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(i%97) - 40
	}
	x[n/3] = float32(math.NaN())
	return x
}

// Blocks of every size are transposed by every path as the plain loop does it, rows may be left
// out, and nothing beside the block is written.
func TestTransposeIsThatOfThePlainLoop(t *testing.T) {
	const stride = 19
	src := numbered(16*stride + 16)
	shift := numbered(16)
	for _, path := range Available() {
		tile := Tiles(path)
		for n := 1; n <= 16; n++ {
			for m := 1; m <= 16; m++ {
				call := func(f func(a *TransposeArgs)) []float32 {
					a := TransposeArgs{Dst: filled(17*stride, untouched), Src: src[:(n-1)*stride+m]}
					for i := range 16 {
						a.SrcRow[i], a.DstRow[i] = i*stride, (15-i)*stride
					}
					if m > 2 {
						a.DstRow[m/2] = -1
					}
					f(&a)
					return a.Dst
				}
				name := fmt.Sprintf("%v, %d×%d", path, n, m)
				want := call(func(a *TransposeArgs) { transposePortable(a, 0, 0, n, m) })
				sameBits(t, name, call(func(a *TransposeArgs) { tile.Transpose(a, n, m) }), want)
				want = call(func(a *TransposeArgs) { transposeShiftPortable(a, 0, 0, n, m, shift[:n], -3) })
				sameBits(t, name+", shifted", call(func(a *TransposeArgs) { tile.TransposeShift(a, n, m, shift[:n], -3) }), want)
				want = call(func(a *TransposeArgs) { transposeShiftPortable(a, 0, 0, n, m, nil, 0) })
				sameBits(t, name+", cut at 0", call(func(a *TransposeArgs) { tile.TransposeShift(a, n, m, nil, 0) }), want)
			}
		}
	}
}

// Rows of every length are copied by every path, with zeros behind them, and nothing beside them is
// written.
func TestCopyRowsIsThatOfThePlainLoop(t *testing.T) {
	const rows, srcStride = 3, 37
	src := numbered(rows * srcStride)
	for _, path := range Available() {
		for width := 1; width <= 33; width++ {
			for n := range width + 1 {
				for _, dstStride := range []int{width, width + 3} {
					want, got := filled(rows*dstStride+20, untouched), filled(rows*dstStride+20, untouched)
					copyRowsPortable(want, dstStride, src, srcStride, rows, n, width)
					Tiles(path).CopyRows(got, dstStride, src, srcStride, rows, n, width)
					sameBits(t, fmt.Sprintf("%v, %d of %d values, %d apart", path, n, width, dstStride), got, want)
				}
			}
		}
	}
}
