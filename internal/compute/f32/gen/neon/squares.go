package main

// squareLanes is the number of partial sums of squares: value i goes to sum i mod squareLanes. Of
// so many values as squareBlock those that are preconditioned are summed in float32.
const (
	squareLanes = 32
	squareBlock = 256
)

func init() {
	sets["squares"] = func() {
		squareSum()
		addMeasured()
		squaresOver()
		addMeasuredOver()
		adamMeasured()
	}
}

// partialSums loads so many vectors of sums in float64.
func partialSums(sums gpr, vectors int) []vec {
	acc := vs(vectors)
	for j, a := range acc {
		ldrQ(a, mem{sums, 16 * j})
	}
	return acc
}

// storeSums stores sums from vector number at on.
func storeSums(sums gpr, at int, acc []vec) {
	for j, a := range acc {
		strQ(a, mem{sums, 16 * (at + j)})
	}
}

// addSquares adds the squares of a vector, which it destroys, to two sums. The square of a float32
// is exact in float64, so that a fused multiply-add rounds as the sum alone does.
func addSquares(x, low, high vec) {
	scope(func() {
		y := v()
		fcvtl2(y, x)
		fcvtl(x, x)
		fmlaD(low, x, x)
		fmlaD(high, y, y)
	})
}

func squareSum() {
	text("squareSumNEON", "func(sums *float64, x *float32, n int)", "adds squares to 32 partial sums, by index mod 32; n is a multiple of 32, not 0.")
	sums, x, n := arg("sums"), load("x", 4), arg("n")
	acc := partialSums(sums, squareLanes/2)
	label("loop")
	for u := range squareLanes / vecLanes {
		scope(func() { addSquares(read(x, u), acc[2*u], acc[2*u+1]) })
	}
	g("ADD $%d, %v, %v", 4*squareLanes, x.base, x.base)
	g("SUBS $%d, %v, %v", squareLanes, n, n)
	g("BNE loop")
	storeSums(sums, 0, acc)
	end()
}

// moveBack moves all streams back by what a register says, moveOn on by so many bytes.
func moveBack(bytes gpr) {
	for _, s := range cur.streams {
		g("SUB %v, %v, %v", bytes, s.base, s.base)
	}
}

func moveOn(bytes int) {
	for _, s := range cur.streams {
		g("ADD $%d, %v, %v", bytes, s.base, s.base)
	}
}

// addMeasured takes 1024 values at a time, which the first-level cache holds, and goes over them
// four times: its sums of all 32 lanes would not fit the registers.
func addMeasured() {
	const chunk = 1024
	text("addMeasuredNEON", "func(sums *float64, dst, x *float32, n int)", "is AddToMeasured with all sums, of 32 partial sums each; n is a multiple of 32, not 0.")
	sums, dst, x, n, most, count, left, bytes := arg("sums"), load("dst", 4), load("x", 4), arg("n"), r(), r(), r(), r()
	g("MOVD $%d, %v", chunk, most)
	label("chunk")
	g("CMP %v, %v", most, n)
	g("CSEL LT, %v, %v, %v", n, most, count)
	g("LSL $2, %v, %v", count, bytes)
	for part := range 4 {
		name := "part" + string(rune('0'+part))
		scope(func() {
			acc := vs(12)
			at := func(j int) mem { return mem{sums, 8*squareLanes*(j/4) + 64*part + 16*(j%4)} }
			for j, a := range acc {
				ldrQ(a, at(j))
			}
			g("MOVD %v, %v", count, left)
			label(name)
			for q := range 2 {
				u := 2*part + q
				scope(func() {
					all := [3]vec{read(dst, u), read(x, u), v()}
					fadd(all[2], all[0], all[1])
					strQ(all[2], dst.at(u))
					for j, y := range all {
						addSquares(y, acc[4*j+2*q], acc[4*j+2*q+1])
					}
				})
			}
			moveOn(4 * squareLanes)
			g("SUBS $%d, %v, %v", squareLanes, left, left)
			g("BNE %s", name)
			for j, a := range acc {
				strQ(a, at(j))
			}
			if part < 3 {
				moveBack(bytes)
			}
		})
	}
	g("SUBS %v, %v, %v", count, n, n)
	g("BNE chunk")
	end()
}

// A divisor finds 1 / (√v·root + ε) for vectors of v, and multiplies by it; lanes where v is not
// above least become 0.
type divisor struct{ root, epsilon, one, least vec }

func newDivisor() divisor {
	return divisor{broadcast("root"), broadcast("epsilon"), constant(0x3f800000), constant(0x03800000)}
}

// both is for two vectors of v. One division serves both: of a and b it finds q = 1/(a·b), and the
// reciprocals are q·b and q·a. They come with the masks of lanes that count.
func (d divisor) both(low, high mem) (by, counts [2]vec) {
	for i, m := range []mem{low, high} {
		by[i], counts[i] = v(), v()
		x := loaded(m)
		fcmgt(counts[i], x, d.least)
		fsqrt(by[i], x)
		fmul(by[i], by[i], d.root)
		fadd(by[i], by[i], d.epsilon)
		bif(by[i], d.one, counts[i])
		give(x)
	}
	q, a := v(), v()
	fmul(q, by[0], by[1])
	fdiv(q, d.one, q)
	fmul(a, q, by[1])
	fmul(by[1], q, by[0])
	give(q, by[0])
	by[0] = a
	return by, counts
}

