package main

func init() {
	sets["compress"] = func() {
		encode2Bit()
		encode1Bit()
		decode2Bit()
		decode1Bit()
		collect()
	}
}

// Codes run from the high bits of a byte down: a lane's code is a mask of its bits, and the lanes
// of a byte are added up.
var (
	bits2    = func() vec { return lanes(0xc0, 0x30, 0x0c, 0x03) } // both bits of a code
	upper2   = func() vec { return lanes(0x80, 0x20, 0x08, 0x02) }
	lower2   = func() vec { return lanes(0x40, 0x10, 0x04, 0x01) }
	firstOf8 = func() vec { return lanes(0x80, 0x40, 0x20, 0x10) }
	lastOf8  = func() vec { return lanes(0x08, 0x04, 0x02, 0x01) }
)

// sixteen runs body for groups of 16 values.
func sixteen(code gpr, codeBytes int, body func()) {
	n := arg("n")
	label("loop")
	scope(body)
	for _, s := range cur.streams {
		g("ADD $%d, %v, %v", 16*s.size, s.base, s.base)
	}
	g("ADD $%d, %v, %v", codeBytes, code, code)
	g("SUBS $16, %v, %v", n, n)
	g("BNE loop")
}

func encode2Bit() {
	text("encode2BitNEON", "func(code *byte, residual, grad *float32, t float32, n int)", "is Encode2Bit; n is a multiple of 16, not 0.")
	code, residual, grad, t := arg("code"), load("residual", 4), load("grad", 4), broadcast("t")
	minus, both, upper := v(), bits2(), upper2()
	fneg(minus, t)
	sixteen(code, 4, func() {
		said := vs(4)
		for u, c := range said {
			scope(func() {
				x, y, pos, neg := v(), v(), v(), v()
				ldrQ(x, residual.at(u))
				ldrQ(y, grad.at(u))
				fadd(x, x, y)
				fcmge(pos, x, t)
				fcmge(neg, minus, x)
				and(c, pos, both)
				and(y, neg, upper)
				orr(c, c, y)
				and(pos, pos, t)
				and(neg, neg, minus)
				orr(pos, pos, neg)
				fsub(x, x, pos)
				strQ(x, residual.at(u))
			})
		}
		addp4(said[0], said[0], said[1])
		addp4(said[2], said[2], said[3])
		addp4(said[0], said[0], said[2])
		xtnH(said[0], said[0])
		xtnB(said[0], said[0])
		strS(said[0], mem{code, 0})
	})
	end()
}

func encode1Bit() {
	text("encode1BitNEON", "func(code *byte, residual, grad *float32, t float32, n int)", "is Encode1Bit; n is a multiple of 16, not 0.")
	code, residual, grad, t := arg("code"), load("residual", 4), load("grad", 4), broadcast("t")
	bits, one, minusOne := []vec{firstOf8(), lastOf8()}, constant(0x3f800000), constant(0xbf800000)
	sixteen(code, 2, func() {
		said := vs(4)
		for u, c := range said {
			scope(func() {
				x, y, pos := v(), v(), v()
				ldrQ(x, residual.at(u))
				ldrQ(y, grad.at(u))
				fadd(x, x, y)
				fcmgt(pos, x, t)
				and(c, pos, bits[u%2])
				bsl(pos, one, minusOne)
				fsub(x, x, pos)
				strQ(x, residual.at(u))
			})
		}
		orr(said[0], said[0], said[1])
		orr(said[2], said[2], said[3])
		addp4(said[0], said[0], said[2])
		addp4(said[0], said[0], said[0])
		xtnH(said[0], said[0])
		xtnB(said[0], said[0])
		strH(said[0], mem{code, 0})
	})
	end()
}

func decode2Bit() {
	text("addDecoded2BitNEON", "func(dst *float32, code *byte, t float32, n int)", "is AddDecoded2Bit; n is a multiple of 16, not 0.")
	dst, code, t := load("dst", 4), arg("code"), broadcast("t")
	minus, upper, lower := v(), upper2(), lower2()
	fneg(minus, t)
	sixteen(code, 4, func() {
		for u := range 4 {
			scope(func() {
				b, some, plus, x := r(), v(), v(), v()
				g("MOVBU %d(%v), %v", u, code, b)
				dup(some, b)
				cmtst(plus, some, lower)
				cmtst(some, some, upper)
				bsl(plus, t, minus)
				ldrQ(x, dst.at(u))
				fadd(plus, x, plus)

				// To add 0 would turn −0 into 0.
				bit(x, plus, some)
				strQ(x, dst.at(u))
			})
		}
	})
	end()
}

func decode1Bit() {
	text("addDecoded1BitNEON", "func(dst *float32, code *byte, n int)", "is AddDecoded1Bit; n is a multiple of 16, not 0.")
	dst, code := load("dst", 4), arg("code")
	bits, one, minusOne := []vec{firstOf8(), lastOf8()}, constant(0x3f800000), constant(0xbf800000)
	sixteen(code, 2, func() {
		b, all := r(), v()
		for u := range 4 {
			scope(func() {
				plus, x := v(), v()
				if u%2 == 0 {
					g("MOVBU %d(%v), %v", u/2, code, b)
					dup(all, b)
				}
				cmtst(plus, all, bits[u%2])
				bsl(plus, one, minusOne)
				ldrQ(x, dst.at(u))
				fadd(x, x, plus)
				strQ(x, dst.at(u))
			})
		}
	})
	end()
}

// collect looks at 16 values at a time; where some are large it makes a bit of each and goes
// through these.
func collect() {
	text("collectNEON", "func(found *uint32, x *float32, low uint32, room, n int) (done, count int)",
		"is collect; n is a multiple of 16, not 0. It reads while 16 entries of room are left.")
	found, x, last, n := arg("found"), arg("x"), arg("room"), arg("n")
	low, magnitude := broadcast("low"), constant(0x7fffffff)
	i, count, bits, first, index, weights := r(), r(), r(), r(), r(), v()
	g("MOVD $0x8040201008040201, %v", bits)
	fromGPR(weights, bits)
	insertD1(weights, bits)
	g("MOVD $0, %v", i)
	g("MOVD $0, %v", count)
	g("SUB $16, %v, %v", last, last)
	label("loop")
	g("CMP %v, %v", last, count)
	g("BGT done")
	scope(func() {
		m := vs(4)
		for u, y := range m {
			ldrQ(y, mem{x, 16 * u})
			and(y, y, magnitude)
			cmhs(y, y, low)
		}
		uzp1H(m[0], m[0], m[1])
		uzp1H(m[2], m[2], m[3])
		uzp1B(m[0], m[0], m[2]) // a byte for each value
		and(m[0], m[0], weights)
		for range 3 {
			addpB(m[0], m[0], m[0])
		}
		laneH0(bits, m[0])
	})
	g("CBZ %v, none", bits)
	label("next")
	g("RBIT %v, %v", bits, first)
	g("CLZ %v, %v", first, first)
	g("ADD %v, %v, %v", i, first, index)
	g("MOVW %v, (%v)(%v<<2)", index, found, count)
	g("ADD $1, %v, %v", count, count)
	g("SUB $1, %v, %v", bits, first)
	g("ANDS %v, %v, %v", first, bits, bits)
	g("BNE next")
	label("none")
	g("ADD $64, %v, %v", x, x)
	g("ADD $16, %v, %v", i, i)
	g("CMP %v, %v", n, i)
	g("BLT loop")
	label("done")
	returns("done", i)
	returns("count", count)
	end()
}
