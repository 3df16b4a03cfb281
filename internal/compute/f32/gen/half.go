package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// halves writes the conversions between float32 and 16 bits. bfloat16 is the upper half of a
// float32, so that it is widened by a shift.
func halves() {
	for _, s := range []isa{avx512, avx2} {
		s.text("toFloat16", "func(dst *uint16, x *float32, n int)", "rounds to binary16, to nearest even.")
		dst, x := load("dst", 2), load("x", 4)
		s.each(func(i reg.GPVirtual, u int) {
			v := s.vec()
			VMOVUPS(x.at(i, s.lanes, u), v)
			VCVTPS2PH(Imm(0), v, dst.at(i, s.lanes, u))
		})
		end()

		s.text("fromFloat16", "func(dst *float32, x *uint16, n int)", "widens binary16.")
		dst, x = load("dst", 4), load("x", 2)
		s.each(func(i reg.GPVirtual, u int) {
			v := s.vec()
			VCVTPH2PS(x.at(i, s.lanes, u), v)
			VMOVUPS(v, dst.at(i, s.lanes, u))
		})
		end()

		s.text("fromBFloat16", "func(dst *float32, x *uint16, n int)", "widens bfloat16.")
		dst, x = load("dst", 4), load("x", 2)
		s.each(func(i reg.GPVirtual, u int) {
			v := s.vec()
			VPMOVZXWD(x.at(i, s.lanes, u), v)
			VPSLLD(Imm(16), v, v)
			VMOVUPS(v, dst.at(i, s.lanes, u))
		})
		end()
		toBFloat16(s)
	}
}

// constant is a vector of one number of 32 bits.
func (s isa) constant(value uint32) reg.VecVirtual {
	g, x, v := GP32(), XMM(), s.vec()
	MOVL(U32(value), g)
	VMOVD(g, x)
	VPBROADCASTD(x, v)
	return v
}

// toBFloat16 adds half a unit less one and the last bit that stays, so that ties go to even, and
// cuts; NaNs are cut and made quiet.
func toBFloat16(s isa) {
	s.text("toBFloat16", "func(dst *uint16, x *float32, n int)", "rounds to bfloat16, to nearest even.")
	dst, x := load("dst", 2), load("x", 4)
	one, half, quiet := s.constant(1), s.constant(0x7fff), s.constant(0x40)
	s.each(func(i reg.GPVirtual, u int) {
		v, cut, r := s.vec(), s.vec(), s.vec()
		VMOVUPS(x.at(i, s.lanes, u), v)
		VPSRLD(Imm(16), v, cut)
		if s.lanes == 16 {
			nan := K()
			VPANDD(one, cut, r)
			VPADDD(half, r, r)
			VPADDD(v, r, r)
			VPSRLD(Imm(16), r, r)
			VCMPPS(Imm(3), v, v, nan)
			VPORD(quiet, cut, nan, r)
			VPMOVDW(r, dst.at(i, s.lanes, u))
			return
		}
		nan := s.vec()
		VPAND(one, cut, r)
		VPADDD(half, r, r)
		VPADDD(v, r, r)
		VPSRLD(Imm(16), r, r)
		VCMPPS(Imm(3), v, v, nan)
		VPOR(quiet, cut, cut)
		VBLENDVPS(nan, cut, r, r)
		VPACKUSDW(r, r, r) // each half packs within itself, twice
		VPERMQ(Imm(0x08), r, r)
		VMOVUPS(r.AsX(), dst.at(i, s.lanes, u))
	})
	end()
}
