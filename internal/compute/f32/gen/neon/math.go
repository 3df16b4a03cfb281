package main

import (
	"fmt"
	"math"
)

func init() {
	sets["math"] = func() {
		f := formulas{}
		f.exponentials()
		f.unary("gelu", "sets dst = x·Φ(x).", f.gelu)
		f.unary("geluTanh", "sets dst = ½x(1+tanh(√(2/π)(x+0.044715x³))).", f.geluTanh)
		f.unary("silu", "sets dst = x·σ(x).", f.silu)
		f.unary("sigmoid", "sets dst = σ(x).", f.sigmoid)
		f.unary("tanh", "sets dst = tanh x.", f.tanh)
		f.unary("relu6", "sets dst = min(max(x, 0), 6), and leaves a NaN.", func(x vec) vec { return f.atMost(f.atLeast(x, 0), 6) })
		f.unary("softplus", "sets dst = log(1+exp(x)).", f.softplus)
		f.leaky()
		f.gradient("geluGrad", "sets dx to dy times the derivative of x·Φ(x).", f.geluGrad)
		f.gradient("geluTanhGrad", "sets dx to dy times the derivative of geluTanh.", f.geluTanhGrad)
		f.gradient("siluGrad", "sets dx to dy times the derivative of x·σ(x).", func(x vec) vec { d, _ := f.siluGrad(x); return d })
		f.gradient("sigmoidGrad", "sets dx = dy·kept·(1−kept).", func(y vec) vec {
			d := f.number(1)
			fsub(d, d, y)
			fmul(d, d, y)
			return d
		})
		f.gradient("tanhGrad", "sets dx = dy·(1−kept²).", func(y vec) vec {
			d := f.number(1)
			fmls(d, y, y)
			return d
		})
		f.gradient("softplusGrad", "sets dx = dy·σ(kept).", f.sigmoid)
		f.leakyGrad()
		f.relu6Grad()
		f.swiglu()
		f.swigluGrad()
		f.numbers()
	}
}

// formulas are the functions that gen/math.go writes for amd64, in the same steps and with the same
// coefficients: see there. Constants lie in memory, four times each.
type formulas struct{}

const constantsName = "mathConstants"

var mathConstants []float32

// numbers writes the constants.
func (formulas) numbers() {
	for i, c := range mathConstants {
		bits := uint64(math.Float32bits(c))
		for half := range 2 {
			constants = append(constants, fmt.Sprintf("DATA %s<>+%d(SB)/8, $0x%x", constantsName, 16*i+8*half, bits|bits<<32))
		}
	}
	constants = append(constants, fmt.Sprintf("GLOBL %s<>(SB), RODATA|NOPTR, $%d", constantsName, 16*len(mathConstants)))
}

// table is where the constants lie, in the function that is being written.
var table gpr

// begin begins a function.
func (formulas) begin(name, signature, doc string) {
	text(name+"NEON", signature, doc)
	table = r()
	g("MOVD $%s<>(SB), %v", constantsName, table)
}

// number is a constant in all lanes.
func (formulas) number(c float32) vec {
	i := 0
	for i < len(mathConstants) && math.Float32bits(mathConstants[i]) != math.Float32bits(c) {
		i++
	}
	if i == len(mathConstants) {
		mathConstants = append(mathConstants, c)
	}
	to := v()
	ldrQ(to, mem{table, 16 * i})
	return to
}

const (
	log2E           = 1.4426950408889634
	ln2High         = 0.693359375
	ln2Low          = math.Ln2 - ln2High
	tailScale       = 2.5
	tailEnd         = 14.5
	expLeast        = -104
	expMost         = 89
	furthest        = 200
	furthestOfCubic = 20
	geluTwice       = 1.5957691216057308
	geluCubic       = geluTwice * 0.044715
)

var (
	expTaylor   = []float32{0.001382013550028205, 0.008368685841560364, 0.04166827350854874, 0.1666652113199234, 0.4999999403953552, 1, 1}
	expm1Taylor = []float32{0.0013870695838704705, 0.00836627185344696, 0.04166743531823158, 0.1666654646396637, 0.4999999701976776, 1}
	log1pTaylor = []float32{-0.0032910797744989395, 0.020088469609618187, -0.0574604868888855, 0.10661371052265167, -0.15344977378845215,
		0.1969212144613266, -0.24958020448684692, 0.33330464363098145, -0.4999993145465851, 1}
	tailTaylor = []float32{-0.009696872904896736, 0.009631440974771976, 0.036188848316669464, -0.048971667885780334, 0.008658898994326591, -0.04237290099263191,
		0.0184128787368536, 0.11726623773574829, 0.0678095892071724, -0.4973561465740204, 0.5}
)

