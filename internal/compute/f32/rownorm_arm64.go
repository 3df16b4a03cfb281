package f32

func rowMomentsWide(_ Path, x []float32, center float32) (sum, squares float32) {
	return rowMomentsNEON(&x[0], center, len(x))
}

func normRowWide(_ Path, y, x, w, b []float32, mean, rstd float32) {
	if b == nil {
		normRowScaledNEON(&y[0], &x[0], &w[0], mean, rstd, len(y))
	} else {
		normRowNEON(&y[0], &x[0], &w[0], &b[0], mean, rstd, len(y))
	}
}

func normRowSumsWide(_ Path, dw, db, dy, x, w []float32, mean, rstd float32) (g, gx float32) {
	if db == nil {
		return normRowSumsScaledNEON(&dw[0], &dy[0], &x[0], &w[0], mean, rstd, len(dw))
	}
	return normRowSumsNEON(&dw[0], &db[0], &dy[0], &x[0], &w[0], mean, rstd, len(dw))
}

func normRowGradWide(_ Path, dx, dy, x, w, add []float32, mean, rstd, shift, slope float32) {
	if add == nil {
		normRowGradNEON(&dx[0], &dy[0], &x[0], &w[0], mean, rstd, shift, slope, len(dx))
	} else {
		normRowGradAddNEON(&dx[0], &dy[0], &x[0], &w[0], &add[0], mean, rstd, shift, slope, len(dx))
	}
}
