package main

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

// A constantsOf is the constants of a loop. Those that are multiplied with stay four to a register,
// as they lie in memory; the others have one each.
type constantsOf struct{ four, whole map[int]vec }

var isWhole = map[int]bool{clip: true, floor: true, epsilon: true, beta: true, l1: true, minusL1: true, squarable: true, minusSquarable: true, largest: true, factor: true}

func loadConstants(used ...int) constantsOf {
	c, k := constantsOf{map[int]vec{}, map[int]vec{}}, arg("k")
	for _, i := range used {
		switch _, ok := c.four[i/4]; {
		case isWhole[i]:
			c.whole[i] = v()
			ldrS(c.whole[i], mem{k, 4 * i})
			dupLane(c.whole[i], c.whole[i], 0)
		case !ok:
			c.four[i/4] = v()
			ldrQ(c.four[i/4], mem{k, 16 * (i / 4)})
		}
	}
	return c
}

// mul sets d to x·k[i].
func (c constantsOf) mul(d, x vec, i int) {
	if isWhole[i] {
		fmul(d, x, c.whole[i])
	} else {
		fmulBy(d, x, c.four[i/4], i%4)
	}
}

// times is x·k[i].
func (c constantsOf) times(x vec, i int) vec {
	y := v()
	c.mul(y, x, i)
	return y
}

// add and sub set x to x ± y and give y's register back.
func add(x, y vec) { fadd(x, x, y); give(y) }
func sub(x, y vec) { fsub(x, x, y); give(y) }

// read is a vector of an array.
func read(s stream, u int) vec {
	x := v()
	ldrQ(x, s.at(u))
	return x
}

// limited is g of the rules before it is shrunk. FMIN and FMAX let a NaN through.
func (c constantsOf) limited(grad vec) {
	c.mul(grad, grad, scale)
	fmin(grad, grad, c.whole[clip])
	fmax(grad, grad, c.whole[floor])
}

// input makes g of the rules: the gradient scaled, clipped and shrunk.
func (c constantsOf) input(grad vec) {
	c.limited(grad)
	c.mul(grad, grad, shrink)
}

// decayed is g with λw added.
func (c constantsOf) decayed(grad, w vec) {
	c.input(grad)
	add(grad, c.times(w, decay))
}

// blend makes k[i]·x + k[j]·y of x.
func (c constantsOf) blend(i int, x vec, j int, y vec) {
	c.mul(x, x, i)
	add(x, c.times(y, j))
}

// over makes x / (√y + ε) of x; with isRooted √y is multiplied by Root.
func (c constantsOf) over(x, y vec, isRooted bool) {
	d := v()
	fsqrt(d, y)
	if isRooted {
		c.mul(d, d, root)
	}
	fadd(d, d, c.whole[epsilon])
	fdiv(x, x, d)
	give(d)
}

// bounded cuts h to ±squarable; what is not finite becomes NaN.
func (c constantsOf) bounded(h vec) {
	none := v() // zero, or NaN
	fsub(none, h, h)
	fmin(h, h, c.whole[squarable])
	fmax(h, h, c.whole[minusSquarable])
	add(h, none)
}

// square is x·x.
func square(x vec) vec {
	y := v()
	fmul(y, x, x)
	return y
}

func init() {
	sets["update"] = func() {
		ascend()
		sgd()
		withMomentum(false)
		withMomentum(true)
		adam()
		adagrad()
		for _, isCentered := range []bool{false, true} {
			for _, hasMomentum := range []bool{false, true} {
				rmsprop(isCentered, hasMomentum)
			}
		}
		ftrl()
		lamb(false)
		lamb(true)
		squares()
	}
}

// A place is vector u of an array.
type place = func(array string) mem

// rule begins a kernel whose arrays are value, grad and slots, and runs body for each vector with
// w, the value, and g, the gradient.
func rule(name, doc string, slots []string, used []int, body func(c constantsOf, at place, w, g vec)) {
	signature := "func(value, grad"
	for _, slot := range slots {
		signature += ", " + slot
	}
	text(name+"NEON", signature+", k *float32, n int)", doc+"; n is a multiple of the vector.")
	arrays := map[string]stream{}
	for _, array := range append([]string{"value", "grad"}, slots...) {
		arrays[array] = load(array, 4)
	}
	c := loadConstants(used...)
	each(func(u int) {
		at := func(array string) mem { return arrays[array].at(u) }
		w, g := v(), v()
		ldrQ(w, at("value"))
		ldrQ(g, at("grad"))
		body(c, at, w, g)
		strQ(w, at("value"))
	})
	end()
}

