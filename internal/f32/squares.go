package f32

import "math"

// A SquareSum is a sum of squares in float64, of values that come a piece at a time. It is the same bits on every path, and for every cut of the
// values into pieces of multiples of 16 (the last may be shorter): value number i goes to partial sum i mod 16.
type SquareSum [numSums]float64

// A Precondition divides each value x by √Variance·Root + Epsilon before it is squared, as a rule of Adam's family does. Values whose Variance is 0 are
// left out: nothing is known of their size. (The reciprocal is rounded to float32, and so is x times it.) The zero Precondition divides by 1.
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
		u := Update{Scale: 1, Clip: float32(math.Inf(1))}
		n := u.squaresWide(kernels.tile.path, (*[numSums]float64)(s), x)
		u.squaresPortable((*[numSums]float64)(s), x[n:])
		return
	}
	same2("SquareSum.Add", len(x), len(x), len(p.Variance))
	s.addOverPortable(x, p)
}

func (s *SquareSum) addOverPortable(x []float32, p Precondition) {
	v := p.Variance[:len(x)]
	for i, x := range x {
		if v[i] > 0 {
			y := float64(x * (1 / (float32(sqrt(v[i])*p.Root) + p.Epsilon)))
			s[i%numSums] += y * y
		}
	}
}

// Total returns the sum.
func (s *SquareSum) Total() float64 {
	all := [numSums]float64(*s)
	return total(&all)
}

// measuredPart values of two arrays fit the first-level cache. It is a multiple of 16.
const measuredPart = 2048

// AddToMeasured sets dst += x, and adds the squares of dst before that, of x, and of dst after it to those of the sums that are not nil. p is that of
// the piece.
func AddToMeasured(dst, x []float32, p Precondition, before, added, after *SquareSum) {
	same2("AddToMeasured", len(dst), len(dst), len(x))
	for from := 0; from < len(dst); from += measuredPart {
		to := min(from+measuredPart, len(dst))
		d, x, p := dst[from:to], x[from:to], p.Part(from, to)
		if before != nil {
			before.Add(d, p)
		}
		if added != nil {
			added.Add(x, p)
		}
		kernels.add(d, d, x)
		if after != nil {
			after.Add(d, p)
		}
	}
}
