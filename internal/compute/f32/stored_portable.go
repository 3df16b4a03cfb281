package f32

import "unsafe"

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

// winogradInputHalfPortable and winogradOutputHalfPortable go over the channels one by one, in
// float32.
func winogradInputHalfPortable(a *WinogradArgs, left [][]float32) {
	var d, r [36]float32
	n := len(left) * len(left)
	b := WinogradArgs{Count: 1}
	for c := range a.Count {
		for i := range n {
			d[i] = BFloat16Value(unsafe.Slice((*uint16)(unsafe.Pointer(a.Src[i])), a.Count)[c])
			b.Src[i], b.Dst[i] = &d[i], &r[i]
		}
		winogradPortable(&b, left)
		for i := range n {
			a.dst(i)[c] = r[i]
		}
	}
}

func winogradOutputHalfPortable(a *WinogradArgs, left [][]float32) {
	var m [36]float32
	var values [16]float32
	r := values[:len(left)*len(left)]
	b := WinogradArgs{Count: 1}
	for c := range a.Count {
		for i := range len(left[0]) * len(left[0]) {
			m[i] = a.src(i)[c]
			b.Src[i] = &m[i]
		}
		for i := range r {
			b.Dst[i] = &r[i]
		}
		winogradPortable(&b, left)
		for i, v := range r {
			to := unsafe.Slice((*uint16)(unsafe.Pointer(a.Dst[i])), a.Count)
			if a.Add != 0 {
				v += BFloat16Value(to[c])
			}
			to[c] = BFloat16Bits(v)
		}
	}
}
