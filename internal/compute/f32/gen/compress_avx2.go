package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// The functions of compress.go for AVX2, 16 elements at a time in two vectors. AVX2 has no mask
// registers: a comparison sets all bits of a lane. Each lane keeps the bits of its element's code,
// at their place in the word, and the OR of all lanes is the word.

// orLanes returns the OR of all lanes of v, which is changed.
func orLanes(v reg.VecVirtual) reg.GPVirtual {
	x, y, g := v.AsX(), XMM(), GP32()
	VEXTRACTI128(Imm(1), v, y)
	VPOR(y, x, x)
	VPSHUFD(Imm(0x4e), x, y)
	VPOR(y, x, x)
	VPSHUFD(Imm(0xb1), x, y)
	VPOR(y, x, x)
	VMOVD(x, g)
	return g
}

// encode2BitAVX2 is encode2Bit without mask registers: comparisons give vectors, whose sign bits
// are gathered.
func encode2BitAVX2() {
	s := avx2
	plus := dwords("plus2", func(i int) uint32 { return 3 << firstBit(i, 2) })
	minus := dwords("minus2", func(i int) uint32 { return 2 << firstBit(i, 2) })
	s.text("encode2Bit", "func(code *byte, residual, grad *float32, t float32, n int)", "is Encode2Bit; n is a multiple of 16, not 0.")
	code, residual, grad, t := gp("code"), load("residual", 4), load("grad", 4), s.broadcast("t")
	negative := s.vec()
	s.zero(negative)
	VSUBPS(t, negative, negative)
	codes := func(m Mem) (v [2]reg.VecVirtual) {
		for u := range v {
			v[u] = s.vec()
			VMOVDQU(m.Offset(u*s.bytes()), v[u])
		}
		return v
	}
	above, below := codes(plus), codes(minus)
	codeLoop(code, 4, func(i reg.GPVirtual) {
		word := s.vec()
		for u := range 2 {
			r, pos, neg, said := s.vec(), s.vec(), s.vec(), s.vec()
			VMOVUPS(residual.at(i, s.lanes, u), r)
			VADDPS(grad.at(i, s.lanes, u), r, r)
			VCMPPS(Imm(0x1d), t, r, pos)        // r ≥ t
			VCMPPS(Imm(0x12), negative, r, neg) // r ≤ −t
			VANDPS(t, pos, said)
			VSUBPS(said, r, r)
			VANDPS(negative, neg, said)
			VSUBPS(said, r, r)
			VMOVUPS(r, residual.at(i, s.lanes, u))
			VPAND(above[u], pos, pos)
			VPAND(below[u], neg, neg)
			if u == 0 {
				VPOR(pos, neg, word)
				continue
			}
			VPOR(pos, word, word)
			VPOR(neg, word, word)
		}
		MOVL(orLanes(word), Mem{Base: code})
	})
	end()
}

// encode1BitAVX2 is encode1Bit without mask registers.
func encode1BitAVX2(turn Mem) {
	s := avx2
	s.text("encode1Bit", "func(code *byte, residual, grad *float32, t float32, n int)", "is Encode1Bit; n is a multiple of 16, not 0.")
	code, residual, grad, t := gp("code"), load("residual", 4), load("grad", 4), s.broadcast("t")
	order, one, minusOne := s.vec(), s.constant(0x3f800000), s.constant(0xbf800000)
	VMOVDQU(turn, order)
	codeLoop(code, 2, func(i reg.GPVirtual) {
		for u := range 2 {
			r, pos, said, bits := s.vec(), s.vec(), s.vec(), GP32()
			VMOVUPS(residual.at(i, s.lanes, u), r)
			VADDPS(grad.at(i, s.lanes, u), r, r)
			VCMPPS(Imm(0x1e), t, r, pos) // r > t
			VBLENDVPS(pos, one, minusOne, said)
			VSUBPS(said, r, r)
			VMOVUPS(r, residual.at(i, s.lanes, u))
			VPERMPS(pos, order, pos)
			VMOVMSKPS(pos, bits)
			MOVB(bits.As8(), Mem{Base: code, Disp: u})
		}
	})
	end()
}

