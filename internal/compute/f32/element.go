package f32

import "unsafe"

// An element is a number of an array: a float32, or the bits of a bfloat16. Functions over both are
// compiled once for each, so that isHalf is a constant there.
type element interface{ float32 | uint16 }

// isHalf reports whether elements are bfloat16.
func isHalf[E element]() bool {
	var e E
	return unsafe.Sizeof(e) == 2
}

// cast is x as a slice of To, which is its type in another function's words.
func cast[To, From element](x []From) []To {
	return unsafe.Slice((*To)(unsafe.Pointer(unsafe.SliceData(x))), len(x))
}

// load is the element's number.
func load[E element](e E) float32 {
	if isHalf[E]() {
		return BFloat16Value(uint16(e))
	}
	return float32(e)
}

// halfBits is the bits of the bfloat16 nearest to the element's number, as ToBFloat16 rounds.
func halfBits[E element](e E) uint16 {
	if isHalf[E]() {
		return uint16(e)
	}
	return BFloat16Bits(float32(e))
}

// round is the element nearest to v; of two bfloat16 that are equally near, the even one.
func round[E element](v float32) E {
	if isHalf[E]() {
		return E(halfBits(v))
	}
	return E(v)
}

// throughReLUOf is throughReLU of elements.
func throughReLUOf[E element](d, y E) E {
	if isHalf[E]() {
		return E(throughReLUHalf(uint16(d), uint16(y)))
	}
	return E(throughReLU(float32(d), float32(y)))
}
