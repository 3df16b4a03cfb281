package gputest

import "math"

// Narrow rounds to a type of 16 bits, to nearest even: bfloat16, or float16.
func Narrow(bfloat bool, x float32) uint16 {
	u := math.Float32bits(x)
	sign := uint16(u >> 16 & 0x8000)
	a := math.Abs(float64(x))
	switch {
	case x != x:
		return 0x7fff
	case bfloat:
		return uint16((u + 0x7fff + u>>16&1) >> 16)
	case a >= 65520:
		return sign | 0x7c00
	case a < 0x1p-14:
		return sign | uint16(math.RoundToEven(a*0x1p24))
	}
	_, e := math.Frexp(a) // a in [2^(e-1), 2^e)
	m := math.RoundToEven(math.Ldexp(a, 11-e))
	return sign | uint16((e+13)<<10+int(m))
}

// Wide is the number that 16 bits stand for.
func Wide(bfloat bool, h uint16) float32 {
	if bfloat {
		return math.Float32frombits(uint32(h) << 16)
	}
	v := math.Ldexp(float64(h&1023), -24)
	switch e := int(h >> 10 & 31); e {
	case 0:
	case 31:
		v = math.Inf(1)
		if h&1023 != 0 {
			v = math.NaN()
		}
	default:
		v = math.Ldexp(1024+float64(h&1023), e-25)
	}
	if h&0x8000 != 0 {
		v = -v
	}
	return float32(v)
}