// blocks goes over blocks of 256 values and sums their squares, after a division, in float32: n
// sums of 32 lanes each, whose block's part it adds to those in float64. Lanes go by eights, 16
// apart: body gets the two vectors' numbers and the sums of both.
func blocks(n int, body func(low, high int, acc [][2]vec)) {
	sums, count, left, bytes := arg("sums"), arg("n"), r(), r()
	g("MOVD $%d, %v", 4*squareBlock, bytes)
	label("block")
	for u := range squareLanes / vecLanes / 2 {
		name := "part" + string(rune('0'+u))
		scope(func() {
			acc := make([][2]vec, n)
			for i := range acc {
				acc[i] = [2]vec{v(), v()}
				zero(acc[i][0])
				zero(acc[i][1])
			}
			g("MOVD $%d, %v", squareBlock/squareLanes, left)
			label(name)
			scope(func() { body(u, u+squareLanes/vecLanes/2, acc) })
			moveOn(4 * squareLanes)
			g("SUBS $1, %v, %v", left, left)
			g("BNE %s", name)
			for i, pair := range acc {
				for h, a := range pair {
					scope(func() {
						high, old, at := v(), v(), mem{sums, 8*squareLanes*i + 8*squareLanes/2*h + 32*u}
						fcvtl2(high, a)
						fcvtl(a, a)
						ldrQ(old, at)
						faddD(a, old, a)
						strQ(a, at)
						ldrQ(old, at.plus(16))
						faddD(high, old, high)
						strQ(high, at.plus(16))
					})
				}
			}
			if u < squareLanes/vecLanes/2-1 {
				moveBack(bytes)
			}
		})
	}
	g("SUBS $%d, %v, %v", squareBlock, count, count)
	g("BNE block")
	end()
}

// addSquare adds the squares of x over its divisor, which it destroys, to a sum in float32.
func addSquare(x, by, counts, sum vec) {
	fmul(x, x, by)
	and(x, x, counts)
	fmul(x, x, x)
	fadd(sum, sum, x)
}

// squaresOver writes the sums of squares of numbers over their divisors √v·root + ε, as
// preconditioned gradients have them.
func squaresOver() {
	text("squaresOverNEON", "func(sums *float64, x, v *float32, root, epsilon float32, n int)",
		"adds the squares of x over its divisors to 32 partial sums, by index mod 32; n is a multiple of 256, not 0.")
	x, variance, d := load("x", 4), load("v", 4), newDivisor()
	blocks(1, func(low, high int, acc [][2]vec) {
		by, counts := d.both(variance.at(low), variance.at(high))
		for i, u := range []int{low, high} {
			scope(func() { addSquare(read(x, u), by[i], counts[i], acc[0][i]) })
		}
	})
}

func addMeasuredOver() {
	text("addMeasuredOverNEON", "func(sums *float64, dst, x, v *float32, root, epsilon float32, n int)",
		"is AddToMeasured with a Precondition and all sums, of 32 partial sums each; n is a multiple of 256, not 0.")
	dst, x, variance, d := load("dst", 4), load("x", 4), load("v", 4), newDivisor()
	blocks(3, func(low, high int, acc [][2]vec) {
		by, counts := d.both(variance.at(low), variance.at(high))
		for i, u := range []int{low, high} {
			scope(func() {
				all := [3]vec{read(dst, u), read(x, u), v()}
				fadd(all[2], all[0], all[1])
				strQ(all[2], dst.at(u))
				for j, y := range all {
					addSquare(y, by[i], counts[i], acc[j][i])
				}
			})
		}
	})
}

func adamMeasured() {
	text("adamMeasuredNEON", "func(sums *float64, value, grad, x, mean, variance, k *float32, root, epsilon float32, n int)",
		"is AddToMeasured to grad with a Precondition by variance and all sums, and then Adam; n is a multiple of 256, not 0.")
	value, grad, x, mean, variance, d := load("value", 4), load("grad", 4), load("x", 4), load("mean", 4), load("variance", 4), newDivisor()
	c := loadConstants(adamUses...)
	blocks(3, func(low, high int, acc [][2]vec) {
		by, counts := d.both(variance.at(low), variance.at(high))
		for i, u := range []int{low, high} {
			scope(func() {
				all := [3]vec{read(grad, u), read(x, u), v()}
				fadd(all[2], all[0], all[1])
				strQ(all[2], grad.at(u))
				for j, y := range all[:2] {
					addSquare(y, by[i], counts[i], acc[j][i])
				}
				give(all[0], all[1])
				kept := v()
				mov(kept, all[2])
				addSquare(kept, by[i], counts[i], acc[2][i])
				give(kept)
				w := read(value, u)
				c.adam(w, all[2], mean.at(u), variance.at(u))
				strQ(w, value.at(u))
			})
		}
	})
}
