package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Codes run from the high bits of a byte down, vector masks from bit 0 up: lanes are compared in
// reversed order, within groups of 4 (2 bits) or 8 (1 bit). A loop takes 16 elements, one vector of
// AVX-512 and two of AVX2.
func compression() {
	turn := dwords("reversed8", func(i int) uint32 { return uint32(i ^ 7) })
	shifts1 := dwords("shifts1", func(i int) uint32 { return firstBit(i, 1) })
	shifts2 := dwords("shifts2", func(i int) uint32 { return firstBit(i, 2) })
	encode2Bit(avx512)
	encode1Bit(avx512, turn)
	decode(avx512, 2, shifts2)
	decode(avx512, 1, shifts1)
	collect(avx512)
	encode2BitAVX2()
	encode1BitAVX2(turn)
	decode2BitAVX2(shifts2)
	decode1BitAVX2(shifts1)
	collectAVX2()
}

// firstBit is the first bit of the code, of so many bits, of the i-th of 16 elements.
func firstBit(i, bits int) uint32 {
	perByte := 8 / bits
	return uint32(i/perByte*8 + 8 - bits - i%perByte*bits)
}

// dwords puts 16 dwords into the read-only data.
func dwords(name string, f func(i int) uint32) Mem {
	m := GLOBL(name, RODATA|NOPTR)
	for i := range 16 {
		DATA(4*i, U32(f(i)))
	}
	return m
}

// codeLoop runs body for each 16 elements, to which so many bytes of code belong.
func codeLoop(code reg.GPVirtual, codeBytes int, body func(i reg.GPVirtual)) {
	n, i := gp("n"), GP64()
	XORQ(i, i)
	Label("loop")
	body(i)
	ADDQ(Imm(uint64(codeBytes)), code)
	ADDQ(Imm(16), i)
	CMPQ(i, n)
	JLT(LabelRef("loop"))
}

// encode2Bit writes two-bit codes: a sum of residual and gradient becomes +t, −t or 0, and what is
// left stays in residual. Codes are packed from the masks of both comparisons.
func encode2Bit(s isa) {
	s.text("encode2Bit", "func(code *byte, residual, grad *float32, t float32, n int)", "is Encode2Bit; n is a multiple of 16, not 0.")
	code, residual, grad, t := gp("code"), load("residual", 4), load("grad", 4), s.broadcast("t")
	minus := s.vec()
	s.zero(minus)
	VSUBPS(t, minus, minus)
	high, low := GP32(), GP32()
	MOVL(U32(0xaaaaaaaa), high)
	MOVL(U32(0x55555555), low)
	codeLoop(code, 4, func(i reg.GPVirtual) {
		r, turned := s.vec(), s.vec()
		pos, neg, posT, negT := K(), K(), K(), K()
		VMOVUPS(residual.at(i, s.lanes, 0), r)
		VADDPS(grad.at(i, s.lanes, 0), r, r)
		VCMPPS(Imm(0x1d), t, r, pos)     // r ≥ t
		VCMPPS(Imm(0x12), minus, r, neg) // r ≤ −t
		VPERMILPS(Imm(0x1b), r, turned)
		VCMPPS(Imm(0x1d), t, turned, posT)
		VCMPPS(Imm(0x12), minus, turned, negT)
		KORW(posT, negT, negT)
		VSUBPS(t, r, pos, r)
		VSUBPS(minus, r, neg, r)
		VMOVUPS(r, residual.at(i, s.lanes, 0))
		some, plus := GP32(), GP32()
		KMOVW(negT, some)
		KMOVW(posT, plus)
		PDEPL(high, some, some)
		PDEPL(low, plus, plus)
		ORL(plus, some)
		MOVL(some, Mem{Base: code})
	})
	end()
}

// encode1Bit writes one-bit codes: a sum of residual and gradient of more than t becomes +1, any
// other −1, and what is left stays in residual.
func encode1Bit(s isa, turn Mem) {
	s.text("encode1Bit", "func(code *byte, residual, grad *float32, t float32, n int)", "is Encode1Bit; n is a multiple of 16, not 0.")
	code, residual, grad, t := gp("code"), load("residual", 4), load("grad", 4), s.broadcast("t")
	order, one := s.vec(), s.constant(0x3f800000)
	VMOVUPS(turn, order)
	minusOne := s.constant(0xbf800000)
	codeLoop(code, 2, func(i reg.GPVirtual) {
		r, turned, said := s.vec(), s.vec(), s.vec()
		pos, posT := K(), K()
		VMOVUPS(residual.at(i, s.lanes, 0), r)
		VADDPS(grad.at(i, s.lanes, 0), r, r)
		VCMPPS(Imm(0x1e), t, r, pos) // r > t
		VPERMPS(r, order, turned)
		VCMPPS(Imm(0x1e), t, turned, posT)
		VBLENDMPS(one, minusOne, pos, said)
		VSUBPS(said, r, r)
		VMOVUPS(r, residual.at(i, s.lanes, 0))
		bits := GP32()
		KMOVW(posT, bits)
		MOVW(bits.As16(), Mem{Base: code})
	})
	end()
}

