package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// squareLanes is the number of partial sums of squares: value i goes to sum i mod squareLanes. With
// 16 a loop would wait for its sums. Of so many values as squareBlock those that are preconditioned
// are summed in float32.
const (
	squareLanes = 32
	squareBlock = 256
)

// squareSums writes the loops that measure sums of squares, for the noise of gradients, on the way
// of what is computed anyway.
func squareSums() {
	for _, s := range []isa{avx512, avx2} {
		squaresPlain(s)
		squaresOver(s)
	}
	addMeasured(avx512) // AVX2 has too few registers
	addMeasuredOver(avx512)
	adamMeasured(avx512)
}

// partialSums loads sums of squares; store stores them.
func (s isa) partialSums(sums reg.GPVirtual, n int) []reg.VecVirtual {
	acc := make([]reg.VecVirtual, n*2*squareLanes/s.lanes)
	for j := range acc {
		acc[j] = s.vec()
		VMOVUPD(Mem{Base: sums, Disp: j * s.bytes()}, acc[j])
	}
	return acc
}

// storeSums stores what partialSums loaded.
func (s isa) storeSums(sums reg.GPVirtual, acc []reg.VecVirtual) {
	for j := range acc {
		VMOVUPD(acc[j], Mem{Base: sums, Disp: j * s.bytes()})
	}
}

// addSquares adds the squares of a vector to two sums. The square of a float32 is exact in float64,
// so that a fused multiply-add rounds as the sum alone does.
func (s isa) addSquares(x, low, high reg.VecVirtual) {
	v := s.widened(x)
	VFMADD231PD(v[0], v[0], low)
	VFMADD231PD(v[1], v[1], high)
}

// widened is a vector in float64: its lower and its upper half.
func (s isa) widened(x reg.VecVirtual) [2]reg.VecVirtual {
	v, w := s.vec(), s.vec()
	if s.lanes == 16 {
		VCVTPS2PD(x.AsY(), v)
		upper := YMM()
		VEXTRACTF64X4(Imm(1), x, upper)
		VCVTPS2PD(upper, w)
	} else {
		VCVTPS2PD(x.AsX(), v)
		upper := XMM()
		VEXTRACTF128(Imm(1), x, upper)
		VCVTPS2PD(upper, w)
	}
	return [2]reg.VecVirtual{v, w}
}

func squaresPlain(s isa) {
	s.text("squareSum", "func(sums *float64, x *float32, n int)", "adds squares to 32 partial sums, by index mod 32; n is a multiple of 32, not 0.")
	sums, x := gp("sums"), load("x", 4)
	acc := s.partialSums(sums, 1)
	every(squareLanes, func(i reg.GPVirtual) {
		for j := range acc {
			v := s.vec()
			VCVTPS2PD(x.at(i, s.lanes/2, j), v)
			VFMADD231PD(v, v, acc[j])
		}
	})
	s.storeSums(sums, acc)
	end()
}

// A divisor finds 1 / (√v·root + ε) for vectors of v, and multiplies by it; lanes where v is not
// above least become 0.
type divisor struct {
	isa
	root, epsilon, one, least reg.VecVirtual
}

func (s isa) divisor() divisor {
	return divisor{s, s.broadcast("root"), s.broadcast("epsilon"), s.constant(0x3f800000), s.constant(0x03800000)}
}

// A times sets y to x times the reciprocal.
type times func(x, y reg.VecVirtual)

// both is for two vectors of v. One division serves both: of a and b it finds q = 1/(a·b), and the
// reciprocals are q·b and q·a.
func (d divisor) both(v, w Mem) (times, times) {
	a, byA := d.of(v)
	b, byB := d.of(w)
	q := d.vec()
	VMULPS(b, a, q)
	VDIVPS(q, d.one, q)
	VMULPS(b, q, b)
	VMULPS(a, q, a)
	return byA(b), byB(a)
}

// of is the divisor, 1 in lanes that become 0, and a function that makes the product with a
// reciprocal.
func (d divisor) of(v Mem) (r reg.VecVirtual, by func(reciprocal reg.VecVirtual) times) {
	m, r := d.vec(), d.vec()
	VMOVUPS(v, m)
	VSQRTPS(m, r)
	VMULPS(d.root, r, r)
	VADDPS(d.epsilon, r, r)
	above := Imm(0x1e)
	if d.lanes == 16 {
		k, not := K(), K()
		VCMPPS(above, d.least, m, k)
		KNOTW(k, not)
		VMOVAPS(d.one, not, r)
		return r, func(reciprocal reg.VecVirtual) times {
			return func(x, y reg.VecVirtual) { VMULPS_Z(x, reciprocal, k, y) }
		}
	}
	VCMPPS(above, d.least, m, m)
	VBLENDVPS(m, r, d.one, r)
	return r, func(reciprocal reg.VecVirtual) times {
		return func(x, y reg.VecVirtual) {
			VMULPS(x, reciprocal, y)
			VANDPS(m, y, y)
		}
	}
}

