package f32

func squaresOverWide(path Path, sums *[numSums]float64, x []float32, p Precondition) int {
	n := wide(path, len(x)) &^ (numSums - 1)
	switch {
	case n == 0:
	case path == AVX512:
		squaresOverAVX512(&sums[0], &x[0], &p.Variance[0], p.Root, p.Epsilon, n)
	default:
		squaresOverAVX2(&sums[0], &x[0], &p.Variance[0], p.Root, p.Epsilon, n)
	}
	return n
}

// addMeasuredWide takes all sums. Its result is a multiple of 16.
func addMeasuredWide(path Path, dst, x []float32, p Precondition, sums *AddSquares) int {
	n := len(dst) &^ (numSums - 1)
	switch {
	case path != AVX512 || n == 0:
		return 0
	case p.Variance == nil:
		addMeasuredAVX512(&sums.Before[0], &dst[0], &x[0], n)
	default:
		addMeasuredOverAVX512(&sums.Before[0], &dst[0], &x[0], &p.Variance[0], p.Root, p.Epsilon, n)
	}
	return n
}
