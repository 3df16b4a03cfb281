package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

const unroll = 4

// A stream is one slice that an element-wise loop walks.
type stream struct {
	base reg.GPVirtual
	size int // bytes of an element
}

func load(name string, size int) stream {
	return stream{Load(Param(name), GP64()).(reg.GPVirtual), size}
}

// at is element lanes·u after the loop's index.
func (s stream) at(i reg.GPVirtual, lanes, u int) Mem {
	return Mem{Base: s.base, Index: i, Scale: uint8(s.size), Disp: lanes * u * s.size}
}

// each runs body(i, u) for whole vectors from 0 to n, four at a time and then one at a time: u is
// the vector's number after index i. n is a multiple of lanes.
func (s isa) each(body func(i reg.GPVirtual, u int)) {
	n := Load(Param("n"), GP64())
	i, end := GP64(), GP64()
	XORQ(i, i)
	MOVQ(n, end)
	SUBQ(Imm(uint64(unroll*s.lanes)), end)
	JMP(LabelRef("test4"))
	Label("loop4")
	for u := range unroll {
		body(i, u)
	}
	ADDQ(Imm(uint64(unroll*s.lanes)), i)
	Label("test4")
	CMPQ(i, end)
	JLE(LabelRef("loop4"))
	JMP(LabelRef("test1"))
	Label("loop1")
	body(i, 0)
	ADDQ(Imm(uint64(s.lanes)), i)
	Label("test1")
	CMPQ(i, n)
	JLT(LabelRef("loop1"))
}

// text begins a function: its name has the instruction set's behind it, and doc goes on after the
// name.
func (s isa) text(name, signature, doc string) {
	TEXT(name+s.name, NOSPLIT, signature)
	Doc(name + s.name + " " + doc)
	Pragma("noescape")
}

// end ends a function. Without VZEROUPPER code with older vector instructions is slow after it.
func end() {
	VZEROUPPER()
	RET()
}

// broadcast is a vector of a float32 parameter.
func (s isa) broadcast(name string) reg.VecVirtual {
	v := s.vec()
	x := Load(Param(name), XMM())
	VBROADCASTSS(x, v)
	return v
}

// keeper prepares a function that leaves in v the lanes where y > 0 and clears the others. Those
// where y or v is a NaN become one.
//
// With AVX-512 VFIXUPIMMPS does it by what y is: its table has four bits for each of QNaN, SNaN,
// zero, one, −Inf, Inf, negative and positive; 0 leaves v, 2 is y as a quiet NaN, 8 is +0. Lanes of
// v that were NaNs then get all bits set.
func (s isa) keeper() func(y Op, v reg.VecVirtual) {
	if s.lanes == 16 {
		table := s.constant(0x08080822)
		return func(y Op, v reg.VecVirtual) {
			nan := K()
			if m, ok := y.(Mem); ok {
				r := s.vec()
				VMOVUPS(m, r)
				y = r
			}
			VCMPPS(Imm(3), v, v, nan)
			VFIXUPIMMPS(Imm(0), table, y, v)
			VPTERNLOGD(Imm(0xff), v, v, nan, v)
		}
	}
	zero := s.vec()
	s.zero(zero)
	return func(y Op, v reg.VecVirtual) {
		m, nan := s.vec(), s.vec()
		VCMPPS(Imm(3), y, v, nan)
		VCMPPS(Imm(1), y, zero, m) // 0 < y
		VANDPS(m, v, v)
		VORPS(nan, v, v)
	}
}

// vectors writes the functions over one or two arrays.
func vectors() {
	for _, s := range []isa{avx512, avx2} {
		binary(s, "add", "sets dst = a + b.", func(a, b Op, d reg.VecVirtual) { VADDPS(a, b, d) })
		binary(s, "mul", "sets dst = a · b.", func(a, b Op, d reg.VecVirtual) { VMULPS(a, b, d) })
		scales(s)
		sums(s)
		relus(s)
	}
	maxWhich()
	maxWhichAVX2()
}

// binary writes dst = a op b, element by element. dst may be a or b.
func binary(s isa, name, doc string, op func(a, b Op, d reg.VecVirtual)) {
	s.text(name, "func(dst, a, b *float32, n int)", doc)
	dst, a, b := load("dst", 4), load("a", 4), load("b", 4)
	s.each(func(i reg.GPVirtual, u int) {
		v := s.vec()
		VMOVUPS(a.at(i, s.lanes, u), v)
		op(b.at(i, s.lanes, u), v, v)
		VMOVUPS(v, dst.at(i, s.lanes, u))
	})
	end()
}

