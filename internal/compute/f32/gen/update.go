package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// The places of the coefficients in the array that the kernels take: the order of
// Update.coefficients.
const (
	scale = iota
	clip
	floor // −clip
	shrink
	rate
	decay
	momentum
	beta1
	rest1
	beta2
	rest2
	correction
	root
	epsilon
	keep
	inverse
	beta
	l1
	minusL1
	squarable
	minusSquarable
	largest // float32
	factor
)

// A coefficients tells where a loop finds its constants: in registers as far as these go, else in
// memory.
type coefficients struct {
	isa
	base reg.GPVirtual
	held map[int]reg.VecVirtual
}

// coefficients loads those that a loop uses. The first ones stay in registers, which leaves six for
// its values.
func (s isa) coefficients(used ...int) coefficients {
	if s.lanes == 16 {
		return s.coefficientsIn(26, used...)
	}
	return s.coefficientsIn(10, used...)
}

// coefficientsIn keeps the first ones in so many registers.
func (s isa) coefficientsIn(registers int, used ...int) coefficients {
	c := coefficients{s, gp("k"), map[int]reg.VecVirtual{}}
	for _, i := range used {
		if len(c.held) < registers {
			c.held[i] = c.broadcast(i)
		}
	}
	return c
}

// broadcast loads a coefficient into all lanes.
func (c coefficients) broadcast(i int) reg.VecVirtual {
	v := c.vec()
	VBROADCASTSS(Mem{Base: c.base, Disp: 4 * i}, v)
	return v
}

// get is a coefficient: from its register, or loaded anew if there was none left.
func (c coefficients) get(i int) reg.VecVirtual {
	if v, ok := c.held[i]; ok {
		return v
	}
	return c.broadcast(i)
}

// times is x·k[i].
func (c coefficients) times(x Op, i int) reg.VecVirtual {
	v := c.vec()
	VMULPS(x, c.get(i), v)
	return v
}

// input is g of the rules: the gradient scaled, clipped and shrunk.
func (c coefficients) input(grad Op) reg.VecVirtual {
	g := c.limited(grad)
	VMULPS(c.get(shrink), g, g)
	return g
}

// limited is g before it is shrunk. The order of operands lets a NaN through.
func (c coefficients) limited(grad Op) reg.VecVirtual {
	g := c.times(grad, scale)
	VMINPS(g, c.get(clip), g)
	VMAXPS(g, c.get(floor), g)
	return g
}

// decayed is g with λw added.
func (c coefficients) decayed(grad Op, w reg.VecVirtual) reg.VecVirtual {
	g := c.input(grad)
	VADDPS(c.times(w, decay), g, g)
	return g
}

// blend is k[i]·x + k[j]·y.
func (c coefficients) blend(i int, x Op, j int, y Op) reg.VecVirtual {
	v := c.times(x, i)
	VADDPS(c.times(y, j), v, v)
	return v
}

// over is x / (√y + ε), in x's register; with isRooted √y is multiplied by Root.
func (c coefficients) over(x, y reg.VecVirtual, isRooted bool) {
	d := c.vec()
	VSQRTPS(y, d)
	if isRooted {
		VMULPS(c.get(root), d, d)
	}
	VADDPS(c.get(epsilon), d, d)
	VDIVPS(d, x, x)
}

// bounded cuts h to ±squarable; what is not finite becomes NaN.
func (c coefficients) bounded(h reg.VecVirtual) reg.VecVirtual {
	// zero is a vector of zeros, or of NaN.
	zero := c.vec()
	VSUBPS(h, h, zero)
	VMINPS(c.get(squarable), h, h)
	VMAXPS(c.get(minusSquarable), h, h)
	VADDPS(zero, h, h)
	return h
}

// square is x·x.
func square(s isa, x reg.VecVirtual) reg.VecVirtual {
	v := s.vec()
	VMULPS(x, x, v)
	return v
}

// every runs body for each vector of n values; n is a multiple of lanes, not 0.
func every(step int, body func(i reg.GPVirtual)) {
	n, i := gp("n"), GP64()
	XORQ(i, i)
	Label("loop")
	body(i)
	ADDQ(Imm(uint64(step)), i)
	CMPQ(i, n)
	JLT(LabelRef("loop"))
}

