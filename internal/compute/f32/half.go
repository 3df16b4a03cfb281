package f32

import "math"

// ToFloat16 converts to IEEE 754 binary16, rounding to nearest, ties to even. Values beyond 65504
// by half a unit or more become infinities, small ones subnormals; a NaN stays one.
func ToFloat16(dst []uint16, x []float32) {
	same2("ToFloat16", len(dst), len(dst), len(x))
	kernels.toFloat16(dst, x)
}

// FromFloat16 converts from IEEE 754 binary16, exactly.
func FromFloat16(dst []float32, x []uint16) {
	same2("FromFloat16", len(dst), len(dst), len(x))
	kernels.fromFloat16(dst, x)
}

// ToBFloat16 converts to bfloat16 (the upper half of a float32), rounding to nearest, ties to even.
// A NaN stays one.
func ToBFloat16(dst []uint16, x []float32) {
	same2("ToBFloat16", len(dst), len(dst), len(x))
	kernels.toBFloat16(dst, x)
}

// FromBFloat16 converts from bfloat16, exactly.
func FromBFloat16(dst []float32, x []uint16) {
	same2("FromBFloat16", len(dst), len(dst), len(x))
	kernels.fromBFloat16(dst, x)
}

// Float16Bits is ToFloat16 of one value.
func Float16Bits(f float32) uint16 {
	u := math.Float32bits(f)
	sign := uint16(u >> 16 & 0x8000)
	u &= 0x7fffffff
	switch {
	case u > 0x7f800000:
		// NaN is made quiet, and the payload's upper bits are kept, as VCVTPS2PH does.
		return sign | 0x7e00 | uint16(u>>13&0x3ff)
	case u >= 0x477ff000: // 65520 and above round to infinity
		return sign | 0x7c00
	case u < 0x38800000:
		// Below 2^-14 the number is subnormal. To add 1/2 puts the rounding where float32 does it:
		// units of 2^-24.
		return sign | uint16(math.Float32bits(math.Float32frombits(u)+0.5)-0x3f000000)
	}

	// It rounds to nearest even. A carry moves into the exponent, as it should.
	u += 0xfff + u>>13&1
	return sign | uint16((u-0x38000000)>>13)
}

// Float16Value is FromFloat16 of one value.
func Float16Value(h uint16) float32 {
	sign, u := uint32(h&0x8000)<<16, uint32(h&0x7fff)
	switch {
	case u > 0x7c00:
		return math.Float32frombits(sign | 0x7fc00000 | u<<13)
	case u == 0x7c00:
		return math.Float32frombits(sign | 0x7f800000)
	case u < 0x400:
		return math.Float32frombits(sign | math.Float32bits(float32(u)*0x1p-24))
	}
	return math.Float32frombits(sign | (u<<13 + 0x38000000))
}

// BFloat16Bits is ToBFloat16 of one value.
func BFloat16Bits(f float32) uint16 {
	u := math.Float32bits(f)
	if u&0x7fffffff > 0x7f800000 {
		return uint16(u>>16) | 0x40
	}
	return uint16((u + 0x7fff + u>>16&1) >> 16)
}

// BFloat16Value is FromBFloat16 of one value.
func BFloat16Value(h uint16) float32 { return math.Float32frombits(uint32(h) << 16) }

func toFloat16Portable(dst []uint16, x []float32) {
	for i, v := range x {
		dst[i] = Float16Bits(v)
	}
}

func fromFloat16Portable(dst []float32, x []uint16) {
	for i, v := range x {
		dst[i] = Float16Value(v)
	}
}

func toBFloat16Portable(dst []uint16, x []float32) {
	for i, v := range x {
		dst[i] = BFloat16Bits(v)
	}
}

func fromBFloat16Portable(dst []float32, x []uint16) {
	for i, v := range x {
		dst[i] = BFloat16Value(v)
	}
}
