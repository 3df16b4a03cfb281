package adapt

// search finds what enumerate finds, from the shape of the goodput.
//
// With s held, the goodput is a constant times m / (T(m, s)·(Var + Sqr·S)), where S, the scale, is proportional to m. T and Var + Sqr·S are
// convex, positive and do not fall, so their product is convex, and m over a convex positive function has one maximum: bisection by the
// sign of the derivative finds it.
//
// For s and all numbers above it there is a bound. With L = m·(s+1) examples on each replica a step of s or more accumulated batches takes
// at least
//
//	T(L/(s+1), s)              for L ≤ high·(s+1)
//	T(high, L/high − 1)        beyond, where the largest local batch needs more of them
//
// since T does not fall as s grows with L held. This is again convex in L, so its goodput has one maximum, over whole numbers L. Where that
// is not above the best found, no larger s is.
//
// The bound of the first s shows where to begin: let L be its maximum and s the least number with high·(s+1) ≥ L. Up to there the bound
// rises, so of all smaller numbers the best is s−1 with the largest local batch, for which the bound is exact.
func (g Goodput) search(replicas int, c stepCosts, r ranges) (best Choice) {
	first := r.first()
	if r.high < r.most {
		l, _ := g.bound(replicas, c, r, first)
		first = max(first, (l-1)/r.high-1)
	}
	for s := first; s <= r.last(); s++ {
		if _, most := g.bound(replicas, c, r, s); most <= best.Goodput*(1+1e-12) { // but for rounding; 0: the model gives no time
			break
		}
		low, high := r.batches(s)
		if low > high {
			continue
		}
		top := bisect(low, high, func(m int) bool {
			time, slope := c.slope(float64(m), float64(s))
			return g.falls(replicas, float64(m), float64(s+1), time, slope)
		})
		for _, m := range [...]int{max(top-1, low), top} {
			if rate := g.rate(replicas, m, s, c.time(float64(m), float64(s))); rate > best.Goodput {
				best = Choice{LocalBatch: m, Accumulation: s, Goodput: rate}
			}
		}
	}
	return best
}

// bound is a goodput that no configuration with s or more accumulated batches exceeds, and near which number of examples it is.
func (g Goodput) bound(replicas int, c stepCosts, r ranges, s int) (at int, most float64) {
	low, high := max(r.least, r.low), r.most
	if r.low <= r.most/(s+1) {
		low = max(low, r.low*(s+1))
	}
	parts, largest := float64(s+1), float64(r.high)
	slope := func(l float64) (time, slope float64) {
		if l < largest*parts {
			time, slope = c.slope(l/parts, parts-1)
			return time, slope / parts
		}
		return c.time(largest, l/largest-1), (c.alpha + c.beta*largest) / largest
	}
	at = bisect(low, high, func(l int) bool {
		time, by := slope(float64(l))
		return g.falls(replicas, float64(l), 1, time, by)
	})
	for _, l := range [...]int{max(at-1, low), at} {
		time, _ := slope(float64(l))
		most = max(most, g.rate(replicas, l, 0, time))
	}
	return at, most
}

// falls reports whether the goodput does not rise beyond m, where each unit of m is parts·replicas examples and a step takes time, which
// rises by slope: the derivative of its logarithm, Var/(m·(Var + Sqr·S)) − T'/T, is not positive.
func (g Goodput) falls(replicas int, m, parts, time, slope float64) bool {
	sqr, variance := g.Noise.floored()
	scale := m * parts * float64(replicas) / float64(g.InitialBatch)
	return variance*time <= slope*m*(variance+sqr*scale)
}

// bisect is the smallest number in [low, high] at which falls is true, or high where it is nowhere. falls stays true once it is.
func bisect(low, high int, falls func(int) bool) int {
	for low < high {
		mid := low + (high-low)/2
		if falls(mid) {
			high = mid
		} else {
			low = mid + 1
		}
	}
	return low
}
