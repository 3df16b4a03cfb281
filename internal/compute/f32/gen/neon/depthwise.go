package main

func init() {
	sets["depthwise"] = func() {
		depthwise()
		depthwiseWeight()
	}
}

// depthwiseRuns walks a run of pixels, and for each the vectors of its channels. body gets the
// output pixel's place and calls taps, which calls it for each tap with the places of the input and
// of the weights.
func depthwiseRuns(body func(out mem, taps func(tap func(in, w mem)))) {
	out, in, w, table, count := arg("out"), arg("in"), arg("w"), arg("taps"), arg("count")
	n, pixels, outStep, inStep := arg("n"), arg("pixels"), arg("outStep"), arg("inStep")
	c, o, tap, left, x, y := r(), r(), r(), r(), r(), r()
	g("LSL $2, %v, %v", n, n)
	label("pixel")
	g("MOVD $0, %v", c)
	label("channels")
	g("ADD %v, %v, %v", c, out, o)
	body(mem{o, 0}, func(each func(in, w mem)) {
		g("MOVD %v, %v", table, tap)
		g("MOVD %v, %v", count, left)
		label("tap")
		g("MOVD (%v), %v", tap, x)
		g("MOVD 8(%v), %v", tap, y)
		g("ADD %v<<2, %v, %v", x, in, x)
		g("ADD %v, %v, %v", c, x, x)
		g("ADD %v<<2, %v, %v", y, w, y)
		g("ADD %v, %v, %v", c, y, y)
		each(mem{x, 0}, mem{y, 0})
		g("ADD $16, %v, %v", tap, tap)
		g("SUBS $1, %v, %v", left, left)
		g("BNE tap")
	})
	g("ADD $16, %v, %v", c, c)
	g("CMP %v, %v", n, c)
	g("BLT channels")
	g("ADD %v, %v, %v", outStep, out, out)
	g("ADD %v, %v, %v", inStep, in, in)
	g("SUBS $1, %v, %v", pixels, pixels)
	g("BNE pixel")
}

// depthwise writes the sums over taps.
func depthwise() {
	text("depthwiseNEON", "func(out, in, w *float32, taps *[2]int, count, n, pixels, outStep, inStep, add int)",
		"is Depthwise; n channels are a multiple of the vector, steps are in bytes.")
	acc, a, b, add := v(), v(), v(), arg("add")
	depthwiseRuns(func(out mem, taps func(func(in, w mem))) {
		zero(acc)
		g("CBZ %v, zero", add)
		ldrQ(acc, out)
		label("zero")
		taps(func(in, w mem) {
			ldrQ(a, in)
			ldrQ(b, w)
			fmla(acc, a, b)
		})
		strQ(acc, out)
	})
	end()
}

// depthwiseWeight writes the sums over pixels.
func depthwiseWeight() {
	text("depthwiseWeightNEON", "func(out, in, w *float32, taps *[2]int, count, n, pixels, outStep, inStep int)",
		"is DepthwiseWeight; n channels are a multiple of the vector, steps are in bytes.")
	dy, a, sum := v(), v(), v()
	depthwiseRuns(func(out mem, taps func(func(in, w mem))) {
		ldrQ(dy, out)
		taps(func(in, w mem) {
			ldrQ(a, in)
			ldrQ(sum, w)
			fmla(sum, a, dy)
			strQ(sum, w)
		})
	})
	end()
}
