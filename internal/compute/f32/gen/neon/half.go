package main

// An isa is how a loop's arrays lie in memory and by which instructions they are rounded.
type isa struct {
	name string // suffix of function names

	// half says that arrays lie in memory as bfloat16. The loop computes in float32.
	half bool

	fast bool // rounds by BFCVTN
}

var (
	neon     = isa{name: "NEON"}
	half     = isa{name: "HalfNEON", half: true}
	halfFast = isa{name: "HalfBF16", half: true, fast: true}
)

func (s isa) text(name, signature, doc string) { text(name+s.name, signature, doc) }

// size is the number of bytes of an array's element, element its type.
func (s isa) size() int {
	if s.half {
		return 2
	}
	return 4
}

func (s isa) element() string {
	if s.half {
		return "uint16"
	}
	return "float32"
}

func (s isa) load(name string) stream { return load(name, s.size()) }

// read loads a vector of an array.
func (s isa) read(x vec, at mem) {
	if !s.half {
		ldrQ(x, at)
		return
	}
	ldrD(x, at)
	shll(x, x)
}

// writeExact stores a vector whose numbers need no rounding; it destroys it.
func (s isa) writeExact(x vec, at mem) {
	if !s.half {
		strQ(x, at)
		return
	}
	shrn(x, x, 16)
	strD(x, at)
}

// A rounder rounds to bfloat16, to nearest, ties to even.
type rounder struct {
	isa
	one, most, quiet vec
}

// rounder prepares the constants of rounding, if it needs any.
func (s isa) rounder() rounder {
	if !s.half || s.fast {
		return rounder{isa: s}
	}
	return rounder{s, constant(1), constant(0x7fff), constant(0x400000)}
}

// write stores a vector, rounded; it destroys it.
func (r rounder) write(x vec, at mem) {
	if !r.half {
		strQ(x, at)
		return
	}
	r.narrow(x)
	strD(x, at)
}

// narrow rounds a vector to its lower half. Without BFCVTN it adds half a unit less one and the
// last bit that stays, so that ties go to even, and cuts; NaNs are cut and made quiet.
func (r rounder) narrow(x vec) {
	if r.fast {
		bfcvtn(x, x)
		return
	}
	scope(func() {
		t, number := v(), v()
		fcmeq(number, x, x)
		ushr(t, x, 16)
		and(t, t, r.one)
		add4(t, t, r.most)
		and(t, t, number)
		bic(number, r.quiet, number)
		orr(x, x, number)
		addhn(x, x, t)
	})
}

func init() {
	sets["half"] = func() {
		text("toFloat16NEON", "func(dst *uint16, x *float32, n int)", "rounds to binary16, to nearest even.")
		dst, x := load("dst", 2), load("x", 4)
		each(func(u int) {
			y := v()
			ldrQ(y, x.at(u))
			fcvtnH(y, y)
			strD(y, dst.at(u))
		})
		end()

		text("fromFloat16NEON", "func(dst *float32, x *uint16, n int)", "widens binary16.")
		dst, x = load("dst", 4), load("x", 2)
		each(func(u int) {
			y := v()
			ldrD(y, x.at(u))
			fcvtlH(y, y)
			strQ(y, dst.at(u))
		})
		end()

		text("fromBFloat16NEON", "func(dst *float32, x *uint16, n int)", "widens bfloat16.")
		dst, x = load("dst", 4), load("x", 2)
		each(func(u int) {
			y := v()
			half.read(y, x.at(u))
			strQ(y, dst.at(u))
		})
		end()

		for _, s := range []isa{half, halfFast} {
			s.name = s.name[len("Half"):]
			s.text("toBFloat16", "func(dst *uint16, x *float32, n int)", "rounds to bfloat16, to nearest even.")
			dst, x := load("dst", 2), load("x", 4)
			r := s.rounder()
			each(func(u int) {
				y := v()
				ldrQ(y, x.at(u))
				r.write(y, dst.at(u))
			})
			end()
		}
	}
}
