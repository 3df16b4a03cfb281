package f32

func wholeLanes(path Path, n int) int  { return wide(path, n) &^ (squareLanes - 1) }
func wholeBlocks(path Path, n int) int { return wide(path, n) &^ (squareBlock - 1) }

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
	n := wholeBlocks(path, len(x))
	switch {
	case n == 0:
	case path == AVX512:
		squaresOverAVX512(&sums[0], &x[0], &p.Variance[0], p.Root, p.Epsilon, n)
	default:
		squaresOverAVX2(&sums[0], &x[0], &p.Variance[0], p.Root, p.Epsilon, n)
	}
	return n
}

// addMeasuredWide takes all sums. Its result is a multiple of squareBlock, or len(dst) rounded down
// to one of squareLanes.
func addMeasuredWide(path Path, dst, x []float32, p Precondition, sums *AddSquares) int {
	switch n, over := wholeLanes(path, len(dst)), wholeBlocks(path, len(dst)); {
	case path != AVX512:
		return 0
	case p.Variance == nil && n > 0:
		addMeasuredAVX512(&sums.Before[0], &dst[0], &x[0], n)
		return n
	case p.Variance != nil && over > 0:
		addMeasuredOverAVX512(&sums.Before[0], &dst[0], &x[0], &p.Variance[0], p.Root, p.Epsilon, over)
		return over
	}
	return 0
}

// adamMeasuredWide's result is a multiple of squareBlock.
func (u *Update) adamMeasuredWide(path Path, value, grad, x, mean []float32, p Precondition, sums *AddSquares) int {
	n := wholeBlocks(path, len(value))
	if path != AVX512 || n == 0 {
		return 0
	}
	k := u.coefficients()
	adamMeasuredAVX512(&sums.Before[0], &value[0], &grad[0], &x[0], &mean[0], &p.Variance[0], &k[0], p.Root, p.Epsilon, n)
	return n
}
