package main

func init() {
	sets["stored"] = func() {
		for _, s := range []isa{half, halfFast} {
			channelPasses(s)
			s.text("add", "func(dst, a, b *uint16, n int)", "sets dst = a + b.")
			dst, a, b := s.load("dst"), s.load("a"), s.load("b")
			to := s.rounder()
			each(func(u int) {
				x, y := v(), v()
				s.read(x, a.at(u))
				s.read(y, b.at(u))
				fadd(x, x, y)
				to.write(x, dst.at(u))
			})
			end()
			narrowRows(s, false)
			narrowRows(s, true)
		}

		half.text("addTo", "func(dst *float32, x *uint16, n int)", "sets dst += x.")
		dst, x := load("dst", 4), half.load("x")
		each(func(u int) {
			d, y := v(), v()
			half.read(y, x.at(u))
			ldrQ(d, dst.at(u))
			fadd(d, d, y)
			strQ(d, dst.at(u))
		})
		end()

		relus(half)
		maxWhich(half)
		pairRows(half, false)
		pairRows(half, true)
	}
}

// narrowRows rounds the rows of a tile to rows of an array that begin where at says, or adds them
// to what lies there.
func narrowRows(s isa, add bool) {
	name, doc := "narrowRows", "rounds rows of 16 values to dst[at[i]...]; rows is not 0."
	if add {
		name, doc = "narrowRowsAdd", "is narrowRows that adds to dst."
	}
	s.text(name, "func(dst *uint16, at *int, src *float32, rows int)", doc)
	dst, at, src, rows := arg("dst"), arg("at"), arg("src"), arg("rows")
	to, narrow := r(), s.rounder()
	label("loop")
	g("MOVD (%v), %v", at, to)
	g("ADD %v<<1, %v, %v", to, dst, to)
	for q := range quads {
		scope(func() {
			x, old, m := v(), v(), mem{to, 8 * q}
			ldrQ(x, mem{src, 16 * q})
			if add {
				s.read(old, m)
				fadd(x, x, old)
			}
			narrow.write(x, m)
		})
	}
	g("ADD $8, %v, %v", at, at)
	g("ADD $%d, %v, %v", 4*cols, src, src)
	g("SUBS $1, %v, %v", rows, rows)
	g("BNE loop")
	end()
}
