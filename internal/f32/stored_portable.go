package f32

import "unsafe"

// The loops here take rows as those of channel_portable.go do.

func channelSumsHalfPortable(sum, sumSq []float32, x []uint16, c int) {
	n := len(sum)
	sumSq = sumSq[:n]
	for i := 0; i+n <= len(x); i += c {
		for j, h := range x[i : i+n] {
			v := BFloat16Value(h)
			sum[j] += v
			sumSq[j] += v * v
		}
	}
}

func channelSumsAroundHalfPortable(sum, sumSq []float32, x []uint16, center []float32, c int) {
	n := len(sum)
	for i := 0; i+n <= len(x); i += c {
		for j, h := range x[i : i+n] {
			v := BFloat16Value(h) - center[j]
			sum[j] += v
			sumSq[j] += v * v
		}
	}
}

func channelGradSumsHalfPortable(sumDy, sumDyX []float32, dy, x, y []uint16, center []float32, c int) {
	n := len(sumDy)
	for i := 0; i+n <= len(dy); i += c {
		for j, d := range dy[i : i+n] {
			if y != nil {
				if d = throughReLUHalf(d, y[i+j]); d == 0 {
					continue
				}
			}
			v := BFloat16Value(d)
			sumDy[j] += v
			sumDyX[j] += v * (BFloat16Value(x[i+j]) - center[j])
		}
	}
}

func scaleShiftHalfPortable(y, x, res []uint16, scale, shift []float32, relu bool) {
	c := len(scale)
	for i := 0; i < len(y); i += c {
		out, in := y[i:i+c], x[i:i+c]
		for j := range out {
			v := BFloat16Value(in[j])*scale[j] + shift[j]
			if res != nil {
				v += BFloat16Value(res[i+j])
			}
			if relu && v < 0 {
				v = 0
			}
			out[j] = BFloat16Bits(v)
		}
	}
}

func normGradHalfPortable(dx, dy, x, y []uint16, p, q, r []float32) {
	c := len(p)
	for i := 0; i < len(dx); i += c {
		for j := range c {
			h := dy[i+j]
			if y != nil {
				h = throughReLUHalf(h, y[i+j])
			}
			dx[i+j] = BFloat16Bits(p[j]*BFloat16Value(h) + q[j]*BFloat16Value(x[i+j]) + r[j])
		}
	}
}

func addHalfPortable(dst, a, b []uint16) {
	for i := range dst {
		dst[i] = BFloat16Bits(BFloat16Value(a[i]) + BFloat16Value(b[i]))
	}
}

func addToHalfPortable(dst []float32, x []uint16) {
	for i, h := range x {
		dst[i] += BFloat16Value(h)
	}
}

func reluHalfPortable(dst, x []uint16) {
	for i, h := range x {
		if BFloat16Value(h) < 0 {
			h = 0
		}
		dst[i] = h
	}
}

// throughReLUHalf is throughReLU of bfloat16.
func throughReLUHalf(d, g uint16) uint16 {
	z := d
	if int16(g) <= 0 {
		z = 0
	}
	if max(d<<1, g<<1) > 0x7f80<<1 {
		z = 0x7fc0
	}
	return z
}

func reluGradHalfPortable(dx, dy, y []uint16) {
	for i, h := range dy {
		dx[i] = throughReLUHalf(h, y[i])
	}
}

func maxWhichHalfPortable(out []uint16, chosen []uint8, x []uint16, which uint8) {
	for i, h := range x {
		if v := BFloat16Value(h); v > BFloat16Value(out[i]) || v != v {
			out[i], chosen[i] = h, which
		}
	}
}

func pairRowsHalfPortable(dst []float32, dstStride int, low, high []uint16, srcStride, rows, n, width int) {
	for i := range rows {
		to := unsafe.Slice((*uint32)(unsafe.Pointer(&dst[i*dstStride])), width)
		for j := range n {
			v := uint32(low[i*srcStride+j])
			if high != nil {
				v |= uint32(high[i*srcStride+j]) << 16
			}
			to[j] = v
		}
		clear(to[n:])
	}
}

func narrowRowsPortable(cols int, dst []uint16, at *[MaxTileRows]int, src []float32, rows, ncols int, add bool) {
	for i, a := range at[:rows] {
		to := dst[a : a+ncols]
		for j, v := range src[i*cols : i*cols+ncols] {
			if add {
				v += BFloat16Value(to[j])
			}
			to[j] = BFloat16Bits(v)
		}
	}
}

// winogradInputHalfPortable and winogradOutputHalfPortable go over the channels one by one, in float32.
func winogradInputHalfPortable(a *WinogradArgs) {
	var d, r [16]float32
	b := WinogradArgs{Count: 1}
	for c := range a.Count {
		for i := range 16 {
			d[i] = BFloat16Value(unsafe.Slice((*uint16)(unsafe.Pointer(a.Src[i])), a.Count)[c])
			b.Src[i], b.Dst[i] = &d[i], &r[i]
		}
		winogradPortable(&b, winogradB)
		for i := range 16 {
			a.dst(i)[c] = r[i]
		}
	}
}

func winogradOutputHalfPortable(a *WinogradArgs) {
	var m [16]float32
	var r [4]float32
	b := WinogradArgs{Count: 1}
	for c := range a.Count {
		for i := range 16 {
			m[i] = a.src(i)[c]
			b.Src[i] = &m[i]
		}
		for i := range r {
			b.Dst[i] = &r[i]
		}
		winogradPortable(&b, winogradA)
		for i, v := range r {
			to := unsafe.Slice((*uint16)(unsafe.Pointer(a.Dst[i])), a.Count)
			if a.Add != 0 {
				v += BFloat16Value(to[c])
			}
			to[c] = BFloat16Bits(v)
		}
	}
}
