package f32

import "math"

func maxColumnsPortable(most, x []float32, scale float32) {
	for ; len(x) > 0; x = x[len(most):] {
		for i := range most {
			most[i] = max(most[i], scale*x[i])
		}
	}
}

// exp2 is 2^x, 0 below 2^−126: 2^r for the fraction r by a polynomial, off by 9e-8 of the result at
// most, and the whole part of x into the exponent.
func exp2(x float32) float32 {
	switch {
	case x < -126:
		return 0
	case x > 127:
		x = 127
	case x != x:
		return x
	}
	whole := float32(math.Floor(float64(x)))
	r := x - whole
	y := float32(0x1.c54174p-13)
	for _, c := range [...]float32{0x1.46d64ep-10, 0x1.3d0b92p-7, 0x1.c68912p-5, 0x1.ebfd58p-3, 0x1.62e42cp-1, 1} {
		y = y*r + c
	}
	return math.Float32frombits(math.Float32bits(y) + uint32(int32(whole))<<23)
}

func expColumnsPortable(x, sum, shift []float32, scale float32) {
	for ; len(x) > 0; x = x[len(sum):] {
		for i := range sum {
			x[i] = exp2(scale*x[i] - shift[i])
			sum[i] += x[i]
		}
	}
}

func expColumnsGradPortable(x, dx, shift, delta []float32, scale float32) {
	for ; len(x) > 0; x, dx = x[len(shift):], dx[len(shift):] {
		for i := range shift {
			x[i] = exp2(scale*x[i] - shift[i])
			dx[i] = x[i] * (dx[i] - delta[i])
		}
	}
}

func scaleColumnsPortable(x, by []float32) {
	for ; len(x) > 0; x = x[len(by):] {
		for i := range by {
			x[i] *= by[i]
		}
	}
}
