package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// avx512half is AVX-512 whose arrays lie in memory as bfloat16; it computes in float32.
var avx512half = isa{name: "HalfAVX512", lanes: 16, vec: ZMM, half: true}

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

// load reads a vector of an array.
func (s isa) load(m Mem, v reg.VecVirtual) {
	if !s.half {
		VMOVUPS(m, v)
		return
	}
	VPMOVZXWD(m, v)
	VPSLLD(Imm(16), v, v)
}

// operand is a vector of an array as an argument of an instruction: in memory, if it lies there as
// float32.
func (s isa) operand(m Mem) Op {
	if !s.half {
		return m
	}
	v := s.vec()
	s.load(m, v)
	return v
}

// storer prepares a function that writes a vector to an array, rounded to nearest even; as
// toBFloat16.
func (s isa) storer() func(v reg.VecVirtual, m Mem) {
	if !s.half {
		return func(v reg.VecVirtual, m Mem) { VMOVUPS(v, m) }
	}
	narrow := s.rounder()
	return func(v reg.VecVirtual, m Mem) { VPMOVDW(narrow(v), m) }
}

// rounder prepares a function that gives a vector's numbers as bfloat16, each in the lower half of
// 32 bits.
func (s isa) rounder() func(v reg.VecVirtual) reg.VecVirtual {
	one, half, quiet := s.constant(1), s.constant(0x7fff), s.constant(0x40)
	return func(v reg.VecVirtual) reg.VecVirtual {
		cut, r, nan := s.vec(), s.vec(), K()
		VPSRLD(Imm(16), v, cut)
		VPANDD(one, cut, r)
		VPADDD(half, r, r)
		VPADDD(v, r, r)
		VPSRLD(Imm(16), r, r)
		VCMPPS(Imm(3), v, v, nan)
		VPORD(quiet, cut, nan, r)
		return r
	}
}

// stored writes the loops over arrays that are stored as bfloat16.
func stored() {
	s := avx512half
	channelPasses(s)
	s.text("add", "func(dst, a, b *uint16, n int)", "sets dst = a + b.")
	dst, a, b := load("dst", 2), load("a", 2), load("b", 2)
	store := s.storer()
	s.each(func(i reg.GPVirtual, u int) {
		v := s.vec()
		s.load(a.at(i, s.lanes, u), v)
		VADDPS(s.operand(b.at(i, s.lanes, u)), v, v)
		store(v, dst.at(i, s.lanes, u))
	})
	end()

	s.text("addTo", "func(dst *float32, x *uint16, n int)", "sets dst += x.")
	dst, x := load("dst", 4), load("x", 2)
	s.each(func(i reg.GPVirtual, u int) {
		v := s.vec()
		s.load(x.at(i, s.lanes, u), v)
		VADDPS(dst.at(i, s.lanes, u), v, v)
		VMOVUPS(v, dst.at(i, s.lanes, u))
	})
	end()

	s.text("relu", "func(dst, x *uint16, n int)", "sets dst = max(x, 0), and leaves a NaN.")
	dst, x, zero := load("dst", 2), load("x", 2), s.vec()
	s.zero(zero)
	s.each(func(i reg.GPVirtual, u int) {
		v := s.vec()
		s.load(x.at(i, s.lanes, u), v)
		VMAXPS(v, zero, v)
		VPSRLD(Imm(16), v, v)
		VPMOVDW(v, dst.at(i, s.lanes, u))
	})
	end()

	s.text("reluGrad", "func(dx, dy, y *uint16, n int)", "sets dx = dy where y > 0, else 0, and a NaN where one of them is.")
	dx, dy, y, keep := load("dx", 2), load("dy", 2), load("y", 2), s.keeper()
	s.each(func(i reg.GPVirtual, u int) {
		v := s.vec()
		s.load(dy.at(i, s.lanes, u), v)
		keep(s.operand(y.at(i, s.lanes, u)), v)
		VPSRLD(Imm(16), v, v)
		VPMOVDW(v, dx.at(i, s.lanes, u))
	})
	end()

	s.text("maxWhich", "func(out *uint16, chosen *byte, x *uint16, which byte, n int)", "is MaxWhichBFloat16.")
	out, chosen, x := load("out", 2), load("chosen", 1), load("x", 2)
	which, w := Load(Param("which"), GP32()), XMM()
	VPBROADCASTB(which, w)
	s.each(func(i reg.GPVirtual, u int) {
		v, greater, nan := s.vec(), K(), K()
		s.load(x.at(i, s.lanes, u), v)
		VCMPPS(Imm(0x03), v, v, nan)
		VCMPPS(Imm(0x1e), s.operand(out.at(i, s.lanes, u)), v, greater) // x > out
		KORW(nan, greater, greater)
		VPSRLD(Imm(16), v, v)
		VPMOVDW(v, greater, out.at(i, s.lanes, u))
		VMOVDQU8(w, greater, chosen.at(i, s.lanes, u))
	})
	end()

	narrowRows()
	pairHalves()
}

