package main

import (
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// powers are the coefficients of 2^r for 0 ≤ r < 1, from the sixth power down: those of exp2 in
// columns_portable.go of package f32.
var powers = []float32{0x1.c54174p-13, 0x1.46d64ep-10, 0x1.3d0b92p-7, 0x1.c68912p-5, 0x1.ebfd58p-3, 0x1.62e42cp-1, 1}

// columns writes what attention does to its scores: rows of two vectors, a column for each query.
func columns() {
	for _, s := range []isa{avx512, avx2} {
		table := s.table("exponents"+s.name, append(append([]float32(nil), powers...), -126, 127)...)
		maxColumns(s)
		expColumns(s, table)
		expColumnsGrad(s, table)
		scaleColumns(s)
	}
}

// table puts numbers into memory, a vector of each.
func (s isa) table(name string, numbers ...float32) func(i int) Mem {
	m := GLOBL(name, RODATA|NOPTR)
	for i, x := range numbers {
		for lane := range s.lanes {
			DATA(i*s.bytes()+4*lane, U32(math.Float32bits(x)))
		}
	}
	return func(i int) Mem { return m.Offset(i * s.bytes()) }
}

// columnRows loops over rows rows, pair by pair and then one: body gets the row's number after the
// pointers, which are moved on by it.
func (s isa) columnRows(body func(row int), pointers ...reg.GPVirtual) {
	rows := Load(Param("rows"), GP64())
	loop := func(label string, n int) {
		JMP(LabelRef("test" + label))
		Label("loop" + label)
		for row := range n {
			body(row)
		}
		for _, p := range pointers {
			ADDQ(U32(uint32(n*2*s.bytes())), p)
		}
		SUBQ(Imm(uint64(n)), rows)
		Label("test" + label)
		CMPQ(rows, Imm(uint64(n)))
		JGE(LabelRef("loop" + label))
	}
	if s.lanes == 16 {
		loop("2", 2)
	}
	loop("1", 1)
}

// two are the vectors of a row of which p points to the first.
func (s isa) two(p reg.GPVirtual) [2]reg.VecVirtual {
	var v [2]reg.VecVirtual
	for i := range v {
		v[i] = s.vec()
		VMOVUPS(Mem{Base: p, Disp: i * s.bytes()}, v[i])
	}
	return v
}

func (s isa) part(p reg.GPVirtual, row, i int) Mem {
	return Mem{Base: p, Disp: (2*row + i) * s.bytes()}
}

func maxColumns(s isa) {
	s.text("maxColumns", "func(most, x *float32, scale float32, rows int)", "is MaxColumns for two vectors.")
	most, x := gp("most"), gp("x")
	scale := s.broadcast("scale")
	m := s.two(most)
	s.columnRows(func(row int) {
		for i := range m {
			v := s.vec()
			VMULPS(s.part(x, row, i), scale, v)
			VMAXPS(v, m[i], m[i])
		}
	}, x)
	for i := range m {
		VMOVUPS(m[i], s.part(most, 0, i))
	}
	end()
}

// A power computes 2^x in vectors.
type power struct {
	s isa
	// at are the coefficients, least the smallest exponent and most the largest.
	at          []Op
	least, most Op
}

// newPower keeps the table in registers where there are 32.
func newPower(s isa, table func(i int) Mem) *power {
	p := &power{s: s}
	for i := range len(powers) + 2 {
		var op Op = table(i)
		if s.lanes == 16 {
			v := s.vec()
			VMOVUPS(table(i), v)
			op = v
		}
		p.at = append(p.at, op)
	}
	p.least, p.most, p.at = p.at[len(powers)], p.at[len(powers)+1], p.at[:len(powers)]
	return p
}

// of sets y to 2^x, 0 below 2^−126; a NaN stays. x is changed.
func (p *power) of(x reg.VecVirtual) (y reg.VecVirtual) {
	if p.s.lanes == 16 {
		// The fraction of an infinite number is 0.
		r, y, k := p.s.vec(), p.s.vec(), K()
		VCMPPS(Imm(0x15), p.least, x, k) // not less
		VREDUCEPS(Imm(1), x, r)
		VMOVAPS(p.at[0].(reg.VecVirtual), y)
		for _, c := range p.at[1:] {
			VFMADD213PS(c, r, y)
		}
		VSCALEFPS_Z(x, y, k, y)
		return y
	}
	// The whole part of x goes to the exponent.
	whole, y, keep := p.s.vec(), p.s.vec(), p.s.vec()
	VCMPPS(Imm(0x15), p.least, x, keep)
	VMOVUPS(p.least, y)
	VMAXPS(x, y, x) // of a NaN it is x
	VMOVUPS(p.most, y)
	VMINPS(x, y, x)
	VROUNDPS(Imm(1), x, whole)
	VSUBPS(whole, x, x)
	VCVTPS2DQ(whole, whole)
	VPSLLD(Imm(23), whole, whole)
	VMOVUPS(p.at[0], y)
	for _, c := range p.at[1:] {
		VFMADD213PS(c, x, y)
	}
	VPADDD(whole, y, y)
	VANDPS(keep, y, y)
	return y
}

func expColumns(s isa, table func(i int) Mem) {
	s.text("expColumns", "func(x, sum, shift *float32, scale float32, rows int)", "is ExpColumns for two vectors.")
	x, sums := gp("x"), gp("sum")
	shift := s.two(gp("shift"))
	sum := s.two(sums)
	scale := s.broadcast("scale")
	exp2 := newPower(s, table)
	s.columnRows(func(row int) {
		for i := range sum {
			v := s.vec()
			VMOVUPS(s.part(x, row, i), v)
			VFMSUB213PS(shift[i], scale, v)
			v = exp2.of(v)
			VMOVUPS(v, s.part(x, row, i))
			VADDPS(v, sum[i], sum[i])
		}
	}, x)
	for i := range sum {
		VMOVUPS(sum[i], s.part(sums, 0, i))
	}
	end()
}

func expColumnsGrad(s isa, table func(i int) Mem) {
	s.text("expColumnsGrad", "func(x, dx, shift, delta *float32, scale float32, rows int)", "is ExpColumnsGrad for two vectors.")
	x, dx := gp("x"), gp("dx")
	shift, delta := s.two(gp("shift")), s.two(gp("delta"))
	scale := s.broadcast("scale")
	exp2 := newPower(s, table)
	s.columnRows(func(row int) {
		for i := range shift {
			v, d := s.vec(), s.vec()
			VMOVUPS(s.part(x, row, i), v)
			VFMSUB213PS(shift[i], scale, v)
			v = exp2.of(v)
			VMOVUPS(v, s.part(x, row, i))
			VMOVUPS(s.part(dx, row, i), d)
			VSUBPS(delta[i], d, d)
			VMULPS(v, d, d)
			VMOVUPS(d, s.part(dx, row, i))
		}
	}, x, dx)
	end()
}

func scaleColumns(s isa) {
	s.text("scaleColumns", "func(x, by *float32, rows int)", "is ScaleColumns for two vectors.")
	x := gp("x")
	by := s.two(gp("by"))
	s.columnRows(func(row int) {
		for i := range by {
			v := s.vec()
			VMULPS(s.part(x, row, i), by[i], v)
			VMOVUPS(v, s.part(x, row, i))
		}
	}, x)
	end()
}