var minusZero = float32(math.Copysign(0, -1))

// plus is x·y + c; it gives x back.
func (f formulas) plus(x, y vec, c float32) vec {
	to := f.number(c)
	fmla(to, x, y)
	give(x)
	return to
}

// by sets x to x·c.
func (f formulas) by(x vec, c float32) {
	k := f.number(c)
	fmul(x, x, k)
	give(k)
}

// less sets x −= c·y.
func (f formulas) less(x, y vec, c float32) {
	k := f.number(c)
	fmls(x, y, k)
	give(k)
}

func (f formulas) polynomial(x vec, coefficients []float32) vec {
	p := f.number(coefficients[0])
	for _, c := range coefficients[1:] {
		p = f.plus(p, x, c)
	}
	return p
}

// atMost is min(x, c) and atLeast max(x, c); a NaN stays.
func (f formulas) atMost(x vec, c float32) vec {
	to := f.number(c)
	fmin(to, x, to)
	return to
}

func (f formulas) atLeast(x vec, c float32) vec {
	to := f.number(c)
	fmax(to, x, to)
	return to
}

// reduced splits x into n·ln 2 + r, n whole, and makes r of x.
func (f formulas) reduced(x vec) (n vec) {
	n = f.number(log2E)
	fmul(n, n, x)
	frintn(n, n)
	f.less(x, n, ln2High)
	f.less(x, n, ln2Low)
	return n
}

// scale sets p to p·2ⁿ by two powers, none of which is subnormal; it gives n back.
func (f formulas) scale(p, n vec) {
	half, one := v(), f.number(1)
	fcvtns(n, n)
	sshr(half, n, 1)
	sub4(n, n, half)
	for _, e := range []vec{n, half} {
		shl(e, e, 23)
		add4(e, e, one)
		fmul(p, p, e)
	}
	give(n, half, one)
}

// expOf is exp(x) for x ≤ expMost; it gives x back.
func (f formulas) expOf(x vec) vec {
	bounded := f.atLeast(x, expLeast)
	give(x)
	n := f.reduced(bounded)
	p := f.polynomial(bounded, expTaylor)
	f.scale(p, n)
	give(bounded)
	return p
}

func (f formulas) exponentials() {
	shifted := func(x stream, u int, shift vec) vec {
		y := v()
		ldrQ(y, x.at(u))
		fsub(y, y, shift)
		z := f.atMost(y, expMost)
		give(y)
		return f.expOf(z)
	}
	sums := func() []vec {
		acc := vs(unroll)
		for _, a := range acc {
			zero(a)
		}
		return acc
	}
	total := func(acc []vec) {
		fadd(acc[0], acc[0], acc[2])
		fadd(acc[1], acc[1], acc[3])
		fadd(acc[0], acc[0], acc[1])
		faddp(acc[0], acc[0], acc[0])
		faddp(acc[0], acc[0], acc[0])
		returnsFloat(acc[0])
		end()
	}
	f.begin("expSum", "func(dst, x *float32, shift float32, n int) float32", "sets dst = exp(x−shift) and returns its sum.")
	dst, x, shift, acc := load("dst", 4), load("x", 4), broadcast("shift"), sums()
	each(func(u int) {
		e := shifted(x, u, shift)
		strQ(e, dst.at(u))
		fadd(acc[u], acc[u], e)
	})
	total(acc)

	f.begin("sumExp", "func(x *float32, shift float32, n int) float32", "is Σ exp(x−shift).")
	x, shift, acc = load("x", 4), broadcast("shift"), sums()
	each(func(u int) { fadd(acc[u], acc[u], shifted(x, u, shift)) })
	total(acc)

	f.begin("scaledExp", "func(dst, x *float32, shift, scale, offset float32, n int)", "sets dst = scale·exp(x−shift) + offset.")
	dst, x, shift = load("dst", 4), load("x", 4), broadcast("shift")
	scale, offset := broadcast("scale"), broadcast("offset")
	each(func(u int) {
		e, to := shifted(x, u, shift), v()
		mov(to, offset)
		fmla(to, e, scale)
		strQ(to, dst.at(u))
	})
	end()
}

