package adapt

import "math"

// search finds what enumerate finds, from the shape of the goodput.
//
// With s held, the goodput is a constant times m / (T(m, s)·(Var + Sqr·S)), where S, the scale, is
// proportional to m. T and Var + Sqr·S are convex, positive and do not fall, so their product is
// convex, and m over a convex positive function has one maximum: the first number at which the
// derivative is not positive.
//
// For s and all numbers above it there is a bound. With L = m·(s+1) examples on each replica a step
// of s or more accumulated batches takes at least
//
//	T(L/(s+1), s)              for L ≤ high·(s+1)
//	T(high, L/high − 1)        beyond, where the largest local batch needs more of them
//
// since T does not fall as s grows with L held. This is again convex in L, so its goodput has one
// maximum, over whole numbers L. Where that is not above the best found, no larger s is. Where L is
// m·(s+1), m ≤ high, the bound is exact, so its maximum is also that of m.
//
// The bound of the first s shows where to begin: let L be its maximum and s the least number with
// high·(s+1) ≥ L. Up to there the bound rises, so of all smaller numbers the best is s−1 with the
// largest local batch, for which the bound is exact.
func (g Goodput) search(replicas int, c stepCosts, r ranges) (best Choice) {
	first := r.first()
	b := g.bound(replicas, c, r, first)
	b.climb(b.start(), 0)
	if begin := (b.at-1)/r.high - 1; r.high < r.most && begin > first {
		first = begin
		b = g.bound(replicas, c, r, first)
		b.climb(b.start(), 0)
	}
	for s := first; s <= r.last(); {
		// The factor is for rounding. A bound of 0 says that the model gives no time.
		if b.most() <= best.Goodput*(1+1e-12) {
			break
		}
		if low, high := r.batches(s); low <= high {
			top := min(max((b.at-1)/(s+1)+1, low), high)
			for _, m := range [...]int{max(top-1, low), top} {
				if rate := g.rate(replicas, m, s, b.batchTime(m)); rate > best.Goodput {
					best = Choice{LocalBatch: m, Accumulation: s, Goodput: rate}
				}
			}
		}
		s++
		start := float64(b.at)
		b = g.bound(replicas, c, r, s)
		if !b.climb(start, best.Goodput) {
			break
		}
	}
	return best
}

// A bound is a goodput that no configuration with s or more accumulated batches exceeds, by the
// examples of a step on one replica.
type bound struct {
	g        Goodput
	costs    stepCosts
	replicas int
	// parts is s+1, and largest the largest local batch.
	parts, largest float64
	sqr, variance  float64
	// scale is the smallest scale: one example on each replica.
	scale     float64
	low, high int
	// at is where the bound is greatest, of several the least. climb sets it.
	at int
	// Times that climb has computed: of the last number found to be too small and of the last
	// one that was not.
	before, after timeAt
}

type timeAt struct {
	// examples is 0 where there is none.
	examples int
	seconds  float64
}

func (g Goodput) bound(replicas int, c stepCosts, r ranges, s int) bound {
	b := bound{g: g, costs: c, replicas: replicas, parts: float64(s + 1), largest: float64(r.high),
		scale: float64(replicas) / float64(g.InitialBatch), low: max(r.least, r.low), high: r.most}
	if r.low <= r.most/(s+1) {
		b.low = max(b.low, r.low*(s+1))
	}
	b.sqr, b.variance = g.Noise.floored()
	return b
}

// shape is the time of a step with l examples, and its derivatives.
func (b *bound) shape(l float64) (time, slope, curve float64) {
	if l < b.largest*b.parts {
		time, slope, curve = b.costs.shape(l/b.parts, b.parts-1)
		return time, slope / b.parts, curve / (b.parts * b.parts)
	}
	return b.costs.time(b.largest, l/b.largest-1), (b.costs.alpha + b.costs.beta*b.largest) / b.largest, 0
}

// start is the maximum where nothing overlaps.
func (b *bound) start() float64 {
	return b.peak(b.parts*b.costs.alpha+b.costs.exchange, b.costs.beta)
}

// peak is where the goodput is greatest if a step takes fixed + slope·l seconds.
func (b *bound) peak(fixed, slope float64) float64 {
	return math.Sqrt(b.variance * fixed / (slope * b.sqr * b.scale))
}

// newton is the number of Newton's steps after which climb goes on by bisection. Most searches need
// two or three; a kink in the time makes some need more.
const newton = 8

// climb sets at, beginning near start. It gives up and returns false where it sees that the bound
// is nowhere above enough.
func (b *bound) climb(start, enough float64) bool {
	low, high := b.low, b.high
	for try := 0; low < high; try++ {
		l := low + (high-low)/2
		if try < newton {
			l = nearest(start, low, high-1)
		}
		x := float64(l)
		time, slope, curve := b.shape(x)
		noise := b.variance + b.sqr*(x*b.scale)
		// Of the numbers that are left none is above what it is along the tangent to the
		// step's cost, which is convex.
		if cost, by := time*noise, slope*noise+time*b.sqr*b.scale; enough > 0 {
			least, most := float64(max(low-1, b.low)), float64(high)
			left, right := cost+by*(least-x), cost+by*(most-x)
			if unit := float64(b.replicas) * (b.variance + b.sqr); left > 0 && right > 0 && unit*least/left <= enough && unit*most/right <= enough {
				return false
			}
		}
		// The time as it is along its tangent has its peak at z. The maximum is where z is
		// x itself.
		fixed := time - slope*x
		z := b.peak(fixed, slope)
		if curve > 0 && z <= math.MaxFloat64 {
			z = x - (x-z)/(1+z*curve*(x/fixed+1/slope)/2)
		}
		start = math.Ceil(z)
		// Here the derivative of the goodput's logarithm, Var/(l·(Var + Sqr·S)) − T'/T, is
		// not positive.
		if b.variance*time <= slope*x*noise {
			high, b.after = l, timeAt{l, time}
			start--
		} else {
			low, b.before = l+1, timeAt{l, time}
		}
	}
	b.at = low
	return true
}

// most is the greatest bound.
func (b *bound) most() (most float64) {
	for _, l := range [...]int{max(b.at-1, b.low), b.at} {
		most = max(most, b.g.rate(b.replicas, l, 0, b.time(l)))
	}
	return most
}

func (b *bound) time(l int) float64 {
	switch l {
	case b.before.examples:
		return b.before.seconds
	case b.after.examples:
		return b.after.seconds
	}
	time, _, _ := b.shape(float64(l))
	return time
}

// batchTime is the time with local batches of m.
func (b *bound) batchTime(m int) float64 {
	if b.parts == 1 {
		return b.time(m)
	}
	return b.costs.time(float64(m), b.parts-1)
}

// nearest is x as a whole number in [low, high]; low where x is not a number.
func nearest(x float64, low, high int) int {
	switch {
	case !(x > float64(low)):
		return low
	case x >= float64(high):
		return high
	}
	return int(x)
}
