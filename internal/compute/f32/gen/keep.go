package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// keeps writes dropout with AVX-512, whose multiplications of 64 bits other instruction sets do not
// have.
func keeps() {
	lanes := GLOBL("lanes", RODATA|NOPTR)
	for i := range 8 {
		DATA(8*i, U64(i))
	}

	avx512.text("keep", "func(dst *float32, from, step, threshold uint64, keep float32, n int)", "is Keep for n values, a multiple of 32; from is the first number that is mixed.")
	dst, keep := gp("dst"), broadcastHalf("keep")
	newMixer(lanes, Load(Param("step"), GP64()).(reg.GPVirtual)).each(func(i int, k reg.OpmaskVirtual) {
		out := YMM()
		VMOVAPS_Z(keep, k, out)
		VMOVUPS(out, Mem{Base: dst, Disp: 32 * i})
	}, dst)

	avx512.text("drop", "func(dst, x *float32, from, threshold uint64, scale float32, n int)", "is Drop for n values, a multiple of 32; from is the first number that is mixed.")
	dst, x, scale := gp("dst"), gp("x"), broadcastHalf("scale")
	step := GP64()
	MOVQ(U32(1), step)
	newMixer(lanes, step).each(func(i int, k reg.OpmaskVirtual) {
		v, out, nan := YMM(), YMM(), K()
		VMOVUPS(Mem{Base: x, Disp: 32 * i}, v)
		VCMPPS(Imm(3), v, v, nan)
		VMULPS_Z(scale, v, k, out)
		VMOVAPS(v, nan, out)
		VMOVUPS(out, Mem{Base: dst, Disp: 32 * i})
	}, dst, x)
}

// broadcastHalf is a float32 parameter in eight lanes.
func broadcastHalf(name string) reg.VecVirtual {
	v := YMM()
	x := Load(Param(name), XMM())
	VBROADCASTSS(x, v)
	return v
}

// A mixer mixes numbers, 32 at a time: from, from + step, and so on.
type mixer struct {
	// at are the next 32 numbers, after the counter's step of SplitMix64.
	at            [4]reg.VecVirtual
	next          reg.VecVirtual
	threshold     reg.VecVirtual
	first, second reg.VecVirtual
}

func newMixer(lanes Mem, step reg.GPVirtual) *mixer {
	wide := func(g reg.Register) reg.VecVirtual {
		v := ZMM()
		VPBROADCASTQ(g, v)
		return v
	}
	constant := func(value uint64) reg.VecVirtual {
		g := GP64()
		MOVQ(U64(value), g)
		return wide(g)
	}
	m := &mixer{threshold: wide(gp("threshold")), first: constant(0xbf58476d1ce4e5b9), second: constant(0x94d049bb133111eb), next: ZMM()}
	steps, lane, eight, base := wide(step), ZMM(), ZMM(), wide(gp("from"))
	VPADDQ(constant(0x9e3779b97f4a7c15), base, base)
	VMOVDQU64(lanes, lane)
	VPMULLQ(steps, lane, lane)
	VPSLLQ(Imm(3), steps, eight)
	VPSLLQ(Imm(5), steps, m.next)
	for i := range m.at {
		m.at[i] = ZMM()
		if i == 0 {
			VPADDQ(base, lane, m.at[i])
		} else {
			VPADDQ(eight, m.at[i-1], m.at[i])
		}
	}
	return m
}

// each loops over n values. body gets those of eight numbers that are not below the threshold; the
// pointers are moved on. It ends the function.
func (m *mixer) each(body func(i int, k reg.OpmaskVirtual), pointers ...reg.GPVirtual) {
	n := gp("n")
	Label("loop")
	for i, at := range m.at {
		z, t, k := ZMM(), ZMM(), K()
		VPSRLQ(Imm(30), at, t)
		VPXORQ(at, t, z)
		VPMULLQ(m.first, z, z)
		VPSRLQ(Imm(27), z, t)
		VPXORQ(t, z, z)
		VPMULLQ(m.second, z, z)
		VPSRLQ(Imm(31), z, t)
		VPXORQ(t, z, z)
		VPSRLQ(Imm(32), z, z)
		VPCMPUQ(Imm(5), m.threshold, z, k) // not below
		body(i, k)
		VPADDQ(m.next, at, at)
	}
	for _, p := range pointers {
		ADDQ(U32(128), p)
	}
	SUBQ(Imm(32), n)
	JNE(LabelRef("loop"))
	end()
}