func (f formulas) unary(name, doc string, of func(x vec) vec) {
	f.begin(name, "func(dst, x *float32, n int)", doc)
	dst, from := load("dst", 4), load("x", 4)
	each(func(u int) {
		x := v()
		ldrQ(x, from.at(u))
		strQ(of(x), dst.at(u))
	})
	end()
}

func (f formulas) gradient(name, doc string, derivative func(kept vec) vec) {
	f.begin(name, "func(dx, dy, kept *float32, n int)", doc)
	dx, dy, kept := load("dx", 4), load("dy", 4), load("kept", 4)
	each(func(u int) {
		x := v()
		ldrQ(x, kept.at(u))
		d, by := derivative(x), v()
		ldrQ(by, dy.at(u))
		fmul(d, d, by)
		strQ(d, dx.at(u))
	})
	end()
}

// sigmoids is σ(x) and σ(−x); sign has x's sign.
func (f formulas) sigmoids(x, sign vec) (up, down vec) {
	negative := f.number(minusZero)
	orr(negative, negative, x)
	e := f.expOf(negative)
	one, d := f.number(1), v()
	fadd(d, one, e)
	fdiv(d, one, d)
	give(one)
	fmul(e, e, d)
	up, down = v(), v()
	sshr(up, sign, 31)
	mov(down, up)
	bsl(up, e, d)
	bsl(down, d, e)
	give(e, d)
	return up, down
}

func (f formulas) sigmoid(x vec) vec {
	up, _ := f.sigmoids(x, x)
	return up
}

func (f formulas) silu(x vec) vec {
	up, _ := f.sigmoids(x, x)
	fmul(up, up, f.atLeast(x, -furthest))
	return up
}

// siluGrad is the derivative of silu, and σ(x).
func (f formulas) siluGrad(x vec) (d, sigma vec) {
	x = f.atMost(f.atLeast(x, -furthest), furthest)
	up, down := f.sigmoids(x, x)
	down = f.plus(down, x, 1)
	fmul(down, down, up)
	return down, up
}

// cubic is 2√(2/π)·(x+0.044715x³), and x².
func (f formulas) cubic(x vec) (u, square vec) {
	square = v()
	fmul(square, x, x)
	u = f.plus(f.number(geluCubic), square, geluTwice)
	fmul(u, u, x)
	return u, square
}

func (f formulas) geluTanh(x vec) vec {
	u, square := f.cubic(x)
	give(square)
	up, _ := f.sigmoids(u, x)
	fmul(up, up, f.atLeast(x, -furthestOfCubic))
	return up
}

func (f formulas) geluTanhGrad(x vec) vec {
	x = f.atMost(f.atLeast(x, -furthestOfCubic), furthestOfCubic)
	u, square := f.cubic(x)
	up, down := f.sigmoids(u, x)
	slope := f.plus(f.number(3*geluCubic), square, geluTwice)
	fmul(slope, slope, x)
	down = f.plus(down, slope, 1)
	fmul(down, down, up)
	return down
}

// tail is t = |x| up to tailEnd, exp(−t²/2) and 1−Φ(t).
func (f formulas) tail(x vec) (t, e, tail vec) {
	size := v()
	fabs(size, x)
	t = f.atMost(size, tailEnd)
	give(size)
	h, low := v(), v()
	fmul(h, t, t)
	fneg(low, h)
	fmla(low, t, t) // t² − h
	f.by(h, -0.5)
	n := f.reduced(h)
	f.less(h, low, 0.5)
	give(low)
	e = f.polynomial(h, expTaylor)
	give(h)
	f.scale(e, n)
	k, z, one := f.number(tailScale), v(), f.number(1)
	fadd(z, k, t)
	fdiv(z, one, z)
	give(one)
	fmul(k, k, z)
	fmul(z, z, t)
	tail = f.polynomial(z, tailTaylor)
	fmul(tail, tail, k)
	fmul(tail, tail, e)
	give(k, z)
	return t, e, tail
}

func (f formulas) gelu(x vec) vec {
	t, _, tail := f.tail(x)
	y := f.atLeast(x, 0)
	fmls(y, tail, t)
	return y
}

func (f formulas) geluGrad(x vec) vec {
	t, e, d := f.tail(x)
	fmul(e, e, t)
	f.less(d, e, 0.3989422804014327)
	up, mask := f.number(1), v()
	fsub(up, up, d)
	sshr(mask, x, 31)
	bsl(mask, d, up)
	return mask
}

