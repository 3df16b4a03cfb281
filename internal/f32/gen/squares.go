package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

func squareSums() {
	for _, s := range []isa{avx512, avx2} {
		squaresOver(s)
	}
	addMeasured(avx512, false) // AVX2 has too few registers
	addMeasured(avx512, true)
}

// A divisor finds 1 / (√v·root + ε) for a vector of v, and multiplies by it; lanes where v is not above 0 become 0.
type divisor struct {
	isa
	root, epsilon, one, zero reg.VecVirtual
}

func (s isa) divisor() divisor {
	d := divisor{s, s.broadcast("root"), s.broadcast("epsilon"), s.constant(0x3f800000), s.vec()}
	s.zero(d.zero)
	return d
}

// of returns a function that sets y to x over the divisor of v.
func (d divisor) of(v Mem) func(x, y reg.VecVirtual) {
	m, r := d.vec(), d.vec()
	VMOVUPS(v, m)
	VSQRTPS(m, r)
	VMULPS(d.root, r, r)
	VADDPS(d.epsilon, r, r)
	VDIVPS(r, d.one, r)
	if d.lanes == 16 {
		k := K()
		VCMPPS(Imm(0x1e), d.zero, m, k) // v > 0
		return func(x, y reg.VecVirtual) { VMULPS_Z(x, r, k, y) }
	}
	VCMPPS(Imm(0x1e), d.zero, m, m)
	return func(x, y reg.VecVirtual) {
		VMULPS(x, r, y)
		VANDPS(m, y, y)
	}
}

func squaresOver(s isa) {
	s.text("squaresOver", "func(sums *float64, x, v *float32, root, epsilon float32, n int)",
		"adds the squares of x over its divisors to 16 partial sums, by index mod 16; n is a multiple of 16, not 0.")
	x, v, d := load("x", 4), load("v", 4), s.divisor()
	s.squaresInto(gp("sums"), func(i reg.GPVirtual, u int) reg.VecVirtual {
		y := s.vec()
		VMOVUPS(x.at(i, s.lanes, u), y)
		d.of(v.at(i, s.lanes, u))(y, y)
		return y
	})
}

// addMeasured is for vectors of 16.
func addMeasured(s isa, over bool) {
	name, signature := "addMeasured", "func(sums *float64, dst, x *float32, n int)"
	if over {
		name, signature = "addMeasuredOver", "func(sums *float64, dst, x, v *float32, root, epsilon float32, n int)"
	}
	s.text(name, signature, "is AddToMeasured with all sums, of 16 partial sums each; n is a multiple of 16, not 0.")
	sums, dst, x := gp("sums"), load("dst", 4), load("x", 4)
	var v stream
	var d divisor
	if over {
		v, d = load("v", 4), s.divisor()
	}
	acc := make([]reg.VecVirtual, 6)
	for j := range acc {
		acc[j] = s.vec()
		VMOVUPD(Mem{Base: sums, Disp: j * s.bytes()}, acc[j])
	}
	every(16, func(i reg.GPVirtual) {
		values := []reg.VecVirtual{s.vec(), s.vec(), s.vec()}
		VMOVUPS(dst.at(i, 16, 0), values[0])
		VMOVUPS(x.at(i, 16, 0), values[1])
		VADDPS(values[1], values[0], values[2])
		VMOVUPS(values[2], dst.at(i, 16, 0))
		if over {
			by := d.of(v.at(i, 16, 0))
			for _, x := range values {
				by(x, x)
			}
		}
		for j, x := range values {
			low, high, upper := s.vec(), s.vec(), YMM()
			VEXTRACTF64X4(Imm(1), x, upper)
			VCVTPS2PD(x.AsY(), low)
			VCVTPS2PD(upper, high)
			VFMADD231PD(low, low, acc[2*j])
			VFMADD231PD(high, high, acc[2*j+1])
		}
	})
	for j := range acc {
		VMOVUPD(acc[j], Mem{Base: sums, Disp: j * s.bytes()})
	}
	end()
}
