package f32

// keepWide is Keep of as many values as it returns.
func keepWide(p Path, dst []float32, from, step, threshold uint64, keep float32) int {
	n := len(dst) &^ 31
	if p != AVX512 || n == 0 {
		return 0
	}
	keepAVX512(&dst[0], from, step, threshold, keep, n)
	return n
}

// dropWide is Drop of as many values as it returns.
func dropWide(p Path, dst, x []float32, from, threshold uint64, scale float32) int {
	n := len(dst) &^ 31
	if p != AVX512 || n == 0 {
		return 0
	}
	dropAVX512(&dst[0], &x[0], from, threshold, scale, n)
	return n
}
