package f32

// wideColumns reports whether the path has assembly for n columns: whole vectors.
func wideColumns(p Path, n int) bool { return p == NEON && n%4 == 0 }

func maxColumnsWide(p Path, most, x []float32, scale float32) bool {
	n := len(most)
	if !wideColumns(p, n) {
		return false
	}
	if len(x) > 0 {
		maxColumnsNEON(&most[0], &x[0], scale, n, len(x)/n, 4*n)
	}
	return true
}

func expColumnsWide(p Path, x, sum, shift []float32, scale float32) bool {
	n := len(sum)
	if !wideColumns(p, n) {
		return false
	}
	if len(x) > 0 {
		expColumnsNEON(&x[0], &sum[0], &shift[0], scale, n, len(x)/n, 4*n)
	}
	return true
}

func expColumnsGradWide(p Path, x, dx, shift, delta []float32, scale float32) bool {
	n := len(shift)
	if !wideColumns(p, n) {
		return false
	}
	if len(x) > 0 {
		expColumnsGradNEON(&x[0], &dx[0], &shift[0], &delta[0], scale, n, len(x)/n, 4*n)
	}
	return true
}

func scaleColumnsWide(p Path, x, by []float32) bool {
	n := len(by)
	if !wideColumns(p, n) {
		return false
	}
	if len(x) > 0 {
		scaleColumnsNEON(&x[0], &by[0], n, len(x)/n, 4*n)
	}
	return true
}
