package f32

// Each Wide function updates what of the arrays is whole vectors and returns how many elements that
// is. They call the kernel by name, not through a table, so that an Update may live on its caller's
// stack.

func (u *Update) ascendWide(p Path, value, grad []float32) int {
	n := wide(p, len(value))
	if n > 0 {
		k := u.coefficients()
		ascendNEON(&value[0], &grad[0], &k[0], n)
	}
	return n
}

func (u *Update) sgdWide(p Path, value, grad []float32) int {
	n := wide(p, len(value))
	if n > 0 {
		k := u.coefficients()
		sgdNEON(&value[0], &grad[0], &k[0], n)
	}
	return n
}

func (u *Update) momentumWide(p Path, value, grad, m []float32) int {
	n := wide(p, len(value))
	if n > 0 {
		k := u.coefficients()
		momentumNEON(&value[0], &grad[0], &m[0], &k[0], n)
	}
	return n
}

func (u *Update) nesterovWide(p Path, value, grad, m []float32) int {
	n := wide(p, len(value))
	if n > 0 {
		k := u.coefficients()
		nesterovNEON(&value[0], &grad[0], &m[0], &k[0], n)
	}
	return n
}

func (u *Update) adamWide(p Path, value, grad, mean, variance []float32) int {
	n := wide(p, len(value))
	if n > 0 {
		k := u.coefficients()
		adamNEON(&value[0], &grad[0], &mean[0], &variance[0], &k[0], n)
	}
	return n
}

func (u *Update) adagradWide(p Path, value, grad, sum []float32) int {
	n := wide(p, len(value))
	if n > 0 {
		k := u.coefficients()
		adagradNEON(&value[0], &grad[0], &sum[0], &k[0], n)
	}
	return n
}

func (u *Update) ftrlWide(p Path, value, grad, z, squares []float32) int {
	n := wide(p, len(value))
	if n > 0 {
		k := u.coefficients()
		ftrlNEON(&value[0], &grad[0], &z[0], &squares[0], &k[0], n)
	}
	return n
}

func (u *Update) lambWide(p Path, value, grad, mean, variance []float32) int {
	n := wide(p, len(value))
	if n > 0 {
		k := u.coefficients()
		lambNEON(&value[0], &grad[0], &mean[0], &variance[0], &k[0], n)
	}
	return n
}

func (u *Update) rmspropWide(p Path, value, grad, square, mean, m []float32) int {
	n := wide(p, len(value))
	if n == 0 {
		return 0
	}
	k := u.coefficients()
	switch {
	case mean != nil && m != nil:
		rmspropCenteredMomentumNEON(&value[0], &grad[0], &square[0], &mean[0], &m[0], &k[0], n)
	case mean != nil:
		rmspropCenteredNEON(&value[0], &grad[0], &square[0], &mean[0], &k[0], n)
	case m != nil:
		rmspropMomentumNEON(&value[0], &grad[0], &square[0], &m[0], &k[0], n)
	default:
		rmspropNEON(&value[0], &grad[0], &square[0], &k[0], n)
	}
	return n
}

func (u *Update) lambSquaresWide(p Path, sums *[numSums]float64, value, grad, mean, variance []float32) int {
	n := wide(p, len(value)) &^ (numSums - 1)
	if n > 0 {
		k := u.coefficients()
		lambSquaresNEON(&sums[0], &value[0], &grad[0], &mean[0], &variance[0], &k[0], n)
	}
	return n
}

func (u *Update) squaresWide(p Path, sums *[numSums]float64, grad []float32) int {
	n := wide(p, len(grad)) &^ (numSums - 1)
	if n > 0 {
		k := u.coefficients()
		squaresNEON(&sums[0], &grad[0], &k[0], n)
	}
	return n
}
