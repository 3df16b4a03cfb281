//go:build amd64 || arm64

package f32

import "unsafe"

// sliceHeader is how many bytes the header of a slice takes.
const sliceHeader = int(unsafe.Sizeof([]float32{}))

// sumsTo makes SumTo of a kernel for multiples of four vectors, aligned in dsts. It returns how
// many values are done.
func sumsTo(lanes int, wide func(dsts *[]float32, dstsBytes int, srcs *[]float32, srcsBytes int, n int)) func(dsts, srcs [][]float32) int {
	return func(dsts, srcs [][]float32) int {
		n := streamed(lanes, dsts)
		if n > 0 {
			wide(&dsts[0], sliceHeader*len(dsts), &srcs[0], sliceHeader*len(srcs), n)
		}
		return n
	}
}

// meansTo is sumsTo for MeanTo.
func meansTo(lanes int, wide func(dsts *[]float32, dstsBytes int, srcs *[]float32, srcsBytes int, n int, by float32)) func(dsts, srcs [][]float32, by float32) int {
	return func(dsts, srcs [][]float32, by float32) int {
		n := streamed(lanes, dsts)
		if n > 0 {
			wide(&dsts[0], sliceHeader*len(dsts), &srcs[0], sliceHeader*len(srcs), n, by)
		}
		return n
	}
}

// streamed is how many values a kernel of SumTo or MeanTo can write: a multiple of four vectors, or
// 0 if one of dsts is not aligned.
func streamed(lanes int, dsts [][]float32) int {
	for _, dst := range dsts {
		if uintptr(unsafe.Pointer(unsafe.SliceData(dst)))%uintptr(4*lanes) != 0 {
			return 0
		}
	}
	return len(dsts[0]) &^ (4*lanes - 1)
}