// scales writes dst += α·x and its kin.
func scales(s isa) {
	s.text("axpy", "func(dst *float32, alpha float32, x *float32, n int)", "sets dst += alpha·x.")
	dst, x, alpha := load("dst", 4), load("x", 4), s.broadcast("alpha")
	s.each(func(i reg.GPVirtual, u int) {
		v := s.vec()
		VMOVUPS(dst.at(i, s.lanes, u), v)
		VFMADD231PS(x.at(i, s.lanes, u), alpha, v)
		VMOVUPS(v, dst.at(i, s.lanes, u))
	})
	end()

	s.text("axpby", "func(dst *float32, alpha float32, x *float32, beta float32, n int)", "sets dst = alpha·x + beta·dst.")
	dst, x, alpha = load("dst", 4), load("x", 4), s.broadcast("alpha")
	beta := s.broadcast("beta")
	s.each(func(i reg.GPVirtual, u int) {
		v := s.vec()
		VMULPS(dst.at(i, s.lanes, u), beta, v)
		VFMADD231PS(x.at(i, s.lanes, u), alpha, v)
		VMOVUPS(v, dst.at(i, s.lanes, u))
	})
	end()

	s.text("scale", "func(dst *float32, alpha float32, x *float32, n int)", "sets dst = alpha·x.")
	dst, x, alpha = load("dst", 4), load("x", 4), s.broadcast("alpha")
	s.each(func(i reg.GPVirtual, u int) {
		v := s.vec()
		VMULPS(x.at(i, s.lanes, u), alpha, v)
		VMOVUPS(v, dst.at(i, s.lanes, u))
	})
	end()

	s.text("divide", "func(dst *float32, by float32, x *float32, n int)", "sets dst = x / by.")
	dst, x, by := load("dst", 4), load("x", 4), s.broadcast("by")
	s.each(func(i reg.GPVirtual, u int) {
		v := s.vec()
		VMOVUPS(x.at(i, s.lanes, u), v)
		VDIVPS(by, v, v)
		VMOVUPS(v, dst.at(i, s.lanes, u))
	})
	end()
}

// reduceTo combines four accumulators into the return value, lanes by halves.
func (s isa) reduceTo(acc []reg.VecVirtual, op func(a, b, d Op)) {
	Store(s.reduce(acc, op), ReturnIndex(0))
}

// reduce combines two or four accumulators into one number, lanes by halves.
func (s isa) reduce(acc []reg.VecVirtual, op func(a, b, d Op)) reg.Register {
	for n := len(acc) / 2; n > 0; n /= 2 {
		for i := range n {
			op(acc[n+i], acc[i], acc[i])
		}
	}
	y, x, t := acc[0].AsY(), acc[0].AsX(), YMM()
	if s.lanes == 16 {
		VEXTRACTF64X4(Imm(1), acc[0], t)
		op(t, y, y)
	}
	tx := t.AsX()
	VEXTRACTF128(Imm(1), y, tx)
	op(tx, x, x)
	VPERMILPS(Imm(0x4e), x, tx)
	op(tx, x, x)
	VPERMILPS(Imm(0xb1), x, tx)
	op(tx, x, x)
	return x
}

// sums writes reductions to one number: Σ x, Σ x·y and the maximum. Each of unroll registers sums
// every unroll-th vector, so that an addition does not wait for the one before it; the order of the
// additions is fixed, and with it the result.
func sums(s isa) {
	accs := func() []reg.VecVirtual {
		acc := make([]reg.VecVirtual, unroll)
		for i := range acc {
			acc[i] = s.vec()
			s.zero(acc[i])
		}
		return acc
	}
	add := func(a, b, d Op) { VADDPS(a, b, d) }
	s.text("sum", "func(x *float32, n int) float32", "is Σ x.")
	x, acc := load("x", 4), accs()
	s.each(func(i reg.GPVirtual, u int) { VADDPS(x.at(i, s.lanes, u), acc[u], acc[u]) })
	s.reduceTo(acc, add)
	end()

	s.text("dot", "func(x, y *float32, n int) float32", "is Σ x·y.")
	x, y, acc := load("x", 4), load("y", 4), accs()
	s.each(func(i reg.GPVirtual, u int) {
		v := s.vec()
		VMOVUPS(x.at(i, s.lanes, u), v)
		VFMADD231PS(y.at(i, s.lanes, u), v, acc[u])
	})
	s.reduceTo(acc, add)
	end()

	s.text("max", "func(x *float32, n int) float32", "is the largest value of x; n is not 0.")
	x = load("x", 4)
	acc = make([]reg.VecVirtual, unroll)
	for i := range acc {
		acc[i] = s.vec()
		VMOVUPS(Mem{Base: x.base}, acc[i])
	}
	s.each(func(i reg.GPVirtual, u int) { VMAXPS(x.at(i, s.lanes, u), acc[u], acc[u]) })
	s.reduceTo(acc, func(a, b, d Op) { VMAXPS(a, b, d) })
	end()
}