// blocks runs body for groups of 32 values. It sums squares of a block in float32, in n times 32
// sums that body gets, and adds them to those in float64.
func (s isa) blocks(sums reg.GPVirtual, n int, body func(i reg.GPVirtual, acc []reg.VecVirtual)) {
	count, i, blockEnd := gp("n"), GP64(), GP64()
	XORQ(i, i)
	Label("block")
	acc := make([]reg.VecVirtual, n*squareLanes/s.lanes)
	for j := range acc {
		acc[j] = s.vec()
		s.zero(acc[j])
	}
	MOVQ(i, blockEnd)
	ADDQ(U32(squareBlock), blockEnd)
	Label("loop")
	body(i, acc)
	ADDQ(Imm(squareLanes), i)
	CMPQ(i, blockEnd)
	JLT(LabelRef("loop"))
	for j, x := range acc {
		for h, v := range s.widened(x) {
			sum := Mem{Base: sums, Disp: (2*j + h) * s.bytes()}
			VADDPD(sum, v, v)
			VMOVUPD(v, sum)
		}
	}
	CMPQ(i, count)
	JLT(LabelRef("block"))
}

// addSquare adds the squares of x, which it destroys, to a sum in float32.
func addSquare(x, sum reg.VecVirtual) {
	VMULPS(x, x, x)
	VADDPS(x, sum, sum)
}

// squaresOver writes the sums of squares of numbers over their divisors √v·root + ε, as
// preconditioned gradients have them.
func squaresOver(s isa) {
	s.text("squaresOver", "func(sums *float64, x, v *float32, root, epsilon float32, n int)",
		"adds the squares of x over its divisors to 32 partial sums, by index mod 32; n is a multiple of 256, not 0.")
	sums, x, v, d := gp("sums"), load("x", 4), load("v", 4), s.divisor()
	s.blocks(sums, 1, func(i reg.GPVirtual, acc []reg.VecVirtual) {
		half := len(acc) / 2
		for u := range half {
			y := s.vec()
			low, high := d.both(v.at(i, s.lanes, u), v.at(i, s.lanes, u+half))
			VMOVUPS(x.at(i, s.lanes, u), y)
			low(y, y)
			addSquare(y, acc[u])
			VMOVUPS(x.at(i, s.lanes, u+half), y)
			high(y, y)
			addSquare(y, acc[u+half])
		}
	})
	end()
}

// addMeasured is for vectors of 16.
func addMeasured(s isa) {
	s.text("addMeasured", "func(sums *float64, dst, x *float32, n int)", "is AddToMeasured with all sums, of 32 partial sums each; n is a multiple of 32, not 0.")
	sums, dst, x := gp("sums"), load("dst", 4), load("x", 4)
	acc := s.partialSums(sums, 3)
	every(squareLanes, func(i reg.GPVirtual) {
		for u := range squareLanes / s.lanes {
			for j, x := range s.added(dst.at(i, s.lanes, u), x.at(i, s.lanes, u)) {
				s.addSquares(x, acc[4*j+2*u], acc[4*j+2*u+1])
			}
		}
	})
	s.storeSums(sums, acc)
	end()
}

// added adds x to dst, and returns dst as it was, x and the sum.
func (s isa) added(dst, x Mem) [3]reg.VecVirtual {
	v := [...]reg.VecVirtual{s.vec(), s.vec(), s.vec()}
	VMOVUPS(dst, v[0])
	VMOVUPS(x, v[1])
	VADDPS(v[1], v[0], v[2])
	VMOVUPS(v[2], dst)
	return v
}

// addMeasuredOver is for vectors of 16.
func addMeasuredOver(s isa) {
	s.text("addMeasuredOver", "func(sums *float64, dst, x, v *float32, root, epsilon float32, n int)",
		"is AddToMeasured with a Precondition and all sums, of 32 partial sums each; n is a multiple of 256, not 0.")
	sums, dst, x, v, d := gp("sums"), load("dst", 4), load("x", 4), load("v", 4), s.divisor()
	s.blocks(sums, 3, func(i reg.GPVirtual, acc []reg.VecVirtual) {
		low, high := d.both(v.at(i, s.lanes, 0), v.at(i, s.lanes, 1))
		for u, by := range []times{low, high} {
			for j, x := range s.added(dst.at(i, s.lanes, u), x.at(i, s.lanes, u)) {
				by(x, x)
				addSquare(x, acc[2*j+u])
			}
		}
	})
	end()
}

// adamMeasured is for vectors of 16.
func adamMeasured(s isa) {
	s.text("adamMeasured", "func(sums *float64, value, grad, x, mean, variance, k *float32, root, epsilon float32, n int)",
		"is AddToMeasured to grad with a Precondition by variance and all sums, and then Adam; n is a multiple of 256, not 0.")
	sums, value, grad, x, mean, variance, d := gp("sums"), load("value", 4), load("grad", 4), load("x", 4), load("mean", 4), load("variance", 4), s.divisor()
	c := s.coefficientsIn(9, adamUses...)
	s.blocks(sums, 3, func(i reg.GPVirtual, acc []reg.VecVirtual) {
		low, high := d.both(variance.at(i, s.lanes, 0), variance.at(i, s.lanes, 1))
		for u, by := range []times{low, high} {
			at := func(array stream) Mem { return array.at(i, s.lanes, u) }
			w := s.vec()
			VMOVUPS(at(value), w)
			squared := s.added(at(grad), at(x))
			c.adam(w, squared[2], at(mean), at(variance))
			VMOVUPS(w, at(value))
			for j, x := range squared {
				by(x, x)
				addSquare(x, acc[2*j+u])
			}
		}
	})
	end()
}
