package checkpoint

import "math"

// A DType is the type of a tensor's elements, by its name in the file.
type DType string

// The types that safetensors files hold. Those with a method of their own on
// File are read as numbers; all are read as bytes.
const (
	F64  DType = "F64"
	F32  DType = "F32"
	F16  DType = "F16"
	BF16 DType = "BF16"
	I64  DType = "I64"
	I32  DType = "I32"
	I16  DType = "I16"
	I8   DType = "I8"
	U64  DType = "U64"
	U32  DType = "U32"
	U16  DType = "U16"
	U8   DType = "U8"
	Bool DType = "BOOL"
)

// Size returns the bytes of an element, or 0 for a type that is not known.
func (d DType) Size() int {
	switch d {
	case F64, I64, U64:
		return 8
	case F32, I32, U32:
		return 4
	case F16, BF16, I16, U16:
		return 2
	case I8, U8, Bool:
		return 1
	}
	return 0
}

// toBF16 rounds to the nearest bfloat16, ties to even.
func toBF16(x float32) uint16 {
	b := math.Float32bits(x)
	if x != x {
		return uint16(b>>16) | 0x40 // stay a NaN
	}
	return uint16((b + 0x7fff + b>>16&1) >> 16)
}

func fromBF16(h uint16) float32 { return math.Float32frombits(uint32(h) << 16) }

// toF16 rounds to the nearest IEEE half, ties to even; what is too large
// becomes infinite.
func toF16(x float32) uint16 {
	b := math.Float32bits(x)
	sign, rest := uint16(b>>16&0x8000), b&0x7fffffff
	switch {
	case rest > 0x7f800000: // NaN
		return sign | 0x7e00 | uint16(rest>>13&0x3ff)
	case rest >= 0x477ff000: // 65520 and above, where rounding leaves the range
		return sign | 0x7c00
	case rest >= 0x38800000: // 2⁻¹⁴ and above: normal
		return sign | uint16((rest-0x38000000+0xfff+rest>>13&1)>>13)
	}
	// Subnormal: let the float32 adder round at 2⁻²⁴.
	return sign | uint16(math.Float32bits(math.Float32frombits(rest)+0.5)-0x3f000000)
}

func fromF16(h uint16) float32 {
	sign, exponent, fraction := uint32(h&0x8000)<<16, uint32(h>>10&0x1f), uint32(h&0x3ff)
	switch exponent {
	case 0x1f:
		return math.Float32frombits(sign | 0x7f800000 | fraction<<13)
	case 0:
		x := float32(fraction) / (1 << 24)
		return math.Float32frombits(sign | math.Float32bits(x))
	}
	return math.Float32frombits(sign | (exponent+112)<<23 | fraction<<13)
}
