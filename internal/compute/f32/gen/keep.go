package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// keeps writes the factors of dropout with AVX-512, whose multiplications of 64 bits other
// instruction sets do not have.
func keeps() {
	avx512.text("keep", "func(dst *float32, from, step, threshold uint64, keep float32, n int)", "is Keep for n values, a multiple of 32; from is the first number that is mixed.")
	dst, n := gp("dst"), gp("n")
	keep := YMM()
	x := Load(Param("keep"), XMM())
	VBROADCASTSS(x, keep)
	wide := func(name string) reg.VecVirtual {
		v := ZMM()
		VPBROADCASTQ(Load(Param(name), GP64()), v)
		return v
	}
	constant := func(value uint64) reg.VecVirtual {
		g, v := GP64(), ZMM()
		MOVQ(U64(value), g)
		VPBROADCASTQ(g, v)
		return v
	}
	step, threshold := wide("step"), wide("threshold")
	first, second := constant(0xbf58476d1ce4e5b9), constant(0x94d049bb133111eb)

	// at are the numbers of 32 values that follow each other, after the counter's step.
	var at [4]reg.VecVirtual
	lanes := GLOBL("lanes", RODATA|NOPTR)
	for i := range 8 {
		DATA(8*i, U64(i))
	}
	base := wide("from")
	VPADDQ(constant(0x9e3779b97f4a7c15), base, base)
	lane := ZMM()
	VMOVDQU64(lanes, lane)
	VPMULLQ(step, lane, lane)
	eight := ZMM()
	VPSLLQ(Imm(3), step, eight)
	for i := range at {
		at[i] = ZMM()
		if i == 0 {
			VPADDQ(base, lane, at[i])
		} else {
			VPADDQ(eight, at[i-1], at[i])
		}
	}
	next := ZMM()
	VPSLLQ(Imm(5), step, next)
	Label("loop")
	for i := range at {
		z, t := ZMM(), ZMM()
		VPSRLQ(Imm(30), at[i], t)
		VPXORQ(at[i], t, z)
		VPMULLQ(first, z, z)
		VPSRLQ(Imm(27), z, t)
		VPXORQ(t, z, z)
		VPMULLQ(second, z, z)
		VPSRLQ(Imm(31), z, t)
		VPXORQ(t, z, z)
		VPSRLQ(Imm(32), z, z)
		k := K()
		VPCMPUQ(Imm(5), threshold, z, k) // not below
		out := YMM()
		VMOVAPS_Z(keep, k, out)
		VMOVUPS(out, Mem{Base: dst, Disp: 32 * i})
		VPADDQ(next, at[i], at[i])
	}
	ADDQ(U32(128), dst)
	SUBQ(Imm(32), n)
	JNE(LabelRef("loop"))
	end()
}
