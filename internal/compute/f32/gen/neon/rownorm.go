package main

func init() {
	sets["rownorm"] = func() {
		rowMoments()
		for _, bias := range []bool{true, false} {
			normRow(bias)
			normRowSums(bias)
			normRowGrad(!bias)
		}
	}
}

// accumulators are cleared vectors.
func accumulators(n int) []vec {
	acc := vs(n)
	for _, a := range acc {
		zero(a)
	}
	return acc
}

// sumTo makes the sum of two or four accumulators a result.
func sumTo(result string, acc []vec) {
	for n := len(acc) / 2; n > 0; n /= 2 {
		for i := range n {
			fadd(acc[i], acc[i], acc[n+i])
		}
	}
	faddp(acc[0], acc[0], acc[0])
	faddp(acc[0], acc[0], acc[0])
	g("FMOVS F%d, %s+%d(FP)", acc[0], result, cur.param(result).offset)
}

// rowMoments writes the sums of numbers less a center, and of their squares.
func rowMoments() {
	text("rowMomentsNEON", "func(x *float32, center float32, n int) (sum, squares float32)", "is RowMoments; n is a multiple of the vector.")
	x, center, sum, squares := load("x", 4), broadcast("center"), accumulators(unroll), accumulators(unroll)
	each(func(u int) {
		y := v()
		ldrQ(y, x.at(u))
		fsub(y, y, center)
		fadd(sum[u], sum[u], y)
		fmla(squares[u], y, y)
	})
	sumTo("sum", sum)
	sumTo("squares", squares)
	end()
}

// normalised loads x̂ = (x − mean)·rstd.
func normalised(x mem, mean, rstd vec) vec {
	y := v()
	ldrQ(y, x)
	fsub(y, y, mean)
	fmul(y, y, rstd)
	return y
}

// normRow writes y = x̂·w + b.
func normRow(bias bool) {
	name, params := "normRowScaledNEON", "func(y, x, w *float32, mean, rstd float32, n int)"
	if bias {
		name, params = "normRowNEON", "func(y, x, w, b *float32, mean, rstd float32, n int)"
	}
	text(name, params, "is NormRow; n is a multiple of the vector.")
	y, x, w := load("y", 4), load("x", 4), load("w", 4)
	var b stream
	if bias {
		b = load("b", 4)
	}
	mean, rstd := broadcast("mean"), broadcast("rstd")
	each(func(u int) {
		hat, f := normalised(x.at(u), mean, rstd), v()
		ldrQ(f, w.at(u))
		if bias {
			sum := v()
			ldrQ(sum, b.at(u))
			fmla(sum, hat, f)
			strQ(sum, y.at(u))
			return
		}
		fmul(hat, hat, f)
		strQ(hat, y.at(u))
	})
	end()
}

// normRowSums writes the sums of the backward pass over a row, and adds to dw and db.
func normRowSums(bias bool) {
	name, params := "normRowSumsScaledNEON", "func(dw, dy, x, w *float32, mean, rstd float32, n int) (sumG, sumGX float32)"
	if bias {
		name, params = "normRowSumsNEON", "func(dw, db, dy, x, w *float32, mean, rstd float32, n int) (sumG, sumGX float32)"
	}
	text(name, params, "is NormRowSums; n is a multiple of the vector.")
	dw, dy, x, w := load("dw", 4), load("dy", 4), load("x", 4), load("w", 4)
	var db stream
	if bias {
		db = load("db", 4)
	}
	mean, rstd, sumG, sumGX := broadcast("mean"), broadcast("rstd"), accumulators(2), accumulators(2)
	each(func(u int) {
		hat, d, sum := normalised(x.at(u), mean, rstd), v(), v()
		ldrQ(d, dy.at(u))
		ldrQ(sum, dw.at(u))
		fmla(sum, hat, d)
		strQ(sum, dw.at(u))
		if bias {
			ldrQ(sum, db.at(u))
			fadd(sum, sum, d)
			strQ(sum, db.at(u))
		}
		ldrQ(sum, w.at(u))
		fmul(d, d, sum)
		fadd(sumG[u%2], sumG[u%2], d)
		fmla(sumGX[u%2], hat, d)
	})
	sumTo("sumG", sumG)
	sumTo("sumGX", sumGX)
	end()
}

// normRowGrad writes dx = dy·w·rstd + ((x − mean)·slope + shift), plus add where there is one.
func normRowGrad(sum bool) {
	name, params := "normRowGradNEON", "func(dx, dy, x, w *float32, mean, rstd, shift, slope float32, n int)"
	if sum {
		name, params = "normRowGradAddNEON", "func(dx, dy, x, w, add *float32, mean, rstd, shift, slope float32, n int)"
	}
	text(name, params, "is the last pass of NormRowGrad; n is a multiple of the vector.")
	dx, dy, x, w := load("dx", 4), load("dy", 4), load("x", 4), load("w", 4)
	var add stream
	if sum {
		add = load("add", 4)
	}
	mean, rstd, shift, slope := broadcast("mean"), broadcast("rstd"), broadcast("shift"), broadcast("slope")
	each(func(u int) {
		y, d, f := v(), v(), v()
		ldrQ(y, x.at(u))
		fsub(y, y, mean)
		mov(f, shift)
		fmla(f, y, slope)
		ldrQ(d, dy.at(u))
		ldrQ(y, w.at(u))
		fmul(d, d, y)
		fmla(f, d, rstd)
		if sum {
			ldrQ(y, add.at(u))
			fadd(f, f, y)
		}
		strQ(f, dx.at(u))
	})
	end()
}
