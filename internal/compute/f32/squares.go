package f32

// A SquareSum is a sum of squares in float64, of values that come a piece at a time. It is the same
// bits on every path, and for every cut of the values into pieces of multiples of 256 (the last may
// be shorter): value number i goes to partial sum i mod 32.
type SquareSum [squareLanes]float64

// squareLanes is the number of partial sums. With the 16 of Update.Squares a loop over values in
// the cache would wait for its sums.
const squareLanes = 32

// squareBlock values are summed in float32, in squareLanes sums of 8 squares, before they are added
// in float64, if they are preconditioned: squares of such values are far from the ends of a
// float32's range.
const squareBlock = 256

// A Precondition divides each value by √Variance·Root + Epsilon before it is squared, as a rule of
// Adam's family does. Values whose Variance is not above 2⁻¹²⁰ are left out: nothing is known of
// their size. The zero Precondition divides by 1.
//
// All is rounded to float32: two values that are 16 apart in a group of 32 have divisors a and b,
// and with q = 1/(a·b) they are multiplied by q·b and q·a. That is one division for two values, and
// no overflow as long as b, and a, is below 2⁶⁴.
type Precondition struct {
	// Variance is nil if there is none.
	Variance []float32

	Root, Epsilon float32
}

const leastVariance = 0x1p-120

// Part returns the Precondition of values from to to.
func (p *Precondition) Part(from, to int) Precondition {
	if p.Variance == nil {
		return Precondition{}
	}
	return Precondition{p.Variance[from:to], p.Root, p.Epsilon}
}

// Add adds the squares of a piece of values. p is that of the piece.
func (s *SquareSum) Add(x []float32, p Precondition) {
	if p.Variance == nil {
		n := squareSumWide(kernels.tile.path, s, x)
		for i, v := range x[n:] {
			y := float64(v)
			s[i%squareLanes] += y * y
		}
		return
	}
	same2("SquareSum.Add", len(x), len(x), len(p.Variance))
	n := squaresOverWide(kernels.tile.path, s, x, p)
	squaresOverPortable(s, x[n:], p.Part(n, len(x)))
}

func squaresOverPortable(s *SquareSum, x []float32, p Precondition) {
	for from := 0; from < len(x); from += squareBlock {
		var block, by [squareLanes]float32
		end := min(from+squareBlock, len(x))
		for at := from; at < end; at += squareLanes {
			variance := p.Variance[at:min(at+squareLanes, end)]
			p.reciprocals(&by, variance)
			for i, v := range variance {
				if v > leastVariance {
					y := float32(x[at+i] * by[i])
					block[i] += float32(y * y)
				}
			}
		}
		for i, sum := range block {
			s[i] += float64(sum)
		}
	}
}

// reciprocals finds what values are multiplied by. The last ones, if they are not a group of 32,
// have a division each.
func (p *Precondition) reciprocals(by *[squareLanes]float32, variance []float32) {
	for i, v := range variance {
		by[i] = 1
		if v > leastVariance {
			by[i] = float32(sqrt(v)*p.Root) + p.Epsilon
		}
	}
	if len(variance) < squareLanes {
		for i := range variance {
			by[i] = 1 / by[i]
		}
		return
	}
	for i := range squareLanes / 2 {
		a, b := by[i], by[i+squareLanes/2]
		q := 1 / float32(a*b)
		by[i], by[i+squareLanes/2] = float32(q*b), float32(q*a)
	}
}

// Total returns the sum: of the partial sums, by halves.
func (s *SquareSum) Total() float64 {
	all := *s
	for half := squareLanes / 2; half > 0; half /= 2 {
		for i := range half {
			all[i] += all[i+half]
		}
	}
	return all[0]
}

// AddSquares are what AddToMeasured sums.
type AddSquares struct {
	// Before is that of the destination as it was.
	Before SquareSum

	Added SquareSum

	// After is that of the destination as it is then.
	After SquareSum
}

// measuredPart values of three arrays fit the first-level cache. It is a multiple of squareBlock.
const measuredPart = 2048

// AddToMeasured sets dst += x and takes squares on the way, in one pass over memory. Those of x are
// added to sums.Added; with before and after those of dst are added to Before and After, which are
// undefined without. p is that of the piece.
func AddToMeasured(dst, x []float32, p Precondition, sums *AddSquares, before, after bool) {
	same2("AddToMeasured", len(dst), len(dst), len(x))
	if p.Variance != nil {
		same2("AddToMeasured", len(dst), len(dst), len(p.Variance))
	}
	for from := addMeasuredWide(kernels.tile.path, dst, x, p, sums); from < len(dst); from += measuredPart {
		to := min(from+measuredPart, len(dst))
		d, x, p := dst[from:to], x[from:to], p.Part(from, to)
		if before {
			sums.Before.Add(d, p)
		}
		sums.Added.Add(x, p)
		kernels.add(d, d, x)
		if after {
			sums.After.Add(d, p)
		}
	}
}

// AdamMeasured is AddToMeasured(grad, x, p, sums, true, true) and then Adam with the second moment
// p.Variance, in one pass over memory where there is a kernel for it.
func (u *Update) AdamMeasured(value, grad, x, mean []float32, p Precondition, sums *AddSquares) {
	same("AdamMeasured", len(value), len(grad), len(mean), len(p.Variance))
	same2("AdamMeasured", len(value), len(grad), len(x))
	n := u.adamMeasuredWide(kernels.tile.path, value, grad, x, mean, p, sums)
	AddToMeasured(grad[n:], x[n:], p.Part(n, len(value)), sums, true, true)
	u.Adam(value[n:], grad[n:], mean[n:], p.Variance[n:])
}