// decode adds what a code of 1 or 2 bits says: each lane shifts its code down and looks up its
// value among four.
func decode(s isa, bits int, shifts Mem) {
	if bits == 2 {
		s.text("addDecoded2Bit", "func(dst *float32, code *byte, t float32, n int)", "is AddDecoded2Bit; n is a multiple of 16, not 0.")
	} else {
		s.text("addDecoded1Bit", "func(dst *float32, code *byte, n int)", "is AddDecoded1Bit; n is a multiple of 16, not 0.")
	}
	dst, code := load("dst", 4), gp("code")
	down, ones := s.vec(), s.constant(1<<bits-1)
	VMOVUPS(shifts, down)
	table := s.vec()
	if bits == 2 {
		// lane 2: −t, lane 3: t
		x := Load(Param("t"), XMM())
		t := s.vec()
		VBROADCASTSS(x, t)
		s.zero(table)
		k, mask := K(), GP32()
		MOVL(U32(4), mask)
		KMOVW(mask, k)
		VSUBPS(t, table, k, table)
		MOVL(U32(8), mask)
		KMOVW(mask, k)
		VMOVAPS(t, k, table)
	} else {
		minusOne, k, mask := s.constant(0xbf800000), K(), GP32()
		VMOVAPS(minusOne, table)
		one := s.constant(0x3f800000)
		MOVL(U32(2), mask)
		KMOVW(mask, k)
		VMOVAPS(one, k, table)
	}
	codeLoop(code, 2*bits, func(i reg.GPVirtual) {
		v, w := s.vec(), s.vec()
		if bits == 2 {
			VPBROADCASTD(Mem{Base: code}, v)
		} else {
			g := GP32()
			MOVWLZX(Mem{Base: code}, g)
			VPBROADCASTD(g, v)
		}
		VPSRLVD(down, v, v)
		VPANDD(ones, v, v)
		VPERMPS(table, v, w)

		// To add 0 would turn −0 into 0.
		if bits == 2 {
			k := K()
			VPTESTMD(v, v, k)
			VADDPS(dst.at(i, s.lanes, 0), w, w)
			VMOVUPS(w, k, dst.at(i, s.lanes, 0))
			return
		}
		VADDPS(dst.at(i, s.lanes, 0), w, w)
		VMOVUPS(w, dst.at(i, s.lanes, 0))
	})
	end()
}

// collectLoop is the frame of collect for both sets of instructions: it takes 16 values at a time
// while there are 16 entries of room. setup runs once, body for each 16 values, with the index of
// their first.
func collectLoop(s isa, setup func(), body func(found reg.GPVirtual, x stream, i, count reg.GPVirtual)) {
	s.text("collect", "func(found *uint32, x *float32, low uint32, room, n int) (done, count int)",
		"is collect; n is a multiple of 16, not 0. It reads while 16 entries of room are left.")
	found, x, last, n := gp("found"), load("x", 4), gp("room"), gp("n")
	setup()
	i, count := GP64(), GP64()
	XORQ(i, i)
	XORQ(count, count)
	SUBQ(Imm(16), last)
	Label("loop")
	CMPQ(count, last)
	JGT(LabelRef("done"))
	body(found, x, i, count)
	ADDQ(Imm(16), i)
	CMPQ(i, n)
	JLT(LabelRef("loop"))
	Label("done")
	Store(i, ReturnIndex(0))
	Store(count, ReturnIndex(1))
	end()
}

// collect packs the indices of a vector's large values in a register and stores all 16 lanes, of
// which the next vector's overwrite what is too much.
func collect(s isa) {
	numbers := dwords("numbers16", func(i int) uint32 { return uint32(i) })
	var low, index, step, magnitude reg.VecVirtual
	collectLoop(s, func() {
		low, index, step = s.vec(), s.vec(), s.constant(16)
		VPBROADCASTD(Load(Param("low"), GP32()), low)
		VMOVDQU32(numbers, index)
		magnitude = s.constant(0x7fffffff)
	}, func(found reg.GPVirtual, x stream, i, count reg.GPVirtual) {
		v, k, bits := s.vec(), K(), GP32()
		VPANDD(x.at(i, s.lanes, 0), magnitude, v)
		VPCMPUD(Imm(5), low, v, k) // v ≥ low
		KMOVW(k, bits)
		TESTL(bits, bits)
		JZ(LabelRef("none"))
		packed := s.vec()
		VPCOMPRESSD_Z(index, k, packed)
		VMOVDQU32(packed, Mem{Base: found, Index: count, Scale: 4})
		POPCNTL(bits, bits)
		ADDQ(bits.As64(), count)
		Label("none")
		VPADDD(step, index, index)
	})
}
