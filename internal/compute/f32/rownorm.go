package f32

// The functions of a normalisation of one row: x̂ = (x − mean)·rstd, y = x̂·w + b. A caller goes
// through the rows, so that each is read from memory once and from the first-level cache then.

// RowMoments is Σ (x − center) and Σ (x − center)². With a center near the mean, the variance
// squares/n − (sum/n)² loses nothing where the mean is large against the deviation.
func RowMoments(x []float32, center float32) (sum, squares float32) {
	n := 0
	if lanes := vectorLanes(kernels.tile.path); lanes > 0 {
		if n = len(x) &^ (lanes - 1); n > 0 {
			sum, squares = rowMomentsWide(kernels.tile.path, x[:n], center)
		}
	}
	s, q := rowMomentsPortable(x[n:], center)
	return sum + s, squares + q
}

// NormRow sets y = (x − mean)·rstd·w + b; a nil b is 0. y may be x.
func NormRow(y, x, w, b []float32, mean, rstd float32) {
	same2("NormRow", len(y), len(x), len(w))
	n := 0
	if b != nil {
		same2("NormRow", len(y), len(b), len(b))
	}
	if lanes := vectorLanes(kernels.tile.path); lanes > 0 {
		if n = len(y) &^ (lanes - 1); n > 0 {
			normRowWide(kernels.tile.path, y[:n], x, w, b, mean, rstd)
		}
	}
	if n < len(y) {
		if b != nil {
			b = b[n:]
		}
		normRowPortable(y[n:], x[n:], w[n:], b, mean, rstd)
	}
}

// NormRowSums is the reduction of the backward pass of NormRow: with g = dy·w it gives Σ g and
// Σ g·x̂, adds dy·x̂ to dw and, unless it is nil, dy to db.
func NormRowSums(dw, db, dy, x, w []float32, mean, rstd float32) (g, gx float32) {
	same2("NormRowSums", len(dy), len(x), len(w))
	same2("NormRowSums", len(dy), len(dw), len(dw))
	if db != nil {
		same2("NormRowSums", len(dy), len(db), len(db))
	}
	n := 0
	if lanes := vectorLanes(kernels.tile.path); lanes > 0 {
		if n = len(dy) &^ (lanes - 1); n > 0 {
			g, gx = normRowSumsWide(kernels.tile.path, dw[:n], db, dy, x, w, mean, rstd)
		}
	}
	if n < len(dy) {
		if db != nil {
			db = db[n:]
		}
		s, t := normRowSumsPortable(dw[n:], db, dy[n:], x[n:], w[n:], mean, rstd)
		g, gx = g+s, gx+t
	}
	return g, gx
}

// NormRowGrad sets dx = rstd·(dy·w − meanG − x̂·meanGX) and, unless it is nil, adds add. dx may be
// any of the others but w.
func NormRowGrad(dx, dy, x, w, add []float32, mean, rstd, meanG, meanGX float32) {
	same2("NormRowGrad", len(dx), len(dy), len(x))
	same2("NormRowGrad", len(dx), len(w), len(w))
	if add != nil {
		same2("NormRowGrad", len(dx), len(add), len(add))
	}
	shift, slope := -rstd*meanG, -rstd*rstd*meanGX
	n := 0
	if lanes := vectorLanes(kernels.tile.path); lanes > 0 {
		if n = len(dx) &^ (lanes - 1); n > 0 {
			normRowGradWide(kernels.tile.path, dx[:n], dy, x, w, add, mean, rstd, shift, slope)
		}
	}
	if n < len(dx) {
		if add != nil {
			add = add[n:]
		}
		normRowGradPortable(dx[n:], dy[n:], x[n:], w[n:], add, mean, rstd, shift, slope)
	}
}

func rowMomentsPortable(x []float32, center float32) (sum, squares float32) {
	var s, q [8]float32
	for ; len(x) >= 8; x = x[8:] {
		for j, v := range x[:8:8] {
			d := v - center
			s[j] += d
			q[j] += d * d
		}
	}
	for j, v := range x {
		d := v - center
		s[j] += d
		q[j] += d * d
	}
	return fold8(&s), fold8(&q)
}

// fold8 adds eight partial sums as sumPortable does.
func fold8(s *[8]float32) float32 {
	return ((s[0] + s[4]) + (s[2] + s[6])) + ((s[1] + s[5]) + (s[3] + s[7]))
}

func normRowPortable(y, x, w, b []float32, mean, rstd float32) {
	x, w = x[:len(y)], w[:len(y)]
	if b == nil {
		for i := range y {
			y[i] = (x[i] - mean) * rstd * w[i]
		}
		return
	}
	b = b[:len(y)]
	for i := range y {
		y[i] = (x[i]-mean)*rstd*w[i] + b[i]
	}
}

func normRowSumsPortable(dw, db, dy, x, w []float32, mean, rstd float32) (g, gx float32) {
	dw, x, w = dw[:len(dy)], x[:len(dy)], w[:len(dy)]
	var s, t [8]float32
	for i, d := range dy {
		hat := (x[i] - mean) * rstd
		dw[i] += d * hat
		d *= w[i]
		s[i%8] += d
		t[i%8] += d * hat
	}
	if db != nil {
		addPortable(db[:len(dy)], db, dy)
	}
	return fold8(&s), fold8(&t)
}

func normRowGradPortable(dx, dy, x, w, add []float32, mean, rstd, shift, slope float32) {
	dy, x, w = dy[:len(dx)], x[:len(dx)], w[:len(dx)]
	if add == nil {
		for i := range dx {
			dx[i] = dy[i]*w[i]*rstd + ((x[i]-mean)*slope + shift)
		}
		return
	}
	add = add[:len(dx)]
	for i := range dx {
		dx[i] = dy[i]*w[i]*rstd + ((x[i]-mean)*slope + shift) + add[i]
	}
}
