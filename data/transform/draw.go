package transform

import "math/rand/v2"

// The draws are made of Uint64 alone, so that a run gives the same bits with every release of Go.

// uniform draws from [from, to). The product is rounded before the sum, on every processor.
func uniform(draw *rand.Rand, from, to float64) float64 {
	return from + float64((to-from)*(float64(draw.Uint64()>>11)/(1<<53)))
}

// below draws from 0 to n−1, for n below 2³².
func below(draw *rand.Rand, n int) int {
	return int(draw.Uint64() >> 32 * uint64(n) >> 32)
}

// happens is true with probability p.
func happens(draw *rand.Rand, p float64) bool { return uniform(draw, 0, 1) < p }
