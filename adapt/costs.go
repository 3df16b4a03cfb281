package adapt

import "math"

// stepCosts are the times of a step with one placement, as both models have them: s micro-batches
// are computed, and a closing one's computing overlaps with the exchange.
//
//	T(m, s) = s·(alpha + beta·m) + ((alpha + beta·m)^gamma + exchange^gamma)^(1/gamma)
//
// T is convex and does not fall as m grows. With m·(s+1) held it does not fall as s grows, for real
// m and s.
type stepCosts struct{ alpha, beta, exchange, gamma float64 }

// time is T(m, s).
func (c stepCosts) time(m, s float64) float64 {
	compute := c.alpha + c.beta*m
	return s*compute + blend(compute, c.exchange, c.gamma)
}

// shape is T and its first two derivatives by m.
func (c stepCosts) shape(m, s float64) (time, slope, curve float64) {
	compute := c.alpha + c.beta*m
	closing, part := blendPart(compute, c.exchange, c.gamma)
	share := 1.0
	if closing > 0 && compute > 0 {
		share = part * closing / compute
		curve = c.beta * c.beta * (c.gamma - 1) * share * (1 - part) / compute
	}
	return s*compute + closing, c.beta * (s + share), curve
}

// blend is (a^γ + b^γ)^(1/γ) of two times: their sum for γ = 1, where nothing overlaps, and towards
// the larger one as γ grows.
func blend(a, b, gamma float64) float64 {
	both, _ := blendPart(a, b, gamma)
	return both
}

// blendPart is blend and the first one's part of it, a^γ/(a^γ + b^γ).
func blendPart(a, b, gamma float64) (both, part float64) {
	large, small := max(a, b), min(a, b)
	// ratio is (small/large)^γ.
	var ratio float64
	switch {
	case small <= 0:
		both = large
	case gamma == 1:
		both, ratio = a+b, small/large
	default:
		power := gamma * math.Log(small/large)
		ratio = math.Exp(power)
		both = large
		// A smaller power is below the last bit.
		if power >= -40 {
			both *= math.Exp(math.Log1p(ratio) / gamma)
		}
	}
	if a >= b {
		return both, 1 / (1 + ratio)
	}
	return both, ratio / (1 + ratio)
}

// blendLog is the logarithm of blend of two times whose logarithms are given, and the first one's
// share a^γ/(a^γ + b^γ), which is its derivative by the first logarithm.
func blendLog(a, b, gamma float64) (log, share float64) {
	if a >= b {
		e := math.Exp(gamma * (b - a))
		return a + math.Log1p(e)/gamma, 1 / (1 + e)
	}
	e := math.Exp(gamma * (a - b))
	return b + math.Log1p(e)/gamma, e / (1 + e)
}
