package main

import "fmt"

func init() {
	sets["channel"] = func() { channelPasses(neon) }
}

// channelPasses are the passes of batch normalisation.
func channelPasses(s isa) {
	if !s.fast { // these round nothing
		for _, around := range []bool{false, true} {
			channelSums(s, around)
		}
		for _, masked := range []bool{false, true} {
			channelGradSums(s, masked)
		}
	}
	for _, masked := range []bool{false, true} {
		normGrad(s, masked)
	}
	for _, res := range []bool{false, true} {
		for _, relu := range []bool{false, true} {
			scaleShift(s, res, relu)
		}
	}
}

// columns walks n columns (a multiple of 4), width vectors at a time and then one at a time; body
// runs all rows of its vectors. The streams of the function move along.
func columns(width int, body func(name string, vectors int)) {
	n := arg("n")
	step := func(name string, vectors int, next string) {
		label(name)
		g("CMP $%d, %v", vectors*vecLanes, n)
		g("BLT %s", next)
		scope(func() { body(name, vectors) })
		for _, s := range cur.streams {
			g("ADD $%d, %v, %v", vectors*vecLanes*s.size, s.base, s.base)
		}
		g("SUB $%d, %v, %v", vectors*vecLanes, n, n)
		g("B %s", name)
	}
	step("wide", width, "narrow")
	step("narrow", 1, "done")
	label("done")
}

// rows runs body for each row; it gets the arrays' streams in that row.
func rows(name string, count, stride gpr, arrays []stream, body func(row []stream)) {
	left, row := r(), make([]stream, len(arrays))
	for i, a := range arrays {
		row[i] = stream{r(), a.size}
		g("MOVD %v, %v", a.base, row[i].base)
	}
	g("MOVD %v, %v", count, left)
	label(name + "Row")
	body(row)
	for _, a := range row {
		g("ADD %v, %v, %v", stride, a.base, a.base)
	}
	g("SUBS $1, %v, %v", left, left)
	g("BNE %sRow", name)
}

// held loads a vector of each stream for each of some columns.
func held(streams []stream, vectors int) [][]vec {
	all := make([][]vec, len(streams))
	for i, s := range streams {
		all[i] = vs(vectors)
		for u, x := range all[i] {
			ldrQ(x, s.at(u))
		}
	}
	return all
}

func put(s stream, x []vec) {
	for u, x := range x {
		strQ(x, s.at(u))
	}
}

// channelSums writes the sums of numbers and of squares for each channel, for the statistics of a
// batch normalisation. Around a center near the mean the squares are small, so that float32 holds
// the variance; see ChannelSumsAround. Sums stay in registers over all rows of some channels.
func channelSums(s isa, around bool) {
	name, params := "channelSums", "func(sum, sumSq *float32, x *"+s.element()+", n, rows, stride int)"
	if around {
		name, params = "channelSumsAround", "func(sum, sumSq *float32, x *"+s.element()+", center *float32, n, rows, stride int)"
	}
	s.text(name, params, "adds rows of x, less center if there is one, to sum and their squares to sumSq, n columns, stride in bytes.")
	sum, sumSq, x, count, stride := load("sum", 4), load("sumSq", 4), s.load("x"), arg("rows"), arg("stride")
	over := []stream{sum, sumSq}
	if around {
		over = append(over, load("center", 4))
	}
	columns(4, func(name string, vectors int) {
		h := held(over, vectors)
		rows(name, count, stride, []stream{x}, func(row []stream) {
			for u := range vectors {
				scope(func() {
					y := v()
					s.read(y, row[0].at(u))
					if around {
						fsub(y, y, h[2][u])
					}
					fadd(h[0][u], h[0][u], y)
					fmla(h[1][u], y, y)
				})
			}
		})
		put(sum, h[0])
		put(sumSq, h[1])
	})
	end()
}