func loaded(at mem) vec {
	x := v()
	ldrQ(x, at)
	return x
}

// ascend is w += η·g, for arrays that are updated by sums, with no state.
func ascend() {
	rule("ascend", "is Ascend", nil, []int{scale, clip, floor, shrink, rate}, func(c constantsOf, _ place, w, g vec) {
		c.input(g)
		add(w, c.times(g, rate))
	})
}

// sgd is w −= η·(g + λw).
func sgd() {
	rule("sgd", "is SGD", nil, []int{scale, clip, floor, shrink, rate, decay}, func(c constantsOf, _ place, w, g vec) {
		c.decayed(g, w)
		sub(w, c.times(g, rate))
	})
}

// withMomentum is m = μm − η(g + λw), w += factor·m; Nesterov's looks ahead: w += factor·(μm − η(g
// + λw)), with the new m.
func withMomentum(isNesterov bool) {
	name, doc := "momentum", "is Momentum"
	if isNesterov {
		name, doc = "nesterov", "is Nesterov"
	}
	rule(name, doc, []string{"m"}, []int{scale, clip, floor, shrink, rate, decay, momentum, factor}, func(c constantsOf, at place, w, g vec) {
		c.decayed(g, w)
		c.mul(g, g, rate)
		m := loaded(at("m"))
		c.mul(m, m, momentum)
		fsub(m, m, g)
		strQ(m, at("m"))
		if isNesterov {
			c.mul(m, m, momentum)
			add(w, c.times(m, factor))
			sub(w, c.times(g, factor))
			return
		}
		add(w, c.times(m, factor))
	})
}

func adam() {
	rule("adam", "is Adam", []string{"mean", "variance"}, adamUses, func(c constantsOf, at place, w, g vec) {
		c.adam(w, g, at("mean"), at("variance"))
	})
}

var adamUses = []int{scale, clip, floor, shrink, decay, beta1, rest1, beta2, rest2, root, epsilon, rate, keep, squarable, minusSquarable}

// adam updates w, mean and variance; it destroys g.
func (c constantsOf) adam(w, g vec, mean, variance mem) {
	c.decayed(g, w)
	c.bounded(g)
	m, s := loaded(mean), loaded(variance)
	c.blend(beta1, m, rest1, g)
	fmul(g, g, g)
	c.blend(beta2, s, rest2, g)
	strQ(m, mean)
	strQ(s, variance)
	c.mul(m, m, rate)
	c.over(m, s, true)
	c.mul(w, w, keep)
	fsub(w, w, m)
	give(m, s)
}

// adagrad is h += g², w −= η·g/(√h + ε). h is cut to the largest float32, so that it does not become
// infinite.
func adagrad() {
	used := []int{scale, clip, floor, shrink, decay, rate, epsilon, squarable, minusSquarable, largest}
	rule("adagrad", "is Adagrad", []string{"h"}, used, func(c constantsOf, at place, w, g vec) {
		c.decayed(g, w)
		c.bounded(g)
		h := loaded(at("h"))
		add(h, square(g))
		fmin(h, h, c.whole[largest])
		strQ(h, at("h"))
		c.mul(g, g, rate)
		c.over(g, h, false)
		fsub(w, w, g)
	})
}

// rmsprop is v = β₂v + (1−β₂)g², w −= η·g/(√v + ε). Centered, the square of the mean of g is taken
// off v, which rounding may make negative: it is cut at 0. With momentum the step goes through m.
func rmsprop(isCentered, hasMomentum bool) {
	name, slots := "rmsprop", []string{"square"}
	if isCentered {
		name, slots = name+"Centered", append(slots, "mean")
	}
	if hasMomentum {
		name, slots = name+"Momentum", append(slots, "m")
	}
	used := []int{scale, clip, floor, shrink, decay, beta2, rest2, rate, epsilon, momentum, factor, squarable, minusSquarable}
	rule(name, "is RMSProp with these slots", slots, used, func(c constantsOf, at place, w, g vec) {
		c.decayed(g, w)
		c.bounded(g)
		s := loaded(at("square"))
		x := square(g)
		c.blend(beta2, s, rest2, x)
		strQ(s, at("square"))
		if isCentered {
			ldrQ(x, at("mean"))
			c.blend(beta2, x, rest2, g)
			strQ(x, at("mean"))
			fmul(x, x, x)
			fsub(s, s, x)
			neon.rectify(s)
		}
		c.mul(g, g, rate)
		c.over(g, s, false)
		if hasMomentum {
			ldrQ(x, at("m"))
			c.mul(x, x, momentum)
			fsub(x, x, g)
			strQ(x, at("m"))
			add(w, c.times(x, factor))
			return
		}
		fsub(w, w, g)
	})
}

