package tune

import "math/rand/v2"

// Streams keep the random numbers of different purposes apart.
const (
	streamSuggest = 1 + iota
	streamDecide
	streamTrial
	streamConfirm
)

// mix hashes numbers into one (the finaliser of SplitMix64, Steele et al. 2014, for each).
func mix(numbers ...uint64) uint64 {
	h := uint64(0x9e3779b97f4a7c15)
	for _, n := range numbers {
		h ^= n
		h += 0x9e3779b97f4a7c15
		h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
		h = (h ^ h>>27) * 0x94d049bb133111eb
		h ^= h >> 31
	}
	return h
}

// newRand is the source for one purpose: the same numbers give the same source,
// on every machine.
func newRand(seed, stream uint64, numbers ...uint64) *rand.Rand {
	return rand.New(rand.NewPCG(mix(seed, stream), mix(append([]uint64{stream, seed}, numbers...)...)))
}

// trialSeed is the seed of a trial.
func trialSeed(seed uint64, number int) uint64 {
	return mix(seed, streamTrial, uint64(number))
}