// updates writes the rules of package optim for both instruction sets. Each computes in the order
// of the plain loops, so that all paths give the same bits.
func updates() {
	for _, s := range []isa{avx512, avx2} {
		ascend(s)
		sgd(s)
		withMomentum(s, false)
		withMomentum(s, true)
		adam(s)
		adagrad(s)
		for _, isCentered := range []bool{false, true} {
			for _, hasMomentum := range []bool{false, true} {
				rmsprop(s, isCentered, hasMomentum)
			}
		}
		ftrl(s)
		lamb(s, false)
		lamb(s, true)
		squares(s)
	}
}

// rule begins a kernel whose arrays are value, grad and slots, and runs body for each vector with
// w, the value.
func (s isa) rule(name, doc string, slots []string, used []int, body func(c coefficients, at func(array string) Mem, w reg.VecVirtual)) {
	signature := "func(value, grad"
	arrays := map[string]stream{}
	for _, slot := range slots {
		signature += ", " + slot
	}
	s.text(name, signature+", k *float32, n int)", doc)
	for _, array := range append([]string{"value", "grad"}, slots...) {
		arrays[array] = load(array, 4)
	}
	c := s.coefficients(used...)
	every(s.lanes, func(i reg.GPVirtual) {
		at := func(array string) Mem { return arrays[array].at(i, s.lanes, 0) }
		w := s.vec()
		VMOVUPS(at("value"), w)
		body(c, at, w)
		VMOVUPS(w, at("value"))
	})
	end()
}

// A place is where the vector of an array lies that the loop is at.
type place = func(array string) Mem

// ascend is w += η·g, for arrays that are updated by sums, with no state.
func ascend(s isa) {
	s.rule("ascend", "is Ascend; n is a multiple of the vector, not 0.", nil, []int{scale, clip, floor, shrink, rate},
		func(c coefficients, at place, w reg.VecVirtual) {
			VADDPS(c.times(c.input(at("grad")), rate), w, w)
		})
}

// sgd is w −= η·(g + λw).
func sgd(s isa) {
	s.rule("sgd", "is SGD; n is a multiple of the vector, not 0.", nil, []int{scale, clip, floor, shrink, rate, decay},
		func(c coefficients, at place, w reg.VecVirtual) {
			VSUBPS(c.times(c.decayed(at("grad"), w), rate), w, w)
		})
}

// withMomentum is m = μm − η(g + λw), w += factor·m; Nesterov's looks ahead: w += factor·(μm − η(g
// + λw)), with the new m.
func withMomentum(s isa, isNesterov bool) {
	name, doc := "momentum", "is Momentum"
	if isNesterov {
		name, doc = "nesterov", "is Nesterov"
	}
	s.rule(name, doc+"; n is a multiple of the vector, not 0.", []string{"m"}, []int{scale, clip, floor, shrink, rate, decay, momentum, factor},
		func(c coefficients, at place, w reg.VecVirtual) {
			d := c.times(c.decayed(at("grad"), w), rate)
			v := c.times(at("m"), momentum)
			VSUBPS(d, v, v)
			VMOVUPS(v, at("m"))
			if isNesterov {
				VADDPS(c.times(c.times(v, momentum), factor), w, w)
				VSUBPS(c.times(d, factor), w, w)
				return
			}
			VADDPS(c.times(v, factor), w, w)
		})
}

// adam is the rule that coefficients.adam has.
func adam(s isa) {
	s.rule("adam", "is Adam; n is a multiple of the vector, not 0.", []string{"mean", "variance"}, adamUses,
		func(c coefficients, at place, w reg.VecVirtual) { c.adam(w, at("grad"), at("mean"), at("variance")) })
}

var adamUses = []int{scale, clip, floor, shrink, decay, beta1, rest1, beta2, rest2, root, epsilon, rate, keep, squarable, minusSquarable}

