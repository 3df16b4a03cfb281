//go:build !amd64

package pixel

// Without assembly fast is never true, and what stands for it is never called.
var fast = false

func transformAVX2(dst *uint8, stride int, block *int16) { panic("pixel: no assembly") }

func smoothAVX2(dst, in, near *uint8, n int) { panic("pixel: no assembly") }

func convertAVX2(dst, y, cb, cr *uint8, n int) { panic("pixel: no assembly") }

func downAVX2(dst, src *uint8, stride, n int, weights *int32, count int) { panic("pixel: no assembly") }

func acrossAVX2(dst0, dst1, src0, src1 *uint8, first, count *int32, n int, weights *int32, each int) {
	panic("pixel: no assembly")
}
