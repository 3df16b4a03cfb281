package main

import "math"

func init() {
	sets["columns"] = func() {
		maxColumns()
		expColumns(false)
		expColumns(true)
		scaleColumns()
	}
}

var (
	frintm = two("frintm", 0x4e219800, "4s", "4s", "") // down to a whole number
	fcvtms = two("fcvtms", 0x4e21b800, "4s", "4s", "") // the same, as an integer
)

// powers are the coefficients of 2^r for 0 ≤ r < 1, from the sixth power down: those of exp2 in
// columns_portable.go of package f32.
var powers = []float32{0x1.c54174p-13, 0x1.46d64ep-10, 0x1.3d0b92p-7, 0x1.c68912p-5, 0x1.ebfd58p-3, 0x1.62e42cp-1, 1}

// A power computes 2^x in vectors.
type power struct {
	at          []vec
	least, most vec
}

func newPower() *power {
	p := &power{}
	for _, c := range powers {
		p.at = append(p.at, constant(math.Float32bits(c)))
	}
	p.least, p.most = constant(math.Float32bits(-126)), constant(math.Float32bits(127))
	return p
}

// of sets x to 2^x, 0 below 2^−126; a NaN stays.
func (p *power) of(x vec) {
	low, whole, y, t := v(), v(), v(), v()
	fcmgt(low, p.least, x)
	fmax(x, x, p.least)
	fmin(x, x, p.most)
	frintm(t, x)
	fcvtms(whole, x)
	fsub(x, x, t)
	mov(y, p.at[0])
	for _, c := range p.at[1:] {
		mov(t, c)
		fmla(t, y, x)
		y, t = t, y
	}
	shl(whole, whole, 23)
	add4(y, y, whole)
	bic(x, y, low)
}

func maxColumns() {
	text("maxColumnsNEON", "func(most, x *float32, scale float32, n, rows, stride int)", "is MaxColumns for n columns, a multiple of 4, stride in bytes.")
	most, x, scale, count, stride := load("most", 4), load("x", 4), broadcast("scale"), arg("rows"), arg("stride")
	columns(4, func(name string, vectors int) {
		h := held([]stream{most}, vectors)
		rows(name, count, stride, []stream{x}, func(row []stream) {
			for u := range vectors {
				scope(func() {
					y := v()
					ldrQ(y, row[0].at(u))
					fmul(y, y, scale)
					fmax(h[0][u], h[0][u], y)
				})
			}
		})
		put(most, h[0])
	})
	end()
}

// expColumns writes ExpColumns, or ExpColumnsGrad if grad.
func expColumns(grad bool) {
	if grad {
		text("expColumnsGradNEON", "func(x, dx, shift, delta *float32, scale float32, n, rows, stride int)", "is ExpColumnsGrad for n columns, a multiple of 4, stride in bytes.")
	} else {
		text("expColumnsNEON", "func(x, sum, shift *float32, scale float32, n, rows, stride int)", "is ExpColumns for n columns, a multiple of 4, stride in bytes.")
	}
	x, shift := load("x", 4), load("shift", 4)
	arrays, over := []stream{x}, []stream{shift}
	if grad {
		arrays, over = append(arrays, load("dx", 4)), append(over, load("delta", 4))
	} else {
		over = append(over, load("sum", 4))
	}
	scale, count, stride := broadcast("scale"), arg("rows"), arg("stride")
	exp2 := newPower()
	columns(2, func(name string, vectors int) {
		h := held(over, vectors)
		rows(name, count, stride, arrays, func(row []stream) {
			for u := range vectors {
				scope(func() {
					y := v()
					ldrQ(y, row[0].at(u))
					fmul(y, y, scale)
					fsub(y, y, h[0][u])
					exp2.of(y)
					strQ(y, row[0].at(u))
					if !grad {
						fadd(h[1][u], h[1][u], y)
						return
					}
					d := v()
					ldrQ(d, row[1].at(u))
					fsub(d, d, h[1][u])
					fmul(d, d, y)
					strQ(d, row[1].at(u))
				})
			}
		})
		if !grad {
			put(over[1], h[1])
		}
	})
	end()
}

func scaleColumns() {
	text("scaleColumnsNEON", "func(x, by *float32, n, rows, stride int)", "is ScaleColumns for n columns, a multiple of 4, stride in bytes.")
	x, by, count, stride := load("x", 4), load("by", 4), arg("rows"), arg("stride")
	columns(4, func(name string, vectors int) {
		h := held([]stream{by}, vectors)
		rows(name, count, stride, []stream{x}, func(row []stream) {
			for u := range vectors {
				scope(func() {
					y := v()
					ldrQ(y, row[0].at(u))
					fmul(y, y, h[0][u])
					strQ(y, row[0].at(u))
				})
			}
		})
	})
	end()
}
