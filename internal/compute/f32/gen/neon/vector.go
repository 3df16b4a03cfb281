package main

const (
	vecLanes = 4
	unroll   = 4
)

// A stream is one slice that a loop walks.
type stream struct {
	base gpr
	size int // bytes of an element
}

// load makes a stream of a parameter, which the function's loops move on.
func load(name string, size int) stream {
	s := stream{arg(name), size}
	cur.streams = append(cur.streams, s)
	return s
}

// at is vector number u of the loop's body.
func (s stream) at(u int) mem { return mem{s.base, vecLanes * u * s.size} }

// each runs body for the vectors of n values, a multiple of 4: four at a time and then one at a
// time, where u is the vector's number.
func each(body func(u int)) { loops("", arg("n"), cur.streams, body) }

// loops is each over a count in a register, which it destroys, and over some streams.
func loops(name string, n gpr, streams []stream, body func(u int)) {
	advance := func(vectors int) {
		for _, s := range streams {
			g("ADD $%d, %v, %v", vectors*vecLanes*s.size, s.base, s.base)
		}
	}
	g("SUBS $%d, %v, %v", unroll*vecLanes, n, n)
	g("BLT %srest", name)
	label(name + "loop4")
	for u := range unroll {
		scope(func() { body(u) })
	}
	advance(unroll)
	g("SUBS $%d, %v, %v", unroll*vecLanes, n, n)
	g("BGE %sloop4", name)
	label(name + "rest")
	g("ADDS $%d, %v, %v", unroll*vecLanes, n, n)
	g("BEQ %sdone", name)
	label(name + "loop1")
	scope(func() { body(0) })
	advance(1)
	g("SUBS $%d, %v, %v", vecLanes, n, n)
	g("BNE %sloop1", name)
	label(name + "done")
}

func init() {
	sets["vector"] = func() {
		binary("add", "sets dst = a + b.", fadd)
		binary("mul", "sets dst = a · b.", fmul)
		scales()
		sums()
		relus(neon)
		maxWhich(neon)
	}
}

func binary(name, doc string, op func(d, n, m vec)) {
	text(name+"NEON", "func(dst, a, b *float32, n int)", doc)
	dst, a, b := load("dst", 4), load("a", 4), load("b", 4)
	each(func(u int) {
		x, y := v(), v()
		ldrQ(x, a.at(u))
		ldrQ(y, b.at(u))
		op(x, x, y)
		strQ(x, dst.at(u))
	})
	end()
}

func scales() {
	text("axpyNEON", "func(dst *float32, alpha float32, x *float32, n int)", "sets dst += alpha·x.")
	dst, x, alpha := load("dst", 4), load("x", 4), broadcast("alpha")
	each(func(u int) {
		d, y := v(), v()
		ldrQ(d, dst.at(u))
		ldrQ(y, x.at(u))
		fmla(d, y, alpha)
		strQ(d, dst.at(u))
	})
	end()

	text("axpbyNEON", "func(dst *float32, alpha float32, x *float32, beta float32, n int)", "sets dst = alpha·x + beta·dst.")
	dst, x, alpha = load("dst", 4), load("x", 4), broadcast("alpha")
	beta := broadcast("beta")
	each(func(u int) {
		d, y := v(), v()
		ldrQ(d, dst.at(u))
		ldrQ(y, x.at(u))
		fmul(d, d, beta)
		fmla(d, y, alpha)
		strQ(d, dst.at(u))
	})
	end()

	text("scaleNEON", "func(dst *float32, alpha float32, x *float32, n int)", "sets dst = alpha·x.")
	dst, x, alpha = load("dst", 4), load("x", 4), broadcast("alpha")
	each(func(u int) {
		y := v()
		ldrQ(y, x.at(u))
		fmul(y, y, alpha)
		strQ(y, dst.at(u))
	})
	end()

	text("divideNEON", "func(dst *float32, by float32, x *float32, n int)", "sets dst = x / by.")
	dst, x, by := load("dst", 4), load("x", 4), broadcast("by")
	each(func(u int) {
		y := v()
		ldrQ(y, x.at(u))
		fdiv(y, y, by)
		strQ(y, dst.at(u))
	})
	end()
}

