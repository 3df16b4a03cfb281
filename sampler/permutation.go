package sampler

import (
	"math"
	"math/bits"
)

// A permutation is a bijection of the numbers below n that is found for one number at a time,
// without a list. It depends on a key alone.
//
// It is a Feistel network over pairs (l, r) with l < a and r < b, where a·b is hardly more than n:
// each half in turn is moved around by a number that depends on the other half and on the key of
// the round. Numbers from n to a·b are walked over: the network is applied again until the result
// is below n, in the mean less than 1 + 2/√n times. (Black and Rogaway, Ciphers with Arbitrary
// Finite Domains, 2002, methods 2 and 3.) Ten rounds are two more than pairs of positions need to
// look uniform from n = 10 on. Below smallest numbers there are too few different rounds, so there
// the permutation is a list after all, shuffled by the same random numbers.
type permutation struct {
	n, a, b uint64
	keys    [rounds]uint64
	list    [smallest]uint8
}

const (
	rounds   = 10
	smallest = 64
)

// makePermutation returns the permutation of the numbers below n that belongs to a key.
func makePermutation(n int, key uint64) permutation {
	p := permutation{n: uint64(max(n, 1))}
	if p.n <= smallest {
		for i := range p.list[:p.n] {
			p.list[i] = uint8(i)
		}
		for i := p.n - 1; i > 0; i-- {
			j := scale(mix(key, i), i+1)
			p.list[i], p.list[j] = p.list[j], p.list[i]
		}
		return p
	}
	p.a = uint64(math.Sqrt(float64(p.n))) + 1
	// With two odd halves all permutations would be even ones.
	p.a += p.a & 1
	p.b = (p.n + p.a - 1) / p.a
	for k := range p.keys {
		p.keys[k] = mix(key, uint64(k))
	}
	return p
}

// at returns the number at a position, both below n.
func (p *permutation) at(position int) int {
	x := uint64(position)
	if p.n <= smallest {
		return int(p.list[x])
	}
	for {
		l, r := x/p.b, x%p.b
		for k := 0; k < rounds; k += 2 {
			if l += scale(mix(p.keys[k], r), p.a); l >= p.a {
				l -= p.a
			}
			if r += scale(mix(p.keys[k+1], l), p.b); r >= p.b {
				r -= p.b
			}
		}
		if x = l*p.b + r; x < p.n {
			return int(x)
		}
	}
}

// scale makes a number below n of 64 random bits.
func scale(random, n uint64) uint64 {
	high, _ := bits.Mul64(random, n)
	return high
}

// mix makes one seed of two numbers, so that neighbours have nothing in common
// (the finaliser of SplitMix64).
func mix(a, b uint64) uint64 {
	x := a*0x9e3779b97f4a7c15 + b + 0x632be59bd9b4e019
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