// adam updates w, mean and variance.
func (c coefficients) adam(w reg.VecVirtual, grad Op, mean, variance Mem) {
	g := c.bounded(c.decayed(grad, w))
	m := c.blend(beta1, mean, rest1, g)
	v := c.blend(beta2, variance, rest2, square(c.isa, g))
	VMOVUPS(m, mean)
	VMOVUPS(v, variance)
	u := c.times(m, rate)
	c.over(u, v, true)
	VMULPS(c.get(keep), w, w)
	VSUBPS(u, w, w)
}

// adagrad is h += g², w −= η·g/(√h + ε). h is cut to the largest float32, so that it does not become
// infinite.
func adagrad(s isa) {
	s.rule("adagrad", "is Adagrad; n is a multiple of the vector, not 0.", []string{"h"},
		[]int{scale, clip, floor, shrink, decay, rate, epsilon, squarable, minusSquarable, largest},
		func(c coefficients, at place, w reg.VecVirtual) {
			g := c.bounded(c.decayed(at("grad"), w))
			h := square(s, g)
			VADDPS(at("h"), h, h)
			VMINPS(h, c.get(largest), h) // lets a NaN through
			VMOVUPS(h, at("h"))
			u := c.times(g, rate)
			c.over(u, h, false)
			VSUBPS(u, w, w)
		})
}

// rmsprop is v = β₂v + (1−β₂)g², w −= η·g/(√v + ε). Centered, the square of the mean of g is taken
// off v, which rounding may make negative: it is cut at 0. With momentum the step goes through m.
func rmsprop(s isa, isCentered, hasMomentum bool) {
	name, slots := "rmsprop", []string{"square"}
	if isCentered {
		name, slots = name+"Centered", append(slots, "mean")
	}
	if hasMomentum {
		name, slots = name+"Momentum", append(slots, "m")
	}
	s.rule(name, "is RMSProp with these slots; n is a multiple of the vector, not 0.", slots,
		[]int{scale, clip, floor, shrink, decay, beta2, rest2, rate, epsilon, momentum, factor, squarable, minusSquarable},
		func(c coefficients, at place, w reg.VecVirtual) {
			g := c.bounded(c.decayed(at("grad"), w))
			v := c.blend(beta2, at("square"), rest2, square(s, g))
			VMOVUPS(v, at("square"))
			if isCentered {
				a, zero := c.blend(beta2, at("mean"), rest2, g), s.vec()
				VMOVUPS(a, at("mean"))
				VSUBPS(square(s, a), v, v)
				s.zero(zero)
				VMAXPS(v, zero, v)
			}
			u := c.times(g, rate)
			c.over(u, v, false)
			if hasMomentum {
				m := c.times(at("m"), momentum)
				VSUBPS(u, m, m)
				VMOVUPS(m, at("m"))
				VADDPS(c.times(m, factor), w, w)
				return
			}
			VSUBPS(u, w, w)
		})
}

// ftrl is FTRL-Proximal (McMahan et al. 2013); see Update.FTRL for the formula.
func ftrl(s isa) {
	s.rule("ftrl", "is FTRL; n is a multiple of the vector, not 0.", []string{"z", "squares"},
		[]int{scale, clip, floor, shrink, inverse, beta, decay, l1, minusL1, squarable, minusSquarable, largest},
		func(c coefficients, at place, w reg.VecVirtual) {
			g, rise := c.bounded(c.input(at("grad"))), s.vec()
			n := square(s, g)
			VADDPS(at("squares"), n, n)
			VMINPS(n, c.get(largest), n) // lets a NaN through
			VSQRTPS(at("squares"), rise)
			VMOVUPS(n, at("squares"))
			VSQRTPS(n, n) // the new root from here on
			VSUBPS(rise, n, rise)
			VMULPS(c.get(inverse), rise, rise)
			VMULPS(w, rise, rise)
			VADDPS(at("z"), g, g)
			VSUBPS(rise, g, g) // z
			VMOVUPS(g, at("z"))
			VADDPS(c.get(beta), n, n)
			VMULPS(c.get(inverse), n, n)
			VADDPS(c.get(decay), n, n)
			VMINPS(g, c.get(l1), w)
			VMAXPS(w, c.get(minusL1), w)
			VSUBPS(g, w, w)
			VDIVPS(n, w, w)
		})
}

