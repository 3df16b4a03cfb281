package suggest

import "math"

// hash is a number for a point; equal points have equal ones.
func hash(x []float64) uint64 {
	h := uint64(len(x))
	for _, v := range x {
		b := math.Float64bits(v)
		if math.IsNaN(v) {
			b = 1
		}
		h = mix(h ^ b)
	}
	return h
}

// mix is the finalizer of SplitMix64 (Steele, Lea and Flood 2014): a good hash of 64 bits.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
