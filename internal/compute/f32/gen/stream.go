package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// slice is the size of a slice's header.
const slice = 24

// streams writes sums past the caches: vectors of all operands are loaded and stored in turns, so
// that reads and writes of memory overlap.
func streams() {
	for _, s := range []isa{avx512, avx2} {
		s.pastCaches(false)
		s.pastCaches(true)
	}
}

// pastCaches writes the kernel of SumTo, or that of MeanTo if mean.
func (s isa) pastCaches(mean bool) {
	name, signature, kernel := "sumTo", "func(dsts *[]float32, dstsBytes int, srcs *[]float32, srcsBytes int, n int)", "SumTo"
	if mean {
		name, signature, kernel = "meanTo", "func(dsts *[]float32, dstsBytes int, srcs *[]float32, srcsBytes int, n int, by float32)", "MeanTo"
	}
	s.text(name, signature,
		"is "+kernel+" for n values, a multiple of four vectors. It is given the slices and how many bytes their headers take; dsts are aligned to vectors.")
	dsts, dstsEnd := Load(Param("dsts"), GP64()), Load(Param("dstsBytes"), GP64())
	srcs, srcsEnd := Load(Param("srcs"), GP64()), Load(Param("srcsBytes"), GP64())
	n := Load(Param("n"), GP64())
	var by Op
	if mean {
		by = s.broadcast("by")
	}
	sum := make([]reg.VecVirtual, unroll)
	for u := range sum {
		sum[u] = s.vec()
	}
	i, k, p := GP64(), GP64(), GP64()
	at := func(u int) Mem { return Mem{Base: p, Index: i, Scale: 4, Disp: u * s.bytes()} }
	XORQ(i, i)
	Label("loop")
	MOVQ(Mem{Base: srcs}, p)
	for u := range sum {
		VMOVUPS(at(u), sum[u])
	}
	MOVQ(U32(slice), k)
	JMP(LabelRef("more"))
	Label("add")
	MOVQ(Mem{Base: srcs, Index: k, Scale: 1}, p)
	for u := range sum {
		VADDPS(at(u), sum[u], sum[u])
	}
	ADDQ(Imm(slice), k)
	Label("more")
	CMPQ(k, srcsEnd)
	JLT(LabelRef("add"))
	if mean {
		for u := range sum {
			VDIVPS(by, sum[u], sum[u])
		}
	}
	XORQ(k, k)
	Label("store")
	MOVQ(Mem{Base: dsts, Index: k, Scale: 1}, p)
	for u := range sum {
		VMOVNTPS(sum[u], at(u))
	}
	ADDQ(Imm(slice), k)
	CMPQ(k, dstsEnd)
	JLT(LabelRef("store"))
	ADDQ(Imm(uint64(unroll*s.lanes)), i)
	CMPQ(i, n)
	JLT(LabelRef("loop"))
	SFENCE()
	end()
}