// narrowRows rounds the rows of a tile, 32 values each, to rows of an array that begin where at
// says, or adds them to what lies there.
func narrowRows() {
	s := avx512half
	for _, add := range []bool{false, true} {
		name, doc := "narrowRows", "rounds the first columns of rows of 32 values to dst[at[i]...]; mask has a bit for each column, rows is not 0."
		if add {
			name, doc = "narrowRowsAdd", "is narrowRows that adds to dst."
		}
		s.text(name, "func(dst *uint16, at *int, src *float32, rows int, mask uint64)", doc)
		dst, at, src, rows, mask := gp("dst"), gp("at"), gp("src"), gp("rows"), gp("mask")
		k1, k2 := K(), K()
		KMOVQ(mask, k1)
		KSHIFTRQ(Imm(16), k1, k2)
		narrow := s.rounder()
		to := GP64()
		Label("loop")
		MOVQ(Mem{Base: at}, to)
		for i, k := range []reg.OpmaskVirtual{k1, k2} {
			v, m := ZMM(), Mem{Base: dst, Index: to, Scale: 2, Disp: 32 * i}
			VMOVUPS(Mem{Base: src, Disp: 64 * i}, v)
			if add {
				old := ZMM()
				VPMOVZXWD_Z(m, k, old)
				VPSLLD(Imm(16), old, old)
				VADDPS(old, v, v)
			}
			VPMOVDW(narrow(v), k, m)
		}
		ADDQ(Imm(8), at)
		ADDQ(Imm(128), src)
		DECQ(rows)
		JNE(LabelRef("loop"))
		end()
	}
}

// pairHalves joins rows of two arrays to rows of pairs, one or two vectors wide.
func pairHalves() {
	s := avx512half
	for _, vectors := range []int{1, 2} {
		s.text(fmt.Sprintf("pairRows%d", vectors), "func(dst *float32, dstStride int, low, high *uint16, srcStride int, rows int, lowMask, highMask, dstMask uint64)",
			fmt.Sprintf("is Tile.PairRowsBFloat16 for rows of %d vectors; strides in bytes, rows not 0.", vectors))
		dst, dstStride := gp("dst"), gp("dstStride")
		low, high, srcStride := gp("low"), gp("high"), gp("srcStride")
		left, readLow, readHigh, write := gp("rows"), gp("lowMask"), gp("highMask"), gp("dstMask")
		k := make([][3]reg.OpmaskVirtual, vectors)
		for i := range k {
			for j, mask := range []reg.GPVirtual{readLow, readHigh, write} {
				k[i][j] = K()
				KMOVW(mask.As32(), k[i][j])
				SHRQ(Imm(16), mask)
			}
		}
		Label("loop")
		for i := range k {
			a, b := ZMM(), ZMM()
			VPMOVZXWD_Z(Mem{Base: low, Disp: 32 * i}, k[i][0], a)
			VPMOVZXWD_Z(Mem{Base: high, Disp: 32 * i}, k[i][1], b)
			VPSLLD(Imm(16), b, b)
			VPORD(b, a, a)
			VMOVUPS(a, k[i][2], Mem{Base: dst, Disp: 64 * i})
		}
		ADDQ(srcStride, low)
		ADDQ(srcStride, high)
		ADDQ(dstStride, dst)
		DECQ(left)
		JNE(LabelRef("loop"))
		end()
	}
}
