package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// squareLanes is the number of partial sums of squares: value i goes to sum i mod squareLanes. With 16 a loop would wait for its sums.
const squareLanes = 32

func squareSums() {
	for _, s := range []isa{avx512, avx2} {
		squaresPlain(s)
		squaresOver(s)
	}
	addMeasured(avx512, false) // AVX2 has too few registers
	addMeasured(avx512, true)
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

func (s isa) storeSums(sums reg.GPVirtual, acc []reg.VecVirtual) {
	for j := range acc {
		VMOVUPD(acc[j], Mem{Base: sums, Disp: j * s.bytes()})
	}
}

// addSquares adds the squares of a vector to two sums. The square of a float32 is exact in float64, so that a fused multiply-add rounds as the sum
// alone does.
func (s isa) addSquares(x, low, high reg.VecVirtual) {
	v := s.vec()
	if s.lanes == 16 {
		VCVTPS2PD(x.AsY(), v)
	} else {
		VCVTPS2PD(x.AsX(), v)
	}
	VFMADD231PD(v, v, low)
	w := s.vec()
	if s.lanes == 16 {
		upper := YMM()
		VEXTRACTF64X4(Imm(1), x, upper)
		VCVTPS2PD(upper, w)
	} else {
		upper := XMM()
		VEXTRACTF128(Imm(1), x, upper)
		VCVTPS2PD(upper, w)
	}
	VFMADD231PD(w, w, high)
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

// A divisor finds 1 / (√v·root + ε) for a vector of v, and multiplies by it; lanes where v is not above 0 become 0.
type divisor struct {
	isa
	root, epsilon, one reg.VecVirtual
}

func (s isa) divisor() divisor {
	return divisor{s, s.broadcast("root"), s.broadcast("epsilon"), s.constant(0x3f800000)}
}

// of returns a function that sets y to x over the divisor of v.
func (d divisor) of(v Mem) func(x, y reg.VecVirtual) {
	m, r := d.vec(), d.vec()
	VMOVUPS(v, m)
	VSQRTPS(m, r)
	VMULPS(d.root, r, r)
	VADDPS(d.epsilon, r, r)
	VDIVPS(r, d.one, r)
	zero := d.vec()
	d.zero(zero)
	if d.lanes == 16 {
		k := K()
		VCMPPS(Imm(0x1e), zero, m, k) // v > 0
		return func(x, y reg.VecVirtual) { VMULPS_Z(x, r, k, y) }
	}
	VCMPPS(Imm(0x1e), zero, m, m)
	return func(x, y reg.VecVirtual) {
		VMULPS(x, r, y)
		VANDPS(m, y, y)
	}
}

func squaresOver(s isa) {
	s.text("squaresOver", "func(sums *float64, x, v *float32, root, epsilon float32, n int)",
		"adds the squares of x over its divisors to 32 partial sums, by index mod 32; n is a multiple of 32, not 0.")
	sums, x, v, d := gp("sums"), load("x", 4), load("v", 4), s.divisor()
	acc := s.partialSums(sums, 1)
	every(squareLanes, func(i reg.GPVirtual) {
		for u := range len(acc) / 2 {
			y := s.vec()
			VMOVUPS(x.at(i, s.lanes, u), y)
			d.of(v.at(i, s.lanes, u))(y, y)
			s.addSquares(y, acc[2*u], acc[2*u+1])
		}
	})
	s.storeSums(sums, acc)
	end()
}

// addMeasured is for vectors of 16.
func addMeasured(s isa, over bool) {
	name, signature := "addMeasured", "func(sums *float64, dst, x *float32, n int)"
	if over {
		name, signature = "addMeasuredOver", "func(sums *float64, dst, x, v *float32, root, epsilon float32, n int)"
	}
	s.text(name, signature, "is AddToMeasured with all sums, of 32 partial sums each; n is a multiple of 32, not 0.")
	sums, dst, x := gp("sums"), load("dst", 4), load("x", 4)
	var v stream
	var d divisor
	if over {
		v, d = load("v", 4), s.divisor()
	}
	acc := s.partialSums(sums, 3)
	every(squareLanes, func(i reg.GPVirtual) {
		for u := range squareLanes / s.lanes {
			values := []reg.VecVirtual{s.vec(), s.vec(), s.vec()}
			VMOVUPS(dst.at(i, s.lanes, u), values[0])
			VMOVUPS(x.at(i, s.lanes, u), values[1])
			VADDPS(values[1], values[0], values[2])
			VMOVUPS(values[2], dst.at(i, s.lanes, u))
			if over {
				by := d.of(v.at(i, s.lanes, u))
				for _, x := range values {
					by(x, x)
				}
			}
			for j, x := range values {
				s.addSquares(x, acc[4*j+2*u], acc[4*j+2*u+1])
			}
		}
	})
	s.storeSums(sums, acc)
	end()
}