func ftrl() {
	used := []int{scale, clip, floor, shrink, inverse, beta, decay, l1, minusL1, squarable, minusSquarable, largest}
	rule("ftrl", "is FTRL", []string{"z", "squares"}, used, func(c constantsOf, at place, w, g vec) {
		c.input(g)
		c.bounded(g)
		old := loaded(at("squares"))
		n := square(g)
		fadd(n, n, old)
		fmin(n, n, c.whole[largest])
		strQ(n, at("squares"))
		fsqrt(old, old)
		fsqrt(n, n) // the new root from here on
		fsub(old, n, old)
		c.mul(old, old, inverse)
		fmul(old, old, w)
		z := loaded(at("z"))
		fadd(g, z, g)
		fsub(g, g, old)
		strQ(g, at("z"))
		fadd(n, n, c.whole[beta])
		c.mul(n, n, inverse)
		dupLane(old, c.four[decay/4], decay%4)
		fadd(n, n, old)
		fmin(w, g, c.whole[l1])
		fmax(w, w, c.whole[minusL1])
		fsub(w, w, g)
		fdiv(w, w, n)
	})
}

// lamb is the update, or the sum of squares that must be known before it.
func lamb(isSum bool) {
	used := []int{scale, clip, floor, shrink, beta1, rest1, beta2, rest2, root, epsilon, correction, decay, squarable, minusSquarable, rate}
	// step makes m and s the new moments, and r of g.
	step := func(c constantsOf, w, g, m, s vec) {
		c.input(g)
		c.bounded(g)
		c.blend(beta1, m, rest1, g)
		fmul(g, g, g)
		c.blend(beta2, s, rest2, g)
		c.mul(g, m, correction)
		c.over(g, s, true)
		add(g, c.times(w, decay))
	}
	if !isSum {
		rule("lamb", "is Lamb", []string{"mean", "variance"}, used, func(c constantsOf, at place, w, g vec) {
			m, s := loaded(at("mean")), loaded(at("variance"))
			step(c, w, g, m, s)
			strQ(m, at("mean"))
			strQ(s, at("variance"))
			sub(w, c.times(g, rate))
		})
		return
	}
	text("lambSquaresNEON", "func(sums *float64, value, grad, mean, variance, k *float32, n int)",
		"adds the squares that LambSquares sums to 16 partial sums, by index mod 16; n is a multiple of 16, not 0.")
	value, grad, mean, variance := load("value", 4), load("grad", 4), load("mean", 4), load("variance", 4)
	c := loadConstants(used[:14]...) // no rate
	squaresInto(func(u int) vec {
		w, g, m, s := read(value, u), read(grad, u), read(mean, u), read(variance, u)
		step(c, w, g, m, s)
		return g
	})
}

func squares() {
	text("squaresNEON", "func(sums *float64, x, k *float32, n int)",
		"adds the squares that Squares sums to 16 partial sums, by index mod 16; n is a multiple of 16, not 0.")
	x, c := load("x", 4), loadConstants(scale, clip, floor)
	squaresInto(func(u int) vec {
		y := read(x, u)
		c.limited(y)
		return y
	})
}

// squaresInto adds the squares of the vectors that value gives to the 16 float64 at sums: the
// square of element i to number i mod 16.
func squaresInto(value func(u int) vec) {
	sums, n := arg("sums"), arg("n")
	acc := partialSums(sums, 8)
	label("loop")
	for u := range 4 {
		scope(func() { addSquares(value(u), acc[2*u], acc[2*u+1]) })
	}
	for _, s := range cur.streams {
		g("ADD $%d, %v, %v", 16*s.size, s.base, s.base)
	}
	g("SUBS $16, %v, %v", n, n)
	g("BNE loop")
	storeSums(sums, 0, acc)
	end()
}
