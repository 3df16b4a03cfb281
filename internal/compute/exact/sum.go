// Package exact adds up float64 numbers without rounding. The sum is rounded once, when it is read,
// so that it does not depend on the order of the numbers, nor on who has added which of them:
//
//	var a, b exact.Sum
//	a.Add(1e300)
//	b.Add(1e-300)
//	a.Merge(&b)
//	norm := math.Sqrt(a.Total())
//
// A Sum is a number in fixed point, wide enough for the squares of all float32 numbers and sums of
// 2⁴⁰ of them (Kulisch's accumulator, cut to that range).
package exact

import (
	"math"
	"math/big"
	"math/bits"
)

// Limbs is the number of 32-bit digits of a Sum.
const Limbs = 21

// lowest is the exponent of a Sum's lowest bit: it holds numbers below 2^(lowest+32·Limbs).
const lowest = -320

// A Sum is a sum of numbers that are not negative. The zero value is 0.
type Sum struct {
	// limbs are digits of base 2³², the lowest first. Their upper halves hold what is carried
	// later.
	limbs [Limbs]uint64
	// added counts the additions since the digits were carried.
	added uint32
	// notFinite says that a NaN, an infinity, a negative number or one beyond the range was
	// added.
	notFinite bool
}

// mostAdded additions cannot overflow a digit.
const mostAdded = 1 << 30

// Add adds a number. Bits below 2^-320 are lost.
func (s *Sum) Add(x float64) {
	b := math.Float64bits(x)
	exponent, mantissa := int(b>>52), b&(1<<52-1)
	if exponent > 0 {
		mantissa |= 1 << 52
	} else {
		exponent = 1
	}
	at := exponent - 1075 - lowest
	switch {
	case mantissa == 0:
		return
	case at > 32*(Limbs-3):
		// The signs of numbers are among the bits of their exponents here.
		s.notFinite = true
		return
	case at < 0:
		mantissa, at = mantissa>>min(uint(-at), 63), 0
	}
	hi, lo := bits.Mul64(mantissa, 1<<(at%32))
	i := at / 32
	s.limbs[i] += lo & math.MaxUint32
	s.limbs[i+1] += lo >> 32
	s.limbs[i+2] += hi
	if s.added++; s.added == mostAdded {
		s.carry()
	}
}

// Merge adds another sum.
func (s *Sum) Merge(o *Sum) {
	s.carry()
	o.carry()
	for i := range s.limbs {
		s.limbs[i] += o.limbs[i]
	}
	s.notFinite = s.notFinite || o.notFinite
	s.carry()
}

// carry makes every digit smaller than 2³².
func (s *Sum) carry() {
	carried := uint64(0)
	for i := range s.limbs {
		x := s.limbs[i] + carried
		s.limbs[i], carried = x&math.MaxUint32, x>>32
	}
	s.notFinite = s.notFinite || carried > 0
	s.added = 0
}

// Digits returns the sum's digits of base 2³², the lowest first; none if what was added is not
// finite.
func (s *Sum) Digits() []uint32 {
	s.carry()
	if s.notFinite {
		return nil
	}
	d := make([]uint32, Limbs)
	for i := range d {
		d[i] = uint32(s.limbs[i])
	}
	return d
}

// OfDigits returns the sum of Digits. It is false for another number of them than Limbs or none.
func OfDigits(d []uint32) (s Sum, ok bool) {
	if len(d) == 0 {
		return Sum{notFinite: true}, true
	}
	if len(d) != Limbs {
		return Sum{}, false
	}
	for i := range d {
		s.limbs[i] = uint64(d[i])
	}
	return s, true
}

// Total returns the sum, rounded to the nearest float64; NaN if what was added is not finite.
func (s *Sum) Total() float64 {
	s.carry()
	if s.notFinite {
		return math.NaN()
	}
	total := new(big.Float).SetPrec(32 * Limbs)
	digit := new(big.Float).SetPrec(32)
	for i := Limbs - 1; i >= 0; i-- {
		total.SetMantExp(total, 32)
		total.Add(total, digit.SetUint64(s.limbs[i]))
	}
	x, _ := total.SetMantExp(total, lowest).Float64()
	return x
}
