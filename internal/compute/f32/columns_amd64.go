package f32

// wideColumns reports whether the path has assembly for n columns: its two vectors.
func wideColumns(p Path, n int) bool { return p == AVX512 && n == 32 || p == AVX2 && n == 16 }

func maxColumnsWide(p Path, most, x []float32, scale float32) bool {
	n := len(most)
	if !wideColumns(p, n) {
		return false
	}
	if len(x) == 0 {
		return true
	}
	if p == AVX512 {
		maxColumnsAVX512(&most[0], &x[0], scale, len(x)/n)
	} else {
		maxColumnsAVX2(&most[0], &x[0], scale, len(x)/n)
	}
	return true
}

func expColumnsWide(p Path, x, sum, shift []float32, scale float32) bool {
	n := len(sum)
	if !wideColumns(p, n) {
		return false
	}
	if len(x) == 0 {
		return true
	}
	if p == AVX512 {
		expColumnsAVX512(&x[0], &sum[0], &shift[0], scale, len(x)/n)
	} else {
		expColumnsAVX2(&x[0], &sum[0], &shift[0], scale, len(x)/n)
	}
	return true
}

func expColumnsGradWide(p Path, x, dx, shift, delta []float32, scale float32) bool {
	n := len(shift)
	if !wideColumns(p, n) {
		return false
	}
	if len(x) == 0 {
		return true
	}
	if p == AVX512 {
		expColumnsGradAVX512(&x[0], &dx[0], &shift[0], &delta[0], scale, len(x)/n)
	} else {
		expColumnsGradAVX2(&x[0], &dx[0], &shift[0], &delta[0], scale, len(x)/n)
	}
	return true
}

func scaleColumnsWide(p Path, x, by []float32) bool {
	n := len(by)
	if !wideColumns(p, n) {
		return false
	}
	if len(x) == 0 {
		return true
	}
	if p == AVX512 {
		scaleColumnsAVX512(&x[0], &by[0], len(x)/n)
	} else {
		scaleColumnsAVX2(&x[0], &by[0], len(x)/n)
	}
	return true
}
