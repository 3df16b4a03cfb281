package f32

// Each Wide function updates what of the arrays is whole vectors of path p and returns how many
// elements that is. They choose the kernel by name, not through a table, so that an Update may live
// on its caller's stack.

// wide is n cut to whole vectors of the path: 0 if it has none.
func wide(p Path, n int) int {
	switch p {
	case AVX512:
		return n &^ 15
	case AVX2:
		return n &^ 7
	}
	return 0
}

func (u *Update) ascendWide(p Path, value, grad []float32) int {
	n := wide(p, len(value))
	if n == 0 {
		return 0
	}
	k := u.coefficients()
	if p == AVX512 {
		ascendAVX512(&value[0], &grad[0], &k[0], n)
	} else {
		ascendAVX2(&value[0], &grad[0], &k[0], n)
	}
	return n
}

func (u *Update) sgdWide(p Path, value, grad []float32) int {
	n := wide(p, len(value))
	if n == 0 {
		return 0
	}
	k := u.coefficients()
	if p == AVX512 {
		sgdAVX512(&value[0], &grad[0], &k[0], n)
	} else {
		sgdAVX2(&value[0], &grad[0], &k[0], n)
	}
	return n
}

func (u *Update) momentumWide(p Path, value, grad, m []float32) int {
	n := wide(p, len(value))
	if n == 0 {
		return 0
	}
	k := u.coefficients()
	if p == AVX512 {
		momentumAVX512(&value[0], &grad[0], &m[0], &k[0], n)
	} else {
		momentumAVX2(&value[0], &grad[0], &m[0], &k[0], n)
	}
	return n
}

func (u *Update) nesterovWide(p Path, value, grad, m []float32) int {
	n := wide(p, len(value))
	if n == 0 {
		return 0
	}
	k := u.coefficients()
	if p == AVX512 {
		nesterovAVX512(&value[0], &grad[0], &m[0], &k[0], n)
	} else {
		nesterovAVX2(&value[0], &grad[0], &m[0], &k[0], n)
	}
	return n
}

func (u *Update) adamWide(p Path, value, grad, mean, variance []float32) int {
	n := wide(p, len(value))
	if n == 0 {
		return 0
	}
	k := u.coefficients()
	if p == AVX512 {
		adamAVX512(&value[0], &grad[0], &mean[0], &variance[0], &k[0], n)
	} else {
		adamAVX2(&value[0], &grad[0], &mean[0], &variance[0], &k[0], n)
	}
	return n
}

func (u *Update) adagradWide(p Path, value, grad, sum []float32) int {
	n := wide(p, len(value))
	if n == 0 {
		return 0
	}
	k := u.coefficients()
	if p == AVX512 {
		adagradAVX512(&value[0], &grad[0], &sum[0], &k[0], n)
	} else {
		adagradAVX2(&value[0], &grad[0], &sum[0], &k[0], n)
	}
	return n
}

func (u *Update) ftrlWide(p Path, value, grad, z, squares []float32) int {
	n := wide(p, len(value))
	if n == 0 {
		return 0
	}
	k := u.coefficients()
	if p == AVX512 {
		ftrlAVX512(&value[0], &grad[0], &z[0], &squares[0], &k[0], n)
	} else {
		ftrlAVX2(&value[0], &grad[0], &z[0], &squares[0], &k[0], n)
	}
	return n
}

func (u *Update) lambWide(p Path, value, grad, mean, variance []float32) int {
	n := wide(p, len(value))
	if n == 0 {
		return 0
	}
	k := u.coefficients()
	if p == AVX512 {
		lambAVX512(&value[0], &grad[0], &mean[0], &variance[0], &k[0], n)
	} else {
		lambAVX2(&value[0], &grad[0], &mean[0], &variance[0], &k[0], n)
	}
	return n
}

func (u *Update) rmspropWide(p Path, value, grad, square, mean, m []float32) int {
	n := wide(p, len(value))
	if n == 0 {
		return 0
	}
	k := u.coefficients()
	switch isWide := p == AVX512; {
	case mean != nil && m != nil && isWide:
		rmspropCenteredMomentumAVX512(&value[0], &grad[0], &square[0], &mean[0], &m[0], &k[0], n)
	case mean != nil && m != nil:
		rmspropCenteredMomentumAVX2(&value[0], &grad[0], &square[0], &mean[0], &m[0], &k[0], n)
	case mean != nil && isWide:
		rmspropCenteredAVX512(&value[0], &grad[0], &square[0], &mean[0], &k[0], n)
	case mean != nil:
		rmspropCenteredAVX2(&value[0], &grad[0], &square[0], &mean[0], &k[0], n)
	case m != nil && isWide:
		rmspropMomentumAVX512(&value[0], &grad[0], &square[0], &m[0], &k[0], n)
	case m != nil:
		rmspropMomentumAVX2(&value[0], &grad[0], &square[0], &m[0], &k[0], n)
	case isWide:
		rmspropAVX512(&value[0], &grad[0], &square[0], &k[0], n)
	default:
		rmspropAVX2(&value[0], &grad[0], &square[0], &k[0], n)
	}
	return n
}

func (u *Update) lambSquaresWide(p Path, sums *[numSums]float64, value, grad, mean, variance []float32) int {
	n := wide(p, len(value)) &^ (numSums - 1)
	if n == 0 {
		return 0
	}
	k := u.coefficients()
	if p == AVX512 {
		lambSquaresAVX512(&sums[0], &value[0], &grad[0], &mean[0], &variance[0], &k[0], n)
	} else {
		lambSquaresAVX2(&sums[0], &value[0], &grad[0], &mean[0], &variance[0], &k[0], n)
	}
	return n
}

func (u *Update) squaresWide(p Path, sums *[numSums]float64, grad []float32) int {
	n := wide(p, len(grad)) &^ (numSums - 1)
	if n == 0 {
		return 0
	}
	k := u.coefficients()
	if p == AVX512 {
		squaresAVX512(&sums[0], &grad[0], &k[0], n)
	} else {
		squaresAVX2(&sums[0], &grad[0], &k[0], n)
	}
	return n
}
