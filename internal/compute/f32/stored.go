package f32

import "unsafe"

// The functions here are those of the same name without BFloat16 on arrays that are stored as
// bfloat16: they compute in float32, element for element the same, and round what they store to
// nearest even.

// An Array is numbers in one of two types: float32 or bfloat16. The other slice is nil; of no
// array, both are.
type Array struct {
	F32  []float32
	BF16 []uint16
}

// Len is the number of numbers.
func (a Array) Len() int { return len(a.F32) + len(a.BF16) }

// None is true of no array.
func (a Array) None() bool { return a.F32 == nil && a.BF16 == nil }

// Same reports whether two arrays of some numbers are the same memory.
func (a Array) Same(b Array) bool {
	if a.BF16 != nil && b.BF16 != nil {
		return &a.BF16[0] == &b.BF16[0]
	}
	return a.F32 != nil && b.F32 != nil && &a.F32[0] == &b.F32[0]
}

// Part is numbers lo to hi; no part of no array.
func (a Array) Part(lo, hi int) Array {
	switch {
	case a.BF16 != nil:
		return Array{BF16: a.BF16[lo:hi]}
	case a.F32 != nil:
		return Array{F32: a.F32[lo:hi]}
	}
	return a
}

// Move sets dst to x, converted if their types differ.
func Move(dst, x Array) {
	switch {
	case dst.F32 != nil && x.F32 != nil:
		copy(dst.F32, x.F32)
	case dst.F32 != nil:
		FromBFloat16(dst.F32, x.BF16)
	case x.F32 != nil:
		ToBFloat16(dst.BF16, x.F32)
	default:
		copy(dst.BF16, x.BF16)
	}
}

// ChannelSumsBFloat16 is ChannelSums.
func ChannelSumsBFloat16(sum, sumSq []float64, x []uint16) {
	sumChannels("ChannelSumsBFloat16", sum, sumSq, x)
}

// ChannelSumsAroundBFloat16 is ChannelSumsAround.
func ChannelSumsAroundBFloat16(sum, sumSq []float64, x []uint16, center []float32) {
	sumChannelsAround("ChannelSumsAroundBFloat16", sum, sumSq, x, center)
}

// ChannelGradSumsBFloat16 is ChannelGradSums.
func ChannelGradSumsBFloat16(sumDy, sumDyX []float64, dy, x, y []uint16, center []float32) {
	sumChannelGrads("ChannelGradSumsBFloat16", sumDy, sumDyX, dy, x, y, center)
}

// ScaleShiftBFloat16 is ScaleShift, or ScaleShiftAdd if res is not nil.
func ScaleShiftBFloat16(y, x, res []uint16, scale, shift []float32, relu bool) {
	checkChannels2("ScaleShiftBFloat16", len(scale), len(y), len(x), len(x))
	same2("ScaleShiftBFloat16", len(scale), len(shift), len(shift))
	if res != nil {
		same2("ScaleShiftBFloat16", len(y), len(res), len(res))
	}
	scaleShift(kernels.tile.path, y, x, res, scale, shift, relu)
}

// NormGradBFloat16 is NormGrad.
func NormGradBFloat16(dx, dy, x, y []uint16, p, q, r []float32) {
	normGradOf("NormGradBFloat16", dx, dy, x, y, p, q, r)
}

// AddBFloat16 is Add.
func AddBFloat16(dst, a, b []uint16) {
	same2("AddBFloat16", len(dst), len(a), len(b))
	addHalf(kernels.tile.path, dst, a, b)
}

// AddToBFloat16 sets dst += x, where dst is float32.
func AddToBFloat16(dst []float32, x []uint16) {
	same2("AddToBFloat16", len(dst), len(dst), len(x))
	addToHalf(kernels.tile.path, dst, x)
}

// ReLUBFloat16 is ReLU.
func ReLUBFloat16(dst, x []uint16) {
	same2("ReLUBFloat16", len(dst), len(dst), len(x))
	reluHalf(kernels.tile.path, dst, x)
}

// ReLUGradBFloat16 is ReLUGrad.
func ReLUGradBFloat16(dx, dy, y []uint16) {
	same2("ReLUGradBFloat16", len(dx), len(dy), len(y))
	reluGradHalf(kernels.tile.path, dx, dy, y)
}

// MaxWhichBFloat16 is MaxWhich.
func MaxWhichBFloat16(out []uint16, chosen []uint8, x []uint16, which uint8) {
	same2("MaxWhichBFloat16", len(out), len(chosen), len(x))
	maxWhichHalf(kernels.tile.path, out, chosen, x, which)
}

// PairsOf is x as pairs, without a copy: element i is the pair of x[2i] and x[2i+1]. The length is
// even; x begins where a float32 may.
func PairsOf(x []uint16) []float32 {
	if len(x) == 0 {
		return nil
	}
	return unsafe.Slice((*float32)(unsafe.Pointer(&x[0])), len(x)/2)
}

// HalvesOf is the bfloat16 numbers of pairs, without a copy: the other way than PairsOf.
func HalvesOf(pairs []float32) []uint16 {
	if len(pairs) == 0 {
		return nil
	}
	return unsafe.Slice((*uint16)(unsafe.Pointer(&pairs[0])), 2*len(pairs))
}

// PairRowsBFloat16 is PairRows of rows that are bfloat16 already.
func (t *Tile) PairRowsBFloat16(dst []float32, dstStride int, low, high []uint16, srcStride, rows, n, width int) {
	pairRowsWithin(t, dst, dstStride, low, high, srcStride, rows, n, width)
}

// NarrowRows rounds the first ncols values of rows of Cols values to bfloat16, row i to
// dst[at[i]...], or adds them to what is there.
func (t *Tile) NarrowRows(dst []uint16, at *[MaxTileRows]int, src []float32, rows, ncols int, add bool) {
	src = src[:rows*t.Cols]
	for _, a := range at[:rows] {
		_ = dst[a : a+ncols]
	}
	t.narrowRows(dst, at, src, rows, ncols, add)
}

// Half is a bfloat16's place as WinogradArgs takes it.
func Half(p *uint16) *float32 { return (*float32)(unsafe.Pointer(p)) }
