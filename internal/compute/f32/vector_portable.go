package f32

import "math"

func addPortable(dst, a, b []float32) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = a[i] + b[i]
	}
}

func mulPortable(dst, a, b []float32) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = a[i] * b[i]
	}
}

func axpyPortable(dst []float32, alpha float32, x []float32) {
	x = x[:len(dst)]
	for i := range dst {
		dst[i] += alpha * x[i]
	}
}

func axpbyPortable(dst []float32, alpha float32, x []float32, beta float32) {
	x = x[:len(dst)]
	for i := range dst {
		dst[i] = alpha*x[i] + beta*dst[i]
	}
}

func scalePortable(dst []float32, alpha float32, x []float32) {
	x = x[:len(dst)]
	for i := range dst {
		dst[i] = alpha * x[i]
	}
}

func dividePortable(dst []float32, by float32, x []float32) {
	x = x[:len(dst)]
	for i := range dst {
		dst[i] = x[i] / by
	}
}

func sumPortable(x []float32) float32 {
	var s [8]float32
	i := 0
	for ; i+8 <= len(x); i += 8 {
		v := x[i : i+8 : i+8]
		for j := range s {
			s[j] += v[j]
		}
	}
	for ; i < len(x); i++ {
		s[0] += x[i]
	}
	return ((s[0] + s[4]) + (s[2] + s[6])) + ((s[1] + s[5]) + (s[3] + s[7]))
}

func dotPortable(x, y []float32) float32 {
	var s [8]float32
	i := 0
	for ; i+8 <= len(x); i += 8 {
		v, w := x[i:i+8:i+8], y[i:i+8:i+8]
		for j := range s {
			s[j] += v[j] * w[j]
		}
	}
	for ; i < len(x); i++ {
		s[0] += x[i] * y[i]
	}
	return ((s[0] + s[4]) + (s[2] + s[6])) + ((s[1] + s[5]) + (s[3] + s[7]))
}

func maxPortable(x []float32) float32 {
	m := x[0]
	for _, v := range x {
		if v > m {
			m = v
		}
	}
	return m
}

func reluPortable(dst, x []float32) {
	x = x[:len(dst)]
	for i, v := range x {
		if v < 0 {
			v = 0
		}
		dst[i] = v
	}
}

func maxWhichPortable(out []float32, chosen []uint8, x []float32, which uint8) {
	chosen, x = chosen[:len(out)], x[:len(out)]
	for i, v := range x {
		if v > out[i] || v != v {
			out[i], chosen[i] = v, which
		}
	}
}

func reluGradPortable(dx, dy, y []float32) {
	dy, y = dy[:len(dx)], y[:len(dx)]
	for i := range dx {
		dx[i] = throughReLU(dy[i], y[i])
	}
}

// throughReLU is ReLUGrad of one value, without branches: it looks at bits.
func throughReLU(dy, y float32) float32 {
	d, g := math.Float32bits(dy), math.Float32bits(y)
	z := d
	if int32(g) <= 0 {
		z = 0
	}
	if max(d<<1, g<<1) > 0x7f800000<<1 {
		z = 0x7fc00000
	}
	return math.Float32frombits(z)
}
