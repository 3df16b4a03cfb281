package adapt

import "math"

// stepCosts are the times of a step with one placement, as both models have them: s micro-batches are computed, and a closing one's
// computing overlaps with the exchange.
//
//	T(m, s) = s·(alpha + beta·m) + ((alpha + beta·m)^gamma + exchange^gamma)^(1/gamma)
//
// T is convex and does not fall as m grows. With m·(s+1) held it does not fall as s grows, for real m and s.
type stepCosts struct{ alpha, beta, exchange, gamma float64 }

// time is T(m, s).
func (c stepCosts) time(m, s float64) float64 {
	compute := c.alpha + c.beta*m
	return s*compute + blend(compute, c.exchange, c.gamma)
}

// slope is T and its derivative by m.
func (c stepCosts) slope(m, s float64) (time, slope float64) {
	compute := c.alpha + c.beta*m
	closing := blend(compute, c.exchange, c.gamma)
	share := 1.0
	if closing > 0 && compute > 0 {
		share = math.Exp((c.gamma - 1) * math.Log(compute/closing))
	}
	return s*compute + closing, c.beta * (s + share)
}

// blend is (a^γ + b^γ)^(1/γ) of two times: their sum for γ = 1, where nothing overlaps, and towards the larger one as γ grows.
func blend(a, b, gamma float64) float64 {
	large, small := max(a, b), min(a, b)
	if small <= 0 {
		return large
	}
	if gamma == 1 {
		return a + b
	}
	power := gamma * math.Log(small/large)
	if power < -40 { // below the last bit
		return large
	}
	return large * math.Exp(math.Log1p(math.Exp(power))/gamma)
}

// blendLog is the logarithm of blend of two times whose logarithms are given, and the first one's share a^γ/(a^γ + b^γ), which is its
// derivative by the first logarithm.
func blendLog(a, b, gamma float64) (log, share float64) {
	if a >= b {
		e := math.Exp(gamma * (b - a))
		return a + math.Log1p(e)/gamma, 1 / (1 + e)
	}
	e := math.Exp(gamma * (a - b))
	return b + math.Log1p(e)/gamma, e / (1 + e)
}
