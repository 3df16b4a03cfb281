package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// channels writes the passes of batch normalisation over channels last, for both instruction sets.
func channels() {
	for _, s := range []isa{avx512, avx2} {
		channelPasses(s)
	}
}

// channelPasses are the passes of batch normalisation.
func channelPasses(s isa) {
	channelSums(s, false)
	channelSums(s, true)
	for _, masked := range []bool{false, true} {
		channelGradSums(s, masked)
		normGrad(s, masked)
	}
	for _, res := range []bool{false, true} {
		for _, relu := range []bool{false, true} {
			scaleShift(s, res, relu)
		}
	}
}

// columns walks n columns (a multiple of lanes), width vectors at a time and then one at a time;
// body runs all rows of its vectors. The pointers move along, those of arrays by the size of their
// elements.
func (s isa) columns(width int, pointers, arrays []reg.GPVirtual, body func(label string, vectors int)) {
	n := Load(Param("n"), GP64())
	step := func(label string, vectors int, next string) {
		Label(label)
		CMPQ(n, Imm(uint64(vectors*s.lanes)))
		JLT(LabelRef(next))
		body(label, vectors)
		for _, p := range pointers {
			ADDQ(U32(uint32(vectors*s.bytes())), p)
		}
		for _, p := range arrays {
			ADDQ(U32(uint32(vectors*s.lanes*s.size())), p)
		}
		SUBQ(Imm(uint64(vectors*s.lanes)), n)
		JMP(LabelRef(label))
	}
	step("wide", width, "narrow")
	step("narrow", 1, "done")
	Label("done")
}

// rows runs body for rows rows; p are the pointers into the first, stride the bytes between rows.
func rows(label string, count, stride reg.Register, body func()) {
	left, row := GP64(), GP64()
	MOVQ(count, left)
	XORQ(row, row)
	Label(label + "Row")
	rowIndex = row
	body()
	ADDQ(stride, row)
	DECQ(left)
	JNE(LabelRef(label + "Row"))
}

// rowIndex is the byte offset of the row that a body of rows works on.
var rowIndex reg.GPVirtual

func inRow(p reg.GPVirtual, bytes int) Mem {
	return Mem{Base: p, Index: rowIndex, Scale: 1, Disp: bytes}
}

func gp(name string) reg.GPVirtual { return Load(Param(name), GP64()).(reg.GPVirtual) }