// lamb is the update, or the sum of squares that must be known before it.
func lamb(s isa, isSum bool) {
	used := []int{scale, clip, floor, shrink, beta1, rest1, beta2, rest2, root, epsilon, correction, decay, squarable, minusSquarable, rate}
	r := func(c coefficients, at place, w reg.VecVirtual) (r, m, v reg.VecVirtual) {
		g := c.bounded(c.input(at("grad")))
		m = c.blend(beta1, at("mean"), rest1, g)
		v = c.blend(beta2, at("variance"), rest2, square(s, g))
		r = c.times(m, correction)
		c.over(r, v, true)
		VADDPS(c.times(w, decay), r, r)
		return r, m, v
	}
	if !isSum {
		s.rule("lamb", "is Lamb; n is a multiple of the vector, not 0.", []string{"mean", "variance"}, used,
			func(c coefficients, at place, w reg.VecVirtual) {
				r, m, v := r(c, at, w)
				VMOVUPS(m, at("mean"))
				VMOVUPS(v, at("variance"))
				VSUBPS(c.times(r, rate), w, w)
			})
		return
	}
	s.text("lambSquares", "func(sums *float64, value, grad, mean, variance, k *float32, n int)",
		"adds the squares that LambSquares sums to 16 partial sums, by index mod 16; n is a multiple of 16, not 0.")
	arrays := map[string]stream{}
	for _, array := range []string{"value", "grad", "mean", "variance"} {
		arrays[array] = load(array, 4)
	}
	held := used[:14] // no rate
	if s.lanes == 8 {
		held = used[:4] // the sums take the other registers
	}
	c := s.coefficients(held...)
	s.squaresInto(gp("sums"), func(i reg.GPVirtual, u int) reg.VecVirtual {
		at := func(array string) Mem { return arrays[array].at(i, s.lanes, u) }
		w := s.vec()
		VMOVUPS(at("value"), w)
		r, _, _ := r(c, at, w)
		return r
	})
}

// squares writes sums of squares of gradients as rules see them: scaled and clipped.
func squares(s isa) {
	s.text("squares", "func(sums *float64, x, k *float32, n int)",
		"adds the squares that Squares sums to 16 partial sums, by index mod 16; n is a multiple of 16, not 0.")
	x, c := load("x", 4), s.coefficients(scale, clip, floor)
	s.squaresInto(gp("sums"), func(i reg.GPVirtual, u int) reg.VecVirtual { return c.limited(x.at(i, s.lanes, u)) })
}

// squaresInto adds the squares of the vectors that value gives to the 16 float64 at sums: the
// square of element i to number i mod 16. The square of a float32 is exact in float64, so that a
// fused multiply-add rounds as the sum alone does.
func (s isa) squaresInto(sums reg.GPVirtual, value func(i reg.GPVirtual, u int) reg.VecVirtual) {
	acc := make([]reg.VecVirtual, 2*16/s.lanes)
	for j := range acc {
		acc[j] = s.vec()
		VMOVUPD(Mem{Base: sums, Disp: j * s.bytes()}, acc[j])
	}
	every(16, func(i reg.GPVirtual) {
		for u := range len(acc) / 2 {
			v, low, high := value(i, u), s.vec(), s.vec()
			if s.lanes == 16 {
				upper := YMM()
				VEXTRACTF64X4(Imm(1), v, upper)
				VCVTPS2PD(v.AsY(), low)
				VCVTPS2PD(upper, high)
			} else {
				upper := XMM()
				VEXTRACTF128(Imm(1), v, upper)
				VCVTPS2PD(v.AsX(), low)
				VCVTPS2PD(upper, high)
			}
			VFMADD231PD(low, low, acc[2*u])
			VFMADD231PD(high, high, acc[2*u+1])
		}
	})
	for j := range acc {
		VMOVUPD(acc[j], Mem{Base: sums, Disp: j * s.bytes()})
	}
	end()
}