// channelGradSums writes Σ dy and Σ dy·(x−center) for each channel. Masked, dy counts only where
// the result y of a ReLU is positive; a NaN in y or dy stays one, so that a step that went wrong
// shows.
func channelGradSums(s isa, masked bool) {
	name, params := "channelGradSums", "func(sumDy, sumDyX *float32, dy, x *"+s.element()+", center *float32, n, rows, stride int)"
	if masked {
		name, params = "channelGradSumsMasked", "func(sumDy, sumDyX *float32, dy, x, y *"+s.element()+", center *float32, n, rows, stride int)"
	}
	s.text(name, params, "is the reduction of ChannelGradSums, n columns, stride in bytes.")
	sumDy, sumDyX, center := load("sumDy", 4), load("sumDyX", 4), load("center", 4)
	arrays := []stream{s.load("dy"), s.load("x")}
	if masked {
		arrays = append(arrays, s.load("y"))
	}
	count, stride := arg("rows"), arg("stride")
	columns(4, func(name string, vectors int) {
		h := held([]stream{sumDy, sumDyX, center}, vectors)
		rows(name, count, stride, arrays, func(row []stream) {
			for u := range vectors {
				scope(func() {
					d, y := v(), v()
					s.read(d, row[0].at(u))
					if masked {
						s.read(y, row[2].at(u))
						s.keep(d, y)
					}
					s.read(y, row[1].at(u))
					fsub(y, y, h[2][u])
					fadd(h[0][u], h[0][u], d)
					fmla(h[1][u], d, y)
				})
			}
		})
		put(sumDy, h[0])
		put(sumDyX, h[1])
	})
	end()
}

// channelLoop walks rows of c channels (a multiple of 4), with coefficients that begin anew in each
// row.
func channelLoop(coefficients []stream, body func(u int, k []stream)) {
	arrays := cur.streams
	n, c, left, k := arg("n"), arg("c"), r(), make([]stream, len(coefficients))
	for i := range k {
		k[i] = stream{r(), 4}
	}
	label("row")
	for i := range k {
		g("MOVD %v, %v", coefficients[i].base, k[i].base)
	}
	g("MOVD %v, %v", c, left)
	loops("", left, append(append([]stream{}, arrays...), k...), func(u int) { body(u, k) })
	g("SUBS %v, %v, %v", c, n, n)
	g("BNE row")
}

// coefficients are streams that loops do not move on.
func coefficients(names ...string) []stream {
	all := make([]stream, len(names))
	for i, name := range names {
		all[i] = stream{arg(name), 4}
	}
	return all
}

// scaleShift writes y = x·scale + shift for each channel, plus res where there is one, and max(y,
// 0) with relu. The order of the operands of the maximum lets a NaN through.
func scaleShift(s isa, res, relu bool) {
	name, params := "scaleShift", "y, x"
	if res {
		name, params = "scaleShiftAdd", "y, x, res"
	}
	if relu {
		name += "ReLU"
	}
	s.text(name, fmt.Sprintf("func(%s *%s, scale, shift *float32, n, c int)", params, s.element()), "is ScaleShift and its kin; n values, not 0, c channels, a multiple of the vector.")
	y, x := s.load("y"), s.load("x")
	var add stream
	if res {
		add = s.load("res")
	}
	to := s.rounder()
	channelLoop(coefficients("scale", "shift"), func(u int, k []stream) {
		p, q, f := v(), v(), v()
		s.read(p, x.at(u))
		ldrQ(f, k[0].at(u))
		ldrQ(q, k[1].at(u))
		fmla(q, p, f)
		if res {
			s.read(p, add.at(u))
			fadd(q, q, p)
		}
		if relu {
			s.rectify(q)
		}
		to.write(q, y.at(u))
	})
	end()
}

// normGrad writes dx = dy·p + x·q + r for each channel: the gradient of a normalisation once its
// sums are known. Masked, dy counts as in channelGradSums.
func normGrad(s isa, masked bool) {
	name, params := "normGrad", "dx, dy, x"
	if masked {
		name, params = "normGradMasked", "dx, dy, x, y"
	}
	s.text(name, fmt.Sprintf("func(%s *%s, p, q, r *float32, n, c int)", params, s.element()), "is NormGrad; n values, not 0, c channels, a multiple of the vector.")
	dx, dy, x := s.load("dx"), s.load("dy"), s.load("x")
	var y stream
	if masked {
		y = s.load("y")
	}
	to := s.rounder()
	channelLoop(coefficients("p", "q", "r"), func(u int, k []stream) {
		d, z, f, sum := v(), v(), v(), v()
		s.read(d, dy.at(u))
		if masked {
			s.read(z, y.at(u))
			s.keep(d, z)
		}
		s.read(z, x.at(u))
		ldrQ(f, k[1].at(u))
		ldrQ(sum, k[2].at(u))
		fmla(sum, z, f)
		ldrQ(f, k[0].at(u))
		fmla(sum, d, f)
		to.write(sum, dx.at(u))
	})
	end()
}
