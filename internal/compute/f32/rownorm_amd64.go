package f32

func rowMomentsWide(p Path, x []float32, center float32) (sum, squares float32) {
	if p == AVX2 {
		return rowMomentsAVX2(&x[0], center, len(x))
	}
	return rowMomentsAVX512(&x[0], center, len(x))
}

func normRowWide(p Path, y, x, w, b []float32, mean, rstd float32) {
	switch {
	case p == AVX2 && b == nil:
		normRowScaledAVX2(&y[0], &x[0], &w[0], mean, rstd, len(y))
	case p == AVX2:
		normRowAVX2(&y[0], &x[0], &w[0], &b[0], mean, rstd, len(y))
	case b == nil:
		normRowScaledAVX512(&y[0], &x[0], &w[0], mean, rstd, len(y))
	default:
		normRowAVX512(&y[0], &x[0], &w[0], &b[0], mean, rstd, len(y))
	}
}

func normRowSumsWide(p Path, dw, db, dy, x, w []float32, mean, rstd float32) (g, gx float32) {
	switch {
	case p == AVX2 && db == nil:
		return normRowSumsScaledAVX2(&dw[0], &dy[0], &x[0], &w[0], mean, rstd, len(dw))
	case p == AVX2:
		return normRowSumsAVX2(&dw[0], &db[0], &dy[0], &x[0], &w[0], mean, rstd, len(dw))
	case db == nil:
		return normRowSumsScaledAVX512(&dw[0], &dy[0], &x[0], &w[0], mean, rstd, len(dw))
	}
	return normRowSumsAVX512(&dw[0], &db[0], &dy[0], &x[0], &w[0], mean, rstd, len(dw))
}

func normRowGradWide(p Path, dx, dy, x, w, add []float32, mean, rstd, shift, slope float32) {
	switch {
	case p == AVX2 && add == nil:
		normRowGradAVX2(&dx[0], &dy[0], &x[0], &w[0], mean, rstd, shift, slope, len(dx))
	case p == AVX2:
		normRowGradAddAVX2(&dx[0], &dy[0], &x[0], &w[0], &add[0], mean, rstd, shift, slope, len(dx))
	case add == nil:
		normRowGradAVX512(&dx[0], &dy[0], &x[0], &w[0], mean, rstd, shift, slope, len(dx))
	default:
		normRowGradAddAVX512(&dx[0], &dy[0], &x[0], &w[0], &add[0], mean, rstd, shift, slope, len(dx))
	}
}
