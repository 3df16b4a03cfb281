package main

import (
	"math"

	"github.com/mmcloughlin/avo/attr"
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// functions writes exponentials of rows, activations and their gradients. Coefficients are of least
// largest relative error, fitted in float64 to polynomials whose lower coefficients are rounded to
// float32 one after the other. Operands of minima and maxima are in the order that lets a NaN of
// the argument through.
func functions() {
	for _, s := range []isa{avx512, avx2} {
		exponentials(s)
		f := formulas{s}
		f.unary("gelu", "sets dst = x·Φ(x).", f.gelu)
		f.unary("geluTanh", "sets dst = ½x(1+tanh(√(2/π)(x+0.044715x³))).", f.geluTanh)
		f.unary("silu", "sets dst = x·σ(x).", f.silu)
		f.unary("sigmoid", "sets dst = σ(x).", func(x reg.VecVirtual) reg.VecVirtual { up, _ := f.sigmoids(x, x); return up })
		f.unary("tanh", "sets dst = tanh x.", f.tanh)
		f.unary("relu6", "sets dst = min(max(x, 0), 6), and leaves a NaN.", func(x reg.VecVirtual) reg.VecVirtual { return f.keepMin(f.keepMax(x, 0), 6) })
		f.unary("softplus", "sets dst = log(1+exp(x)).", f.softplus)
		f.leaky()
		f.gradient("geluGrad", "sets dx to dy times the derivative of x·Φ(x).", f.geluGrad)
		f.gradient("geluTanhGrad", "sets dx to dy times the derivative of geluTanh.", f.geluTanhGrad)
		f.gradient("siluGrad", "sets dx to dy times the derivative of x·σ(x).", func(x reg.VecVirtual) reg.VecVirtual { d, _ := f.siluGrad(x); return d })
		f.gradient("sigmoidGrad", "sets dx = dy·kept·(1−kept).", func(y reg.VecVirtual) reg.VecVirtual {
			d := f.vec()
			VSUBPS(y, f.number(1), d)
			VMULPS(y, d, d)
			return d
		})
		f.gradient("tanhGrad", "sets dx = dy·(1−kept²).", func(y reg.VecVirtual) reg.VecVirtual {
			d := f.number(1)
			VFNMADD231PS(y, y, d)
			return d
		})
		f.gradient("softplusGrad", "sets dx = dy·σ(kept).", func(x reg.VecVirtual) reg.VecVirtual { up, _ := f.sigmoids(x, x); return up })
		f.leakyGrad()
		f.relu6Grad()
		f.swiglu()
		f.swigluGrad()
	}
	numbers()
}

// constants are the numbers that the functions read from memory, in order.
var constants []float32

const constantsName = "mathConstants"

// numbers writes the constants.
func numbers() {
	GLOBL(constantsName, attr.RODATA|attr.NOPTR)
	for i, v := range constants {
		DATA(4*i, U32(math.Float32bits(v)))
	}
}

// spot is where a constant lies.
func spot(v float32) Mem {
	i := 0
	for i < len(constants) && math.Float32bits(constants[i]) != math.Float32bits(v) {
		i++
	}
	if i == len(constants) {
		constants = append(constants, v)
	}
	return NewDataAddr(Symbol{Name: constantsName, Static: true}, 4*i)
}

// number is a vector of a constant.
func (s isa) number(v float32) reg.VecVirtual {
	x := s.vec()
	VBROADCASTSS(spot(v), x)
	return x
}

// ln2 in two parts, and its reciprocal.
const (
	log2E   = 1.4426950408889634
	ln2High = 0.693359375
	ln2Low  = math.Ln2 - ln2High
)

// expTaylor approximates exp for |r| ≤ ½ln 2, highest power first; its relative error is 3e-9.
var expTaylor = []float32{0.001382013550028205, 0.008368685841560364, 0.04166827350854874, 0.1666652113199234, 0.4999999403953552, 1, 1}

// expm1Taylor approximates (exp(r)−1)/r for |r| ≤ ½ln 2; its relative error is 1.4e-8.
var expm1Taylor = []float32{0.0013870695838704705, 0.00836627185344696, 0.04166743531823158, 0.1666654646396637, 0.4999999701976776, 1}

// log1pTaylor approximates log(1+x)/x for 0 ≤ x ≤ 1; its relative error is 5e-9.
var log1pTaylor = []float32{-0.0032910797744989395, 0.020088469609618187, -0.0574604868888855, 0.10661371052265167, -0.15344977378845215,
	0.1969212144613266, -0.24958020448684692, 0.33330464363098145, -0.4999993145465851, 1}

// tailTaylor approximates (1−Φ(t))·exp(t²/2)/k in powers of z, z = t/(t+tailScale) and k = 1−z, for
// 0 ≤ t ≤ tailEnd; its relative error is 6e-9. Near t = 0 an error of z counts little.
var tailTaylor = []float32{-0.009696872904896736, 0.009631440974771976, 0.036188848316669464, -0.048971667885780334, 0.008658898994326591, -0.04237290099263191,
	0.0184128787368536, 0.11726623773574829, 0.0678095892071724, -0.4973561465740204, 0.5}

const (
	tailScale = 2.5
	// Beyond tailEnd a float32 1−Φ is 0.
	tailEnd = 14.5
	// Beyond expLeast the exponential is 0, and beyond expMost it is infinite.
	expLeast, expMost = -104, 89
)

// fmaNumber sets x = x·y + v.
func (s isa) fmaNumber(v float32, y, x reg.VecVirtual) {
	if s.lanes == 16 {
		VFMADD213PS_BCST(spot(v), y, x)
	} else {
		VFMADD213PS(s.number(v), y, x)
	}
}

// mulNumber sets y = x·v.
func (s isa) mulNumber(v float32, x, y reg.VecVirtual) {
	if s.lanes == 16 {
		VMULPS_BCST(spot(v), x, y)
	} else {
		VMULPS(s.number(v), x, y)
	}
}

// lessProduct sets x −= v·y.
func (s isa) lessProduct(v float32, y, x reg.VecVirtual) {
	if s.lanes == 16 {
		VFNMADD231PS_BCST(spot(v), y, x)
	} else {
		VFNMADD231PS(s.number(v), y, x)
	}
}

// polynomial is that of x with coefficients, the highest power's first.
func (s isa) polynomial(x reg.VecVirtual, coefficients []float32) reg.VecVirtual {
	p := s.number(coefficients[0])
	for _, c := range coefficients[1:] {
		s.fmaNumber(c, x, p)
	}
	return p
}

// keepMin is min(x, v), and keepMax is max(x, v), with x's NaNs.
func (s isa) keepMin(x reg.VecVirtual, v float32) reg.VecVirtual {
	y := s.number(v)
	VMINPS(x, y, y)
	return y
}

func (s isa) keepMax(x reg.VecVirtual, v float32) reg.VecVirtual {
	y := s.number(v)
	VMAXPS(x, y, y)
	return y
}

// reduced splits x into n·ln 2 + r, n whole, and makes r of x.
func (s isa) reduced(x reg.VecVirtual) (n reg.VecVirtual) {
	n = s.vec()
	s.mulNumber(log2E, x, n)
	s.round(n)
	s.lessProduct(ln2High, n, x)
	s.lessProduct(ln2Low, n, x)
	return n
}

// round rounds to whole numbers.
func (s isa) round(x reg.VecVirtual) {
	if s.lanes == 16 {
		VRNDSCALEPS(Imm(8), x, x)
	} else {
		VROUNDPS(Imm(8), x, x)
	}
}

// scale sets p to p·2ⁿ, rounded once. AVX2 takes two powers, none of which is subnormal.
func (s isa) scale(p, n reg.VecVirtual) {
	if s.lanes == 16 {
		VSCALEFPS(n, p, p)
		return
	}
	whole, half, one := s.vec(), s.vec(), s.number(1)
	VCVTPS2DQ(n, whole)
	VPSRAD(Imm(1), whole, half)
	VPSUBD(half, whole, whole)
	for _, e := range []reg.VecVirtual{whole, half} {
		VPSLLD(Imm(23), e, e)
		VPADDD(one, e, e)
		VMULPS(e, p, p)
	}
}

// expOf is exp(x) for x ≤ expMost; it destroys x.
func (s isa) expOf(x reg.VecVirtual) reg.VecVirtual {
	x = s.keepMax(x, expLeast)
	n := s.reduced(x)
	p := s.polynomial(x, expTaylor)
	s.scale(p, n)
	return p
}

// exponentials writes passes over rows, as softmax and attention take them.
func exponentials(s isa) {
	accs := func() []reg.VecVirtual {
		acc := make([]reg.VecVirtual, unroll)
		for i := range acc {
			acc[i] = s.vec()
			s.zero(acc[i])
		}
		return acc
	}
	add := func(a, b, d Op) { VADDPS(a, b, d) }
	shifted := func(x stream, i reg.GPVirtual, u int, shift reg.VecVirtual) reg.VecVirtual {
		v := s.vec()
		VMOVUPS(x.at(i, s.lanes, u), v)
		VSUBPS(shift, v, v)
		return s.expOf(s.keepMin(v, expMost))
	}
	s.text("expSum", "func(dst, x *float32, shift float32, n int) float32", "sets dst = exp(x−shift) and returns its sum.")
	dst, x, shift, acc := load("dst", 4), load("x", 4), s.broadcast("shift"), accs()
	s.each(func(i reg.GPVirtual, u int) {
		e := shifted(x, i, u, shift)
		VMOVUPS(e, dst.at(i, s.lanes, u))
		VADDPS(e, acc[u], acc[u])
	})
	s.reduceTo(acc, add)
	end()

	s.text("sumExp", "func(x *float32, shift float32, n int) float32", "is Σ exp(x−shift).")
	x, shift, acc = load("x", 4), s.broadcast("shift"), accs()
	s.each(func(i reg.GPVirtual, u int) { VADDPS(shifted(x, i, u, shift), acc[u], acc[u]) })
	s.reduceTo(acc, add)
	end()

	s.text("scaledExp", "func(dst, x *float32, shift, scale, offset float32, n int)", "sets dst = scale·exp(x−shift) + offset.")
	dst, x, shift = load("dst", 4), load("x", 4), s.broadcast("shift")
	scale, offset := s.broadcast("scale"), s.broadcast("offset")
	s.each(func(i reg.GPVirtual, u int) {
		e := shifted(x, i, u, shift)
		VFMADD213PS(offset, scale, e)
		VMOVUPS(e, dst.at(i, s.lanes, u))
	})
	end()
}

// formulas are the activations.
type formulas struct{ isa }

// walk runs body for each vector of n values, a multiple of the lanes and not 0.
func (s isa) walk(body func(i reg.GPVirtual)) { every(s.lanes, body) }

func (f formulas) unary(name, doc string, of func(x reg.VecVirtual) reg.VecVirtual) {
	f.text(name, "func(dst, x *float32, n int)", doc)
	dst, from := load("dst", 4), load("x", 4)
	f.walk(func(i reg.GPVirtual) {
		x := f.vec()
		VMOVUPS(from.at(i, f.lanes, 0), x)
		VMOVUPS(of(x), dst.at(i, f.lanes, 0))
	})
	end()
}

func (f formulas) gradient(name, doc string, derivative func(kept reg.VecVirtual) reg.VecVirtual) {
	f.text(name, "func(dx, dy, kept *float32, n int)", doc)
	dx, dy, kept := load("dx", 4), load("dy", 4), load("kept", 4)
	f.walk(func(i reg.GPVirtual) {
		x := f.vec()
		VMOVUPS(kept.at(i, f.lanes, 0), x)
		d := derivative(x)
		VMULPS(dy.at(i, f.lanes, 0), d, d)
		VMOVUPS(d, dx.at(i, f.lanes, 0))
	})
	end()
}

// absolute is |x|, and negative is −|x|.
func (f formulas) absolute(x reg.VecVirtual) reg.VecVirtual {
	y := f.number(math.Float32frombits(0x7fffffff))
	VANDPS(x, y, y)
	return y
}

func (f formulas) negative(x reg.VecVirtual) reg.VecVirtual {
	y := f.number(float32(math.Copysign(0, -1)))
	VORPS(x, y, y)
	return y
}

// chosen sets y to low where x has the sign of a negative number.
func (f formulas) chosen(x, low, y reg.VecVirtual) {
	if f.lanes == 16 {
		k := K()
		VPMOVD2M(x, k)
		VMOVAPS(low, k, y)
	} else {
		VBLENDVPS(x, low, y, y)
	}
}

// sigmoids is σ(x) and σ(−x); sign has x's sign, and is x or not destroyed.
func (f formulas) sigmoids(x, sign reg.VecVirtual) (up, down reg.VecVirtual) {
	e := f.expOf(f.negative(x))
	one, d := f.number(1), f.vec()
	VADDPS(one, e, d)
	VDIVPS(d, one, d)
	VMULPS(d, e, e)
	up, down = f.vec(), f.vec()
	VMOVAPS(d, up)
	VMOVAPS(e, down)
	f.chosen(sign, e, up)
	f.chosen(sign, d, down)
	return up, down
}

// furthest is where x·σ(x) has its limit, of −0, and nearest that of gelu by tanh.
const (
	furthest        = 200
	furthestOfCubic = 20
)

func (f formulas) silu(x reg.VecVirtual) reg.VecVirtual {
	up, _ := f.sigmoids(x, x)
	VMULPS(f.keepMax(x, -furthest), up, up)
	return up
}

// siluGrad is the derivative of silu, σ(x)·(1+x·σ(−x)), and σ(x).
func (f formulas) siluGrad(x reg.VecVirtual) (d, sigma reg.VecVirtual) {
	x = f.keepMin(f.keepMax(x, -furthest), furthest)
	up, down := f.sigmoids(x, x)
	f.fmaNumber(1, x, down)
	VMULPS(up, down, down)
	return down, up
}

// 2·√(2/π), and that times 0.044715: ½(1+tanh u) is σ(2u).
const (
	geluTwice = 1.5957691216057308
	geluCubic = geluTwice * 0.044715
)

// cubic is 2√(2/π)·(x+0.044715x³), and x².
func (f formulas) cubic(x reg.VecVirtual) (u, square reg.VecVirtual) {
	square, u = f.vec(), f.number(geluCubic)
	VMULPS(x, x, square)
	f.fmaNumber(geluTwice, square, u)
	VMULPS(x, u, u)
	return u, square
}

func (f formulas) geluTanh(x reg.VecVirtual) reg.VecVirtual {
	u, _ := f.cubic(x)
	up, _ := f.sigmoids(u, x)
	VMULPS(f.keepMax(x, -furthestOfCubic), up, up)
	return up
}

func (f formulas) geluTanhGrad(x reg.VecVirtual) reg.VecVirtual {
	x = f.keepMin(f.keepMax(x, -furthestOfCubic), furthestOfCubic)
	u, square := f.cubic(x)
	up, down := f.sigmoids(u, x)
	slope := f.number(3 * geluCubic)
	f.fmaNumber(geluTwice, square, slope)
	VMULPS(x, slope, slope)
	f.fmaNumber(1, slope, down)
	VMULPS(up, down, down)
	return down
}

// tail is t = |x| up to tailEnd, exp(−t²/2) and 1−Φ(t). The exponential gets what t² is rounded by.
func (f formulas) tail(x reg.VecVirtual) (t, e, tail reg.VecVirtual) {
	t = f.keepMin(f.absolute(x), tailEnd)
	h, low := f.vec(), f.vec()
	VMULPS(t, t, h)
	VMOVAPS(h, low)
	VFMSUB231PS(t, t, low) // t² − h
	f.mulNumber(-0.5, h, h)
	n := f.reduced(h)
	f.lessProduct(0.5, low, h)
	e = f.polynomial(h, expTaylor)
	f.scale(e, n)
	k, z := f.number(tailScale), f.vec()
	VADDPS(t, k, z)
	VDIVPS(z, f.number(1), z)
	VMULPS(z, k, k)
	VMULPS(t, z, z)
	tail = f.polynomial(z, tailTaylor)
	VMULPS(k, tail, tail)
	VMULPS(e, tail, tail)
	return t, e, tail
}

// gelu is max(x, 0) − t·(1−Φ(t)).
func (f formulas) gelu(x reg.VecVirtual) reg.VecVirtual {
	t, _, tail := f.tail(x)
	y := f.keepMax(x, 0)
	VFNMADD231PS(tail, t, y)
	return y
}

// geluGrad is d = 1−Φ(t) − t·exp(−t²/2)/√(2π) for x = −t, and 1 − d for x = t.
func (f formulas) geluGrad(x reg.VecVirtual) reg.VecVirtual {
	t, e, d := f.tail(x)
	VMULPS(t, e, e)
	f.lessProduct(0.3989422804014327, e, d)
	up := f.vec()
	VSUBPS(d, f.number(1), up)
	f.chosen(x, d, up)
	return up
}

// tanh is −m/(m+2), m = exp(−2|x|)−1, with x's sign. m keeps its digits where x is small.
func (f formulas) tanh(x reg.VecVirtual) reg.VecVirtual {
	a := f.keepMin(f.absolute(x), 10)
	f.mulNumber(-2, a, a)
	n := f.reduced(a)
	q := f.polynomial(a, expm1Taylor)
	VMULPS(a, q, q)
	power, rest := f.number(1), f.vec()
	f.scale(power, n)
	VSUBPS(f.number(1), power, rest)
	VFMADD213PS(rest, power, q) // m
	d := f.vec()
	VSUBPS(q, f.number(-2), d)
	VDIVPS(d, q, q)
	q = f.absolute(q)
	sign := f.number(float32(math.Copysign(0, -1)))
	VANDPS(x, sign, sign)
	VORPS(sign, q, q)
	return q
}

// softplus is max(x, 0) + log(1+exp(−|x|)).
func (f formulas) softplus(x reg.VecVirtual) reg.VecVirtual {
	e := f.expOf(f.negative(x))
	l := f.polynomial(e, log1pTaylor)
	VFMADD213PS(f.keepMax(x, 0), e, l)
	return l
}

// leaky is max(x, 0) + slope·min(x, 0).
func (f formulas) leaky() {
	f.text("leakyReLU", "func(dst, x *float32, slope float32, n int)", "sets dst to x where x > 0, else to slope·x.")
	dst, from, slope := load("dst", 4), load("x", 4), f.broadcast("slope")
	f.walk(func(i reg.GPVirtual) {
		x := f.vec()
		VMOVUPS(from.at(i, f.lanes, 0), x)
		y := f.keepMax(x, 0)
		VFMADD231PS(f.keepMin(x, 0), slope, y)
		VMOVUPS(y, dst.at(i, f.lanes, 0))
	})
	end()
}

// within leaves in v the lanes where compare says so, takes from other the others, and makes those
// NaNs where y or v is one.
func (f formulas) within(v, other, y reg.VecVirtual, isKept func(m reg.Register)) {
	if f.lanes == 16 {
		keep, nan := K(), K()
		VCMPPS(Imm(3), y, v, nan)
		isKept(keep)
		VBLENDMPS(v, other, keep, v)
		VPTERNLOGD(Imm(0xff), v, v, nan, v)
		return
	}
	keep, nan := f.vec(), f.vec()
	VCMPPS(Imm(3), y, v, nan)
	isKept(keep)
	VBLENDVPS(keep, v, other, v)
	VORPS(nan, v, v)
}

func (f formulas) leakyGrad() {
	f.text("leakyReLUGrad", "func(dx, dy, kept *float32, slope float32, n int)", "sets dx to dy where kept > 0, else to slope·dy.")
	dx, dy, kept, slope := load("dx", 4), load("dy", 4), load("kept", 4), f.broadcast("slope")
	f.walk(func(i reg.GPVirtual) {
		d, y, low := f.vec(), f.vec(), f.vec()
		VMOVUPS(dy.at(i, f.lanes, 0), d)
		VMOVUPS(kept.at(i, f.lanes, 0), y)
		VMULPS(slope, d, low)
		zero := f.number(0)
		f.within(d, low, y, func(m reg.Register) { VCMPPS(Imm(1), y, zero, m) })
		VMOVUPS(d, dx.at(i, f.lanes, 0))
	})
	end()
}

func (f formulas) relu6Grad() {
	f.text("relu6Grad", "func(dx, dy, kept *float32, n int)", "sets dx to dy where 0 < kept < 6, else to 0.")
	dx, dy, kept := load("dx", 4), load("dy", 4), load("kept", 4)
	f.walk(func(i reg.GPVirtual) {
		d, y := f.vec(), f.vec()
		VMOVUPS(dy.at(i, f.lanes, 0), d)
		VMOVUPS(kept.at(i, f.lanes, 0), y)

		// min(y, 6−y) is above 0 between.
		zero, rest := f.number(0), f.vec()
		VSUBPS(y, f.number(6), rest)
		VMINPS(y, rest, rest)
		f.within(d, zero, y, func(m reg.Register) { VCMPPS(Imm(1), rest, zero, m) })
		VMOVUPS(d, dx.at(i, f.lanes, 0))
	})
	end()
}

func (f formulas) swiglu() {
	f.text("swiglu", "func(dst, gate, up *float32, n int)", "sets dst = gate·σ(gate)·up.")
	dst, gate, up := load("dst", 4), load("gate", 4), load("up", 4)
	f.walk(func(i reg.GPVirtual) {
		x := f.vec()
		VMOVUPS(gate.at(i, f.lanes, 0), x)
		y := f.silu(x)
		VMULPS(up.at(i, f.lanes, 0), y, y)
		VMOVUPS(y, dst.at(i, f.lanes, 0))
	})
	end()
}

func (f formulas) swigluGrad() {
	f.text("swigluGrad", "func(dgate, dup, gate, up, dz *float32, n int)", "sets dgate = dz·up·silu′(gate) and dup = dz·silu(gate).")
	dgate, dup, gate, up, dz := load("dgate", 4), load("dup", 4), load("gate", 4), load("up", 4), load("dz", 4)
	f.walk(func(i reg.GPVirtual) {
		x, z, u := f.vec(), f.vec(), f.vec()
		VMOVUPS(gate.at(i, f.lanes, 0), x)
		VMOVUPS(dz.at(i, f.lanes, 0), z)
		VMULPS(up.at(i, f.lanes, 0), z, u)
		d, sigma := f.siluGrad(x)
		VMULPS(u, d, d)
		VMULPS(f.keepMax(x, -furthest), sigma, sigma)
		VMULPS(z, sigma, sigma)
		VMOVUPS(d, dgate.at(i, f.lanes, 0))
		VMOVUPS(sigma, dup.at(i, f.lanes, 0))
	})
	end()
}
