package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// rowNorms writes the passes over one row of a normalisation, for both instruction sets.
func rowNorms() {
	for _, s := range []isa{avx512, avx2} {
		rowMoments(s)
		for _, bias := range []bool{true, false} {
			normRow(s, bias)
			normRowSums(s, bias)
			normRowGrad(s, !bias)
		}
	}
}

// accumulators are unroll cleared vectors.
func (s isa) accumulators() []reg.VecVirtual {
	acc := make([]reg.VecVirtual, unroll)
	for i := range acc {
		acc[i] = s.vec()
		s.zero(acc[i])
	}
	return acc
}

// rowMoments writes the sums of numbers less a center, and of their squares.
func rowMoments(s isa) {
	s.text("rowMoments", "func(x *float32, center float32, n int) (sum, squares float32)", "is RowMoments; n is a multiple of the vector.")
	x, center, sum, squares := load("x", 4), s.broadcast("center"), s.accumulators(), s.accumulators()
	s.each(func(i reg.GPVirtual, u int) {
		v := s.vec()
		VMOVUPS(x.at(i, s.lanes, u), v)
		VSUBPS(center, v, v)
		VADDPS(v, sum[u], sum[u])
		VFMADD231PS(v, v, squares[u])
	})
	s.sumTo(sum, 0)
	s.sumTo(squares, 1)
	end()
}

// sumTo makes the sum of accumulators result number i.
func (s isa) sumTo(acc []reg.VecVirtual, i int) {
	Store(s.reduce(acc, func(a, b, d Op) { VADDPS(a, b, d) }), ReturnIndex(i))
}

// normalised loads x̂ = (x − mean)·rstd.
func (s isa) normalised(x Mem, mean, rstd reg.VecVirtual) reg.VecVirtual {
	v := s.vec()
	VMOVUPS(x, v)
	VSUBPS(mean, v, v)
	VMULPS(rstd, v, v)
	return v
}

// normRow writes y = x̂·w + b.
func normRow(s isa, bias bool) {
	name, params := "normRowScaled", "func(y, x, w *float32, mean, rstd float32, n int)"
	if bias {
		name, params = "normRow", "func(y, x, w, b *float32, mean, rstd float32, n int)"
	}
	s.text(name, params, "is NormRow; n is a multiple of the vector.")
	y, x, w := load("y", 4), load("x", 4), load("w", 4)
	var b stream
	if bias {
		b = load("b", 4)
	}
	mean, rstd := s.broadcast("mean"), s.broadcast("rstd")
	s.each(func(i reg.GPVirtual, u int) {
		v := s.normalised(x.at(i, s.lanes, u), mean, rstd)
		if bias {
			f := s.vec()
			VMOVUPS(w.at(i, s.lanes, u), f)
			VFMADD213PS(b.at(i, s.lanes, u), f, v)
		} else {
			VMULPS(w.at(i, s.lanes, u), v, v)
		}
		VMOVUPS(v, y.at(i, s.lanes, u))
	})
	end()
}

// normRowSums writes the sums of the backward pass over a row, and adds to dw and db.
func normRowSums(s isa, bias bool) {
	name, params := "normRowSumsScaled", "func(dw, dy, x, w *float32, mean, rstd float32, n int) (sumG, sumGX float32)"
	if bias {
		name, params = "normRowSums", "func(dw, db, dy, x, w *float32, mean, rstd float32, n int) (sumG, sumGX float32)"
	}
	s.text(name, params, "is NormRowSums; n is a multiple of the vector.")
	dw, dy, x, w := load("dw", 4), load("dy", 4), load("x", 4), load("w", 4)
	var db stream
	if bias {
		db = load("db", 4)
	}
	mean, rstd, g, gx := s.broadcast("mean"), s.broadcast("rstd"), s.accumulators()[:2], s.accumulators()[:2]
	s.each(func(i reg.GPVirtual, u int) {
		hat, d, sum := s.normalised(x.at(i, s.lanes, u), mean, rstd), s.vec(), s.vec()
		VMOVUPS(dy.at(i, s.lanes, u), d)
		VMOVUPS(dw.at(i, s.lanes, u), sum)
		VFMADD231PS(hat, d, sum)
		VMOVUPS(sum, dw.at(i, s.lanes, u))
		if bias {
			VADDPS(db.at(i, s.lanes, u), d, sum)
			VMOVUPS(sum, db.at(i, s.lanes, u))
		}
		VMULPS(w.at(i, s.lanes, u), d, d)
		VADDPS(d, g[u%2], g[u%2])
		VFMADD231PS(hat, d, gx[u%2])
	})
	s.sumTo(g, 0)
	s.sumTo(gx, 1)
	end()
}

// normRowGrad writes dx = dy·w·rstd + ((x − mean)·slope + shift), plus add where there is one.
func normRowGrad(s isa, sum bool) {
	name, params := "normRowGrad", "func(dx, dy, x, w *float32, mean, rstd, shift, slope float32, n int)"
	if sum {
		name, params = "normRowGradAdd", "func(dx, dy, x, w, add *float32, mean, rstd, shift, slope float32, n int)"
	}
	s.text(name, params, "is the last pass of NormRowGrad; n is a multiple of the vector.")
	dx, dy, x, w := load("dx", 4), load("dy", 4), load("x", 4), load("w", 4)
	var add stream
	if sum {
		add = load("add", 4)
	}
	mean, rstd, shift, slope := s.broadcast("mean"), s.broadcast("rstd"), s.broadcast("shift"), s.broadcast("slope")
	s.each(func(i reg.GPVirtual, u int) {
		v, d := s.vec(), s.vec()
		VMOVUPS(x.at(i, s.lanes, u), v)
		VSUBPS(mean, v, v)
		VFMADD213PS(shift, slope, v)
		VMOVUPS(dy.at(i, s.lanes, u), d)
		VMULPS(w.at(i, s.lanes, u), d, d)
		VFMADD231PS(rstd, d, v)
		if sum {
			VADDPS(add.at(i, s.lanes, u), v, v)
		}
		VMOVUPS(v, dx.at(i, s.lanes, u))
	})
	end()
}
