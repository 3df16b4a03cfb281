package f32

// A SquareSum is a sum of squares in float64, of values that come a piece at a time. It is the same bits on every path, and for every cut of the
// values into pieces of multiples of 32 (the last may be shorter): value number i goes to partial sum i mod 32.
type SquareSum [squareLanes]float64

// squareLanes is the number of partial sums. With the 16 of Update.Squares a loop over values in the cache would wait for its sums.
const squareLanes = 32

// A Precondition divides each value by √Variance·Root + Epsilon before it is squared, as a rule of Adam's family does. Values whose Variance is 0 are
// left out: nothing is known of their size. (The reciprocal is rounded to float32, and so is the value times it.) The zero Precondition
// divides by 1.
type Precondition struct {
	Variance      []float32 // nil: none
	Root, Epsilon float32
}

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
	variance := p.Variance[:len(x)]
	for i, v := range variance {
		if v > 0 {
			r := 1 / (float32(sqrt(v)*p.Root) + p.Epsilon)
			y := float64(float32(x[i] * r))
			s[i%squareLanes] += y * y
		}
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
	Before SquareSum // of the destination as it was
	Added  SquareSum
	After  SquareSum // of the destination as it is then
}

// measuredPart values of three arrays fit the first-level cache. It is a multiple of squareLanes.
const measuredPart = 2048

// AddToMeasured sets dst += x and takes squares on the way, in one pass over memory. Those of x are added to sums.Added; with before and after those of
// dst are added to Before and After, which are undefined without. p is that of the piece.
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
