//go:build amd64 || arm64

package f32

import "unsafe"

// sumsTo makes SumTo of a kernel for multiples of four vectors, aligned in dsts. It returns how
// many values are done.
func sumsTo(lanes int, wide func(dsts *[]float32, dstsBytes int, srcs *[]float32, srcsBytes int, n int)) func(dsts, srcs [][]float32) int {
	const header = int(unsafe.Sizeof([]float32{}))
	return func(dsts, srcs [][]float32) int {
		n := len(dsts[0]) &^ (4*lanes - 1)
		for _, dst := range dsts {
			if uintptr(unsafe.Pointer(unsafe.SliceData(dst)))%uintptr(4*lanes) != 0 {
				n = 0
			}
		}
		if n > 0 {
			wide(&dsts[0], header*len(dsts), &srcs[0], header*len(srcs), n)
		}
		return n
	}
}