// maxWhich writes MaxWhich: where x is larger than out it takes its place, and which that of
// chosen. A NaN is larger than all.
func maxWhich() {
	s := avx512
	s.text("maxWhich", "func(out *float32, chosen *byte, x *float32, which byte, n int)", "is MaxWhich.")
	out, chosen, x := load("out", 4), load("chosen", 1), load("x", 4)
	which, b := Load(Param("which"), GP32()), XMM()
	VPBROADCASTB(which, b)
	s.each(func(i reg.GPVirtual, u int) {
		v, greater, nan := s.vec(), K(), K()
		VMOVUPS(x.at(i, s.lanes, u), v)
		VCMPPS(Imm(0x03), v, v, nan)
		VCMPPS(Imm(0x1e), out.at(i, s.lanes, u), v, greater) // x > out
		KORW(nan, greater, greater)
		VMOVUPS(v, greater, out.at(i, s.lanes, u))
		VMOVDQU8(b, greater, chosen.at(i, s.lanes, u))
	})
	end()
}

// maxWhichAVX2 is maxWhich with AVX2, which has no masked stores of bytes: masks of floats are
// packed to bytes, which choose.
func maxWhichAVX2() {
	s := avx2
	s.text("maxWhich", "func(out *float32, chosen *byte, x *float32, which byte, n int)", "is MaxWhich; n is a multiple of 16.")
	out, chosen, x, n := load("out", 4), load("chosen", 1), load("x", 4), gp("n")
	which, b, i := Load(Param("which"), GP32()), XMM(), GP64()
	VMOVD(which, b)
	VPBROADCASTB(b, b)
	XORQ(i, i)
	Label("loop")
	var masks [2]reg.VecVirtual
	for u := range masks {
		v, old, greater, nan := s.vec(), s.vec(), s.vec(), s.vec()
		VMOVUPS(x.at(i, s.lanes, u), v)
		VMOVUPS(out.at(i, s.lanes, u), old)
		VCMPPS(Imm(0x03), v, v, nan)
		VCMPPS(Imm(0x1e), old, v, greater) // x > out
		VORPS(nan, greater, greater)
		VBLENDVPS(greater, v, old, old)
		VMOVUPS(old, out.at(i, s.lanes, u))
		masks[u] = greater
	}
	words, high, old := s.vec(), XMM(), XMM()

	// Each 128 bits get a quarter of each mask.
	VPACKSSDW(masks[1], masks[0], words)
	VPERMQ(Imm(0xd8), words, words)
	VEXTRACTI128(Imm(1), words, high)
	VPACKSSWB(high, words.AsX(), high)
	VMOVDQU(chosen.at(i, 16, 0), old)
	VPBLENDVB(high, b, old, old)
	VMOVDQU(old, chosen.at(i, 16, 0))
	ADDQ(Imm(16), i)
	CMPQ(i, n)
	JLT(LabelRef("loop"))
	end()
}

// relus writes max(x, 0) and its gradient. Both leave a NaN, so that a step that went wrong shows.
func relus(s isa) {
	s.text("relu", "func(dst, x *float32, n int)", "sets dst = max(x, 0), and leaves a NaN.")
	dst, x, zero := load("dst", 4), load("x", 4), s.vec()
	s.zero(zero)
	s.each(func(i reg.GPVirtual, u int) {
		v := s.vec()
		VMOVUPS(x.at(i, s.lanes, u), v)
		VMAXPS(v, zero, v) // x where one is a NaN
		VMOVUPS(v, dst.at(i, s.lanes, u))
	})
	end()

	s.text("reluGrad", "func(dx, dy, y *float32, n int)", "sets dx = dy where y > 0, else 0, and a NaN where one of them is.")
	dx, dy, y, keep := load("dx", 4), load("dy", 4), load("y", 4), s.keeper()
	s.each(func(i reg.GPVirtual, u int) {
		v := s.vec()
		VMOVUPS(dy.at(i, s.lanes, u), v)
		keep(y.at(i, s.lanes, u), v)
		VMOVUPS(v, dx.at(i, s.lanes, u))
	})
	end()
}
