package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// depthwise writes the loops of depthwise convolutions, for both instruction sets.
func depthwise() {
	for _, s := range []isa{avx512, avx2} {
		depthwiseForward(s)
		depthwiseWeight(s)
	}
}

// A depthwiseLoop walks a run of pixels, four at a time and then one at a time, and for each group
// the vectors of its channels.
type depthwiseLoop struct {
	isa
	out, in, w, taps, count reg.GPVirtual
	outStep, inStep         reg.GPVirtual

	// c is the offset in bytes of the vector's first channel.
	c reg.GPVirtual
}

func (s isa) depthwiseLoop() *depthwiseLoop {
	return &depthwiseLoop{isa: s, out: gp("out"), in: gp("in"), w: gp("w"), taps: gp("taps"), outStep: gp("outStep"), inStep: gp("inStep")}
}

// run calls body for groups of 4 pixels and of 1.
func (l *depthwiseLoop) run(body func(label string, pixels int)) {
	pixels := gp("pixels")
	for _, group := range []struct {
		label, next string
		n           int
	}{{"four", "one", 4}, {"one", "done", 1}} {
		Label(group.label)
		CMPQ(pixels, Imm(uint64(group.n)))
		JLT(LabelRef(group.next))
		l.c = GP64()
		XORQ(l.c, l.c)
		Label(group.label + "Channels")
		body(group.label, group.n)
		ADDQ(Imm(uint64(l.bytes())), l.c)
		end := gp("n")
		SHLQ(Imm(2), end)
		CMPQ(l.c, end)
		JLT(LabelRef(group.label + "Channels"))
		for range group.n {
			ADDQ(l.outStep, l.out)
			ADDQ(l.inStep, l.in)
		}
		SUBQ(Imm(uint64(group.n)), pixels)
		JMP(LabelRef(group.label))
	}
	Label("done")
}

// pixels are operands of the vectors of n pixels at p, step apart.
func (l *depthwiseLoop) pixels(p, step reg.GPVirtual, n int) []Mem {
	all := []Mem{{Base: p}}
	if n > 1 {
		far := GP64()
		LEAQ(Mem{Base: p, Index: step, Scale: 2}, far)
		all = append(all, Mem{Base: p, Index: step, Scale: 1}, Mem{Base: far}, Mem{Base: far, Index: step, Scale: 1})
	}
	return all
}

// eachTap calls body for each tap with the operands of the input pixels and of the weights.
func (l *depthwiseLoop) eachTap(label string, n int, body func(in []Mem, w Mem)) {
	tap, left := GP64(), gp("count")
	MOVQ(l.taps, tap)
	Label(label + "Taps")
	x, w := GP64(), GP64()
	MOVQ(Mem{Base: tap}, x)
	LEAQ(Mem{Base: l.in, Index: x, Scale: 4}, x)
	ADDQ(l.c, x)
	MOVQ(Mem{Base: tap, Disp: 8}, w)
	LEAQ(Mem{Base: l.c, Index: w, Scale: 4}, w)
	body(l.pixels(x, l.inStep, n), Mem{Base: l.w, Index: w, Scale: 1})
	ADDQ(Imm(16), tap)
	DECQ(left)
	JNE(LabelRef(label + "Taps"))
}

// outputs are the operands of the vectors of n output pixels.
func (l *depthwiseLoop) outputs(n int) []Mem {
	at := GP64()
	LEAQ(Mem{Base: l.out, Index: l.c, Scale: 1}, at)
	return l.pixels(at, l.outStep, n)
}

// depthwiseForward writes the sums over taps.
func depthwiseForward(s isa) {
	s.text("depthwise", "func(out, in, w *float32, taps *[2]int, count, n, pixels, outStep, inStep, add int)",
		"is Depthwise; n channels are a multiple of the vector, steps are in bytes.")
	l := s.depthwiseLoop()
	l.run(func(label string, pixels int) {
		acc := make([]reg.VecVirtual, pixels)
		for i := range acc {
			acc[i] = s.vec()
			s.zero(acc[i])
		}
		add := gp("add")
		TESTQ(add, add)
		JZ(LabelRef(label + "Zero"))
		for i, m := range l.outputs(pixels) {
			VMOVUPS(m, acc[i])
		}
		Label(label + "Zero")
		l.eachTap(label, pixels, func(in []Mem, w Mem) {
			f := s.vec()
			VMOVUPS(w, f)
			for i, m := range in {
				VFMADD231PS(m, f, acc[i])
			}
		})
		for i, m := range l.outputs(pixels) {
			VMOVUPS(acc[i], m)
		}
	})
	end()
}

// depthwiseWeight writes the sums over pixels.
func depthwiseWeight(s isa) {
	s.text("depthwiseWeight", "func(out, in, w *float32, taps *[2]int, count, n, pixels, outStep, inStep int)",
		"is DepthwiseWeight; n channels are a multiple of the vector, steps are in bytes.")
	l := s.depthwiseLoop()
	l.run(func(label string, pixels int) {
		dy := make([]reg.VecVirtual, pixels)
		for i, m := range l.outputs(pixels) {
			dy[i] = s.vec()
			VMOVUPS(m, dy[i])
		}
		l.eachTap(label, pixels, func(in []Mem, w Mem) {
			acc := s.vec()
			VMOVUPS(w, acc)
			for i, m := range in {
				VFMADD231PS(m, dy[i], acc)
			}
			VMOVUPS(acc, w)
		})
	})
	end()
}