// channelSums writes the sums of numbers and of squares for each channel, for the statistics of a
// batch normalisation. Around a center near the mean the squares are small, so that float32 holds
// the variance; see ChannelSumsAround. Sums stay in registers over all rows of some channels.
func channelSums(s isa, around bool) {
	name, params := "channelSums", "func(sum, sumSq *float32, x *"+s.element()+", n, rows, stride int)"
	if around {
		name, params = "channelSumsAround", "func(sum, sumSq *float32, x *"+s.element()+", center *float32, n, rows, stride int)"
	}
	s.text(name, params, "adds rows of x, less center if there is one, to sum and their squares to sumSq, n columns, stride in bytes.")
	sum, sumSq, x, count, stride := gp("sum"), gp("sumSq"), gp("x"), gp("rows"), gp("stride")
	pointers := []reg.GPVirtual{sum, sumSq}
	var center reg.GPVirtual
	if around {
		center = gp("center")
		pointers = append(pointers, center)
	}
	s.columns(4, pointers, []reg.GPVirtual{x}, func(label string, vectors int) {
		a, b, c := make([]reg.VecVirtual, vectors), make([]reg.VecVirtual, vectors), make([]reg.VecVirtual, vectors)
		for i := range a {
			a[i], b[i] = s.vec(), s.vec()
			VMOVUPS(Mem{Base: sum, Disp: i * s.bytes()}, a[i])
			VMOVUPS(Mem{Base: sumSq, Disp: i * s.bytes()}, b[i])
			if around {
				c[i] = s.vec()
				VMOVUPS(Mem{Base: center, Disp: i * s.bytes()}, c[i])
			}
		}
		rows(label, count, stride, func() {
			for i := range a {
				v := s.vec()
				s.load(inRow(x, i*s.lanes*s.size()), v)
				if around {
					VSUBPS(c[i], v, v)
				}
				VADDPS(v, a[i], a[i])
				VFMADD231PS(v, v, b[i])
			}
		})
		for i := range a {
			VMOVUPS(a[i], Mem{Base: sum, Disp: i * s.bytes()})
			VMOVUPS(b[i], Mem{Base: sumSq, Disp: i * s.bytes()})
		}
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
	sumDy, sumDyX, dy, x, center, count, stride := gp("sumDy"), gp("sumDyX"), gp("dy"), gp("x"), gp("center"), gp("rows"), gp("stride")
	pointers, arrays := []reg.GPVirtual{sumDy, sumDyX, center}, []reg.GPVirtual{dy, x}
	var y reg.GPVirtual
	var keep func(y Op, v reg.VecVirtual)
	if masked {
		y, keep = gp("y"), s.keeper()
		arrays = append(arrays, y)
	}
	width := 4
	if s.lanes == 8 {
		width = 2
	}
	s.columns(width, pointers, arrays, func(label string, vectors int) {
		a, b, c := make([]reg.VecVirtual, vectors), make([]reg.VecVirtual, vectors), make([]reg.VecVirtual, vectors)
		for i := range a {
			a[i], b[i], c[i] = s.vec(), s.vec(), s.vec()
			VMOVUPS(Mem{Base: sumDy, Disp: i * s.bytes()}, a[i])
			VMOVUPS(Mem{Base: sumDyX, Disp: i * s.bytes()}, b[i])
			VMOVUPS(Mem{Base: center, Disp: i * s.bytes()}, c[i])
		}
		rows(label, count, stride, func() {
			for i := range a {
				d, v := s.vec(), s.vec()
				s.load(inRow(dy, i*s.lanes*s.size()), d)
				if masked {
					keep(s.operand(inRow(y, i*s.lanes*s.size())), d)
				}
				s.load(inRow(x, i*s.lanes*s.size()), v)
				VSUBPS(c[i], v, v)
				VADDPS(d, a[i], a[i])
				VFMADD231PS(d, v, b[i])
			}
		})
		for i := range a {
			VMOVUPS(a[i], Mem{Base: sumDy, Disp: i * s.bytes()})
			VMOVUPS(b[i], Mem{Base: sumDyX, Disp: i * s.bytes()})
		}
	})
	end()
}

// channelLoop walks rows of c channels (a multiple of lanes): body works on one vector, at index i
// of the array and j of the channels.
func (s isa) channelLoop(body func(i, j reg.GPVirtual)) {
	n, c := gp("n"), gp("c")
	i, j := GP64(), GP64()
	XORQ(i, i)
	Label("row")
	XORQ(j, j)
	Label("vector")
	body(i, j)
	ADDQ(Imm(uint64(s.lanes)), i)
	ADDQ(Imm(uint64(s.lanes)), j)
	CMPQ(j, c)
	JLT(LabelRef("vector"))
	CMPQ(i, n)
	JLT(LabelRef("row"))
}

// scaleShift writes y = x·scale + shift for each channel, plus res where there is one, and max(y,
// 0) with relu. The order of the operands of the maximum lets a NaN through.
func scaleShift(s isa, res, relu bool) {
	name, params := "scaleShift", "func(y, x *"+s.element()+", scale, shift *float32, n, c int)"
	if res {
		name, params = "scaleShiftAdd", "func(y, x, res *"+s.element()+", scale, shift *float32, n, c int)"
	}
	if relu {
		name += "ReLU"
	}
	s.text(name, params, "is ScaleShift and its kin; n values, not 0, c channels, a multiple of the vector.")
	y, x, scale, shift := load("y", s.size()), load("x", s.size()), load("scale", 4), load("shift", 4)
	var r stream
	if res {
		r = load("res", s.size())
	}
	zero, store := s.vec(), s.storer()
	s.zero(zero)
	s.channelLoop(func(i, j reg.GPVirtual) {
		v, f := s.vec(), s.vec()
		s.load(x.at(i, s.lanes, 0), v)
		VMOVUPS(scale.at(j, s.lanes, 0), f)
		VFMADD213PS(shift.at(j, s.lanes, 0), f, v)
		if res {
			VADDPS(s.operand(r.at(i, s.lanes, 0)), v, v)
		}
		if relu {
			VMAXPS(v, zero, v) // leaves a NaN
		}
		store(v, y.at(i, s.lanes, 0))
	})
	end()
}

// normGrad writes dx = dy·p + x·q + r for each channel: the gradient of a normalisation once its
// sums are known. Masked, dy counts as in channelGradSums.
func normGrad(s isa, masked bool) {
	name, params := "normGrad", "func(dx, dy, x *"+s.element()+", p, q, r *float32, n, c int)"
	if masked {
		name, params = "normGradMasked", "func(dx, dy, x, y *"+s.element()+", p, q, r *float32, n, c int)"
	}
	s.text(name, params, "is NormGrad; n values, not 0, c channels, a multiple of the vector.")
	dx, dy, x, p, q, r := load("dx", s.size()), load("dy", s.size()), load("x", s.size()), load("p", 4), load("q", 4), load("r", 4)
	var y stream
	var keep func(y Op, v reg.VecVirtual)
	if masked {
		y, keep = load("y", s.size()), s.keeper()
	}
	store := s.storer()
	s.channelLoop(func(i, j reg.GPVirtual) {
		v, d, f := s.vec(), s.vec(), s.vec()
		s.load(dy.at(i, s.lanes, 0), d)
		if masked {
			keep(s.operand(y.at(i, s.lanes, 0)), d)
		}
		s.load(x.at(i, s.lanes, 0), v)
		VMOVUPS(q.at(j, s.lanes, 0), f)
		VFMADD213PS(r.at(j, s.lanes, 0), f, v)
		VFMADD231PS(p.at(j, s.lanes, 0), d, v)
		store(v, dx.at(i, s.lanes, 0))
	})
	end()
}
