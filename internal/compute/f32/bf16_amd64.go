package f32

import (
	"unsafe"

	"golang.org/x/sys/cpu"
)

// HasBFloat16 reports whether products of pairs of bfloat16 are in assembly on a path: AVX-512 on a
// CPU with AVX512_BF16, and AMX.
func HasBFloat16(p Path) bool {
	return p >= AVX512 && hasPath(p) && cpu.X86.HasAVX512BF16
}

var pairTile = Tile{Rows: 12, Cols: 32, OuterRows: []int{12, 8, 4}, path: AVX512, pairs: true}

func gatherPairs(a *GatherArgs, n, ncols int) {
	a.Mask = 1<<ncols - 1
	p := (*byte)(unsafe.Pointer(a))
	switch {
	case n > 8:
		a.fill(n, 12)
		gather12BF16(p)
	case n > 4:
		a.fill(n, 8)
		gather8BF16(p)
	default:
		a.fill(n, 4)
		gather4BF16(p)
	}
}

func outerPairs(a *OuterArgs, rows int) {
	p := (*byte)(unsafe.Pointer(a))
	switch rows {
	case 12:
		outer12BF16(p)
	case 8:
		outer8BF16(p)
	case 4:
		outer4BF16(p)
	}
}

func (t *Tile) packPairs(dst, x []float32) {
	n := 0
	if t.path == AVX512 {
		if n = len(x) / 2 &^ 15; n > 0 {
			packPairsBF16(&dst[0], 0, &x[0], 1, n)
		}
	}
	packPairsPortable(dst[n:], x[2*n:])
}

func (t *Tile) packPairRows(dst []float32, dstStride int, x []float32, rows, n int) {
	if t.path == AVX512 && n%16 == 0 {
		packPairsBF16(&dst[0], 4*dstStride, &x[0], rows, n)
		return
	}
	packPairRowsPortable(dst, dstStride, x, rows, n)
}

func pairRows[E element](t *Tile, dst []float32, dstStride int, low, high []E, srcStride, rows, n, width int) {
	if t.path != AVX512 {
		pairRowsPortable(dst, dstStride, low, high, srcStride, rows, n, width)
		return
	}
	for j := 0; j < width; j += 32 { // 32 columns
		m, w := max(0, min(32, n-j)), min(32, width-j)
		lowMask, writeMask := uint64(1)<<m-1, uint64(1)<<w-1
		highMask := lowMask
		a, b := &low[0], &low[0]
		if m > 0 {
			a, b = &low[j], &low[j]
		}
		if high == nil {
			highMask = 0
		} else if m > 0 {
			b = &high[j]
		}
		switch {
		case isHalf[E]() && w <= 16:
			pairRows1HalfAVX512(&dst[j], 4*dstStride, (*uint16)(unsafe.Pointer(a)), (*uint16)(unsafe.Pointer(b)), 2*srcStride, rows, lowMask, highMask, writeMask)
		case isHalf[E]():
			pairRows2HalfAVX512(&dst[j], 4*dstStride, (*uint16)(unsafe.Pointer(a)), (*uint16)(unsafe.Pointer(b)), 2*srcStride, rows, lowMask, highMask, writeMask)
		case w <= 16:
			pairRows1BF16(&dst[j], 4*dstStride, (*float32)(unsafe.Pointer(a)), (*float32)(unsafe.Pointer(b)), 4*srcStride, rows, lowMask, highMask, writeMask)
		default:
			pairRows2BF16(&dst[j], 4*dstStride, (*float32)(unsafe.Pointer(a)), (*float32)(unsafe.Pointer(b)), 4*srcStride, rows, lowMask, highMask, writeMask)
		}
	}
}

func storesBFloat16(p Path) bool { return p >= AVX512 }
