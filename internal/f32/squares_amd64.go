package f32

func wholeLanes(path Path, n int) int { return wide(path, n) &^ (squareLanes - 1) }

func squareSumWide(path Path, sums *SquareSum, x []float32) int {
	n := wholeLanes(path, len(x))
	switch {
	case n == 0:
	case path == AVX512:
		squareSumAVX512(&sums[0], &x[0], n)
	default:
		squareSumAVX2(&sums[0], &x[0], n)
	}
	return n
}

func squaresOverWide(path Path, sums *SquareSum, x []float32, p Precondition) int {
	n := wholeLanes(path, len(x))
	switch {
	case n == 0:
	case path == AVX512:
		squaresOverAVX512(&sums[0], &x[0], &p.Variance[0], p.Root, p.Epsilon, n)
	default:
		squaresOverAVX2(&sums[0], &x[0], &p.Variance[0], p.Root, p.Epsilon, n)
	}
	return n
}

// addMeasuredWide takes all sums. Its result is a multiple of squareLanes.
func addMeasuredWide(path Path, dst, x []float32, p Precondition, sums *AddSquares) int {
	n := wholeLanes(path, len(dst))
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