// decode2BitAVX2 shifts each element's code to the top and chooses by it.
func decode2BitAVX2(shifts Mem) {
	s := avx2
	nothing := dwords("nothing", func(i int) uint32 { return 0x80000000 })
	s.text("addDecoded2Bit", "func(dst *float32, code *byte, t float32, n int)", "is AddDecoded2Bit; n is a multiple of 16, not 0.")
	t, negative, table := s.broadcast("t"), s.vec(), s.vec()
	s.zero(negative)
	VSUBPS(t, negative, negative)
	VMOVUPS(nothing, table)
	VBLENDPS(Imm(0x44), negative, table, table) // lanes 2 of halves: −t
	VBLENDPS(Imm(0x88), t, table, table)        // lanes 3 of halves: t
	addSaid(s, 2, shifts, table)
}

// decode1BitAVX2 is decode2BitAVX2 for one bit.
func decode1BitAVX2(shifts Mem) {
	s := avx2
	says := dwords("plusMinus", func(i int) uint32 { return []uint32{0xbf800000, 0x3f800000}[i%2] })
	s.text("addDecoded1Bit", "func(dst *float32, code *byte, n int)", "is AddDecoded1Bit; n is a multiple of 16, not 0.")
	table := s.vec()
	VMOVUPS(says, table)
	addSaid(s, 1, shifts, table)
}

// addSaid adds to dst what the codes say, which their two lowest bits look up among four values.
// Those that say nothing add −0, which changes no value.
func addSaid(s isa, bits int, shifts Mem, table reg.VecVirtual) {
	dst, code := load("dst", 4), gp("code")
	var down [2]reg.VecVirtual
	for u := range down {
		down[u] = s.vec()
		VMOVDQU(shifts.Offset(u*s.bytes()), down[u])
	}
	codeLoop(code, 2*bits, func(i reg.GPVirtual) {
		word := s.vec()
		if bits == 2 {
			VPBROADCASTD(Mem{Base: code}, word)
		} else {
			VPBROADCASTW(Mem{Base: code}, word)
		}
		for u := range down {
			v := s.vec()
			VPSRLVD(down[u], word, v)
			VPERMILPS(v, table, v)
			VADDPS(dst.at(i, s.lanes, u), v, v)
			VMOVUPS(v, dst.at(i, s.lanes, u))
		}
	})
	end()
}

// collectAVX2 stores the indices of large values one at a time: there are few.
func collectAVX2() {
	s := avx2
	var low, magnitude reg.VecVirtual
	collectLoop(s, func() {
		x := XMM()
		low, magnitude = s.vec(), s.constant(0x7fffffff)
		VMOVD(Load(Param("low"), GP32()), x)
		VPBROADCASTD(x, low)
	}, func(found reg.GPVirtual, x stream, i, count reg.GPVirtual) {
		bits, upper := GP32(), GP32()
		for u, mask := range []reg.GPVirtual{bits, upper} {
			v, most := s.vec(), s.vec()
			VPAND(x.at(i, s.lanes, u), magnitude, v)
			VPMAXUD(v, low, most)
			VPCMPEQD(v, most, v) // v ≥ low
			VMOVMSKPS(v, mask)
		}
		SHLL(Imm(8), upper)
		ORL(upper, bits)
		JZ(LabelRef("none"))
		Label("next")
		at, rest := GP32(), GP32()
		TZCNTL(bits, at)
		ADDL(i.As32(), at)
		MOVL(at, Mem{Base: found, Index: count, Scale: 4})
		INCQ(count)
		LEAL(Mem{Base: bits.As64(), Disp: -1}, rest)
		ANDL(rest, bits)
		JNZ(LabelRef("next"))
		Label("none")
	})
}