func (f formulas) tanh(x vec) vec {
	size := v()
	fabs(size, x)
	a := f.atMost(size, 10)
	give(size)
	f.by(a, -2)
	n := f.reduced(a)
	q := f.polynomial(a, expm1Taylor)
	fmul(q, q, a)
	power, one := f.number(1), f.number(1)
	f.scale(power, n)
	m := v()
	fsub(m, power, one)
	fmla(m, q, power)
	d := f.number(-2)
	fsub(d, d, m)
	fdiv(m, m, d)
	fabs(m, m)
	sign := f.number(minusZero)
	bsl(sign, x, m)
	return sign
}

func (f formulas) softplus(x vec) vec {
	negative := f.number(minusZero)
	orr(negative, negative, x)
	e := f.expOf(negative)
	l := f.polynomial(e, log1pTaylor)
	y := f.atLeast(x, 0)
	fmla(y, l, e)
	return y
}

func (f formulas) leaky() {
	f.begin("leakyReLU", "func(dst, x *float32, slope float32, n int)", "sets dst to x where x > 0, else to slope·x.")
	dst, from, slope := load("dst", 4), load("x", 4), broadcast("slope")
	each(func(u int) {
		x := v()
		ldrQ(x, from.at(u))
		y := f.atLeast(x, 0)
		fmla(y, f.atMost(x, 0), slope)
		strQ(y, dst.at(u))
	})
	end()
}

// within leaves in d the lanes of mask, takes from other the others, and makes those NaNs where y
// or d is one.
func (formulas) within(d, other, y, mask vec) {
	number, more := v(), v()
	fcmeq(number, d, d)
	fcmeq(more, y, y)
	and(number, number, more)
	bif(d, other, mask)
	orn(d, d, number)
}

func (f formulas) leakyGrad() {
	f.begin("leakyReLUGrad", "func(dx, dy, kept *float32, slope float32, n int)", "sets dx to dy where kept > 0, else to slope·dy.")
	dx, dy, kept, slope := load("dx", 4), load("dy", 4), load("kept", 4), broadcast("slope")
	each(func(u int) {
		d, y, low, mask := v(), v(), v(), v()
		ldrQ(d, dy.at(u))
		ldrQ(y, kept.at(u))
		fmul(low, d, slope)
		above0(mask, y)
		f.within(d, low, y, mask)
		strQ(d, dx.at(u))
	})
	end()
}

func (f formulas) relu6Grad() {
	f.begin("relu6Grad", "func(dx, dy, kept *float32, n int)", "sets dx to dy where 0 < kept < 6, else to 0.")
	dx, dy, kept := load("dx", 4), load("dy", 4), load("kept", 4)
	each(func(u int) {
		d, y, low, mask := v(), v(), v(), v()
		ldrQ(d, dy.at(u))
		ldrQ(y, kept.at(u))
		zero(low)
		rest := f.number(6)
		fsub(rest, rest, y)
		fmin(rest, rest, y)
		above0(mask, rest)
		f.within(d, low, y, mask)
		strQ(d, dx.at(u))
	})
	end()
}

func (f formulas) swiglu() {
	f.begin("swiglu", "func(dst, gate, up *float32, n int)", "sets dst = gate·σ(gate)·up.")
	dst, gate, up := load("dst", 4), load("gate", 4), load("up", 4)
	each(func(u int) {
		x, by := v(), v()
		ldrQ(x, gate.at(u))
		y := f.silu(x)
		ldrQ(by, up.at(u))
		fmul(y, y, by)
		strQ(y, dst.at(u))
	})
	end()
}

func (f formulas) swigluGrad() {
	f.begin("swigluGrad", "func(dgate, dup, gate, up, dz *float32, n int)", "sets dgate = dz·up·silu′(gate) and dup = dz·silu(gate).")
	dgate, dup, gate, up, dz := load("dgate", 4), load("dup", 4), load("gate", 4), load("up", 4), load("dz", 4)
	each(func(u int) {
		x, z, by := v(), v(), v()
		ldrQ(x, gate.at(u))
		ldrQ(z, dz.at(u))
		ldrQ(by, up.at(u))
		fmul(by, by, z)
		d, sigma := f.siluGrad(x)
		fmul(d, d, by)
		fmul(sigma, sigma, f.atLeast(x, -furthest))
		fmul(sigma, sigma, z)
		strQ(d, dgate.at(u))
		strQ(sigma, dup.at(u))
	})
	end()
}