func sums() {
	// reduce combines four accumulators and then their lanes.
	reduce := func(acc []vec, op, across func(d, n, m vec)) {
		op(acc[0], acc[0], acc[2])
		op(acc[1], acc[1], acc[3])
		op(acc[0], acc[0], acc[1])
		across(acc[0], acc[0], acc[0])
		across(acc[0], acc[0], acc[0])
		returnsFloat(acc[0])
	}
	accs := func() []vec {
		acc := vs(unroll)
		for _, a := range acc {
			zero(a)
		}
		return acc
	}
	text("sumNEON", "func(x *float32, n int) float32", "is Σ x.")
	x, acc := load("x", 4), accs()
	each(func(u int) {
		y := v()
		ldrQ(y, x.at(u))
		fadd(acc[u], acc[u], y)
	})
	reduce(acc, fadd, faddp)
	end()

	text("dotNEON", "func(x, y *float32, n int) float32", "is Σ x·y.")
	x, y, acc := load("x", 4), load("y", 4), accs()
	each(func(u int) {
		p, q := v(), v()
		ldrQ(p, x.at(u))
		ldrQ(q, y.at(u))
		fmla(acc[u], p, q)
	})
	reduce(acc, fadd, faddp)
	end()

	text("maxNEON", "func(x *float32, n int) float32", "is the largest value of x; n is not 0.")
	x, acc = load("x", 4), vs(unroll)
	for _, a := range acc {
		ldrQ(a, x.at(0))
	}
	each(func(u int) {
		y := v()
		ldrQ(y, x.at(u))
		fmax(acc[u], acc[u], y)
	})
	reduce(acc, fmax, fmaxp)
	end()
}

// relus are ReLU, which leaves −0 and every NaN as it is, as the portable loop does, and its
// gradient.
func relus(s isa) {
	s.text("relu", "func(dst, x *"+s.element()+", n int)", "sets dst = max(x, 0), and leaves a NaN.")
	dst, x := s.load("dst"), s.load("x")
	each(func(u int) {
		y := v()
		s.read(y, x.at(u))
		s.rectify(y)
		s.writeExact(y, dst.at(u))
	})
	end()

	s.text("reluGrad", "func(dx, dy, y *"+s.element()+", n int)", "sets dx = dy where y > 0, else 0, and a NaN where one of them is.")
	dx, dy, y := s.load("dx"), s.load("dy"), s.load("y")
	each(func(u int) {
		d, z := v(), v()
		s.read(d, dy.at(u))
		s.read(z, y.at(u))
		s.keep(d, z)
		s.writeExact(d, dx.at(u))
	})
	end()
}

// rectify clears what is below 0.
func (isa) rectify(x vec) {
	scope(func() {
		m := v()
		below0(m, x)
		bic(x, x, m)
	})
}

// keep leaves in d the lanes where y > 0, clears the others and sets all bits of those where one of
// them is a NaN.
func (isa) keep(d, y vec) {
	scope(func() {
		m, number := v(), v()
		fcmeq(number, d, d)
		fcmeq(m, y, y)
		and(number, number, m)
		above0(m, y)
		and(d, d, m)
		orn(d, d, number)
	})
}

func maxWhich(s isa) {
	s.text("maxWhich", "func(out *"+s.element()+", chosen *byte, x *"+s.element()+", which byte, n int)", "is MaxWhich.")
	out, chosen, x := s.load("out"), load("chosen", 1), s.load("x")
	which := v()
	scope(func() { dupB(which, arg("which")) })
	each(func(u int) {
		y, old, greater, number, said := v(), v(), v(), v(), v()
		s.read(y, x.at(u))
		s.read(old, out.at(u))
		fcmgt(greater, y, old)
		fcmeq(number, y, y)
		orn(greater, greater, number) // x > out, or a NaN
		bit(old, y, greater)
		s.writeExact(old, out.at(u))
		xtnH(greater, greater)
		xtnB(greater, greater)
		ldrS(said, chosen.at(u))
		bit(said, which, greater)
		strS(said, chosen.at(u))
	})
	end()
}
