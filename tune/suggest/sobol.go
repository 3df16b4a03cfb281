package suggest

import (
	"math/bits"
	"math/rand/v2"

	"github.com/paragon-train/paragon/tune"
)

// Sobol proposes the points of a scrambled Sobol' sequence: they fill the space more evenly than
// random ones, however many there are. Trial number n is point n, whatever else happens. Running
// trials need no care.
type Sobol struct {
	reader   reader
	matrices []sobolMatrix
}

// Suggest implements tune.Suggester.
func (s *Sobol) Suggest(v tune.View, number int, rng *rand.Rand) (tune.Params, error) {
	m, recs := s.reader.read(v)
	fixed := v.Fixed(number)
	return m.params(m.startPoint(recs, m.given(fixed), &s.matrices, v.Seed(), number, rng), fixed)
}

// startPoint is the quasi-random point of a trial; in a finite space one that was not tried.
func (m *model) startPoint(recs []record, given []float64, matrices *[]sobolMatrix, seed uint64, number int, rng *rand.Rand) []float64 {
	if len(*matrices) != len(m.dims) {
		*matrices = sobolMatrices(len(m.dims))
	}
	first := true
	return m.fresh(recs, given, rng, func() []float64 {
		if first {
			first = false
			return m.fromUnit(sobolPoint(*matrices, uint32(number), seed), given)
		}
		u := make([]float64, len(m.dims))
		for i := range u {
			u[i] = rng.Float64()
		}
		return m.fromUnit(u, given)
	})
}

// sobolBits is the number of bits of a coordinate, and of direction numbers.
const sobolBits = 32

// A sobolMatrix has the direction numbers of one dim of a digital (t, s)-sequence in base 2: column
// k, bit 31−r is row r.
type sobolMatrix [sobolBits]uint32

// sobolMatrices makes the generator matrices of n dims (Sobol' 1967). The first is van der
// Corput's. Each further one belongs to the next primitive polynomial; its free initial numbers are
// those, out of a few drawn by a fixed generator, whose two-dimensional projections on the dims
// before it have the smallest t.
func sobolMatrices(n int) []sobolMatrix {
	const (
		tries = 24
		// lookBack is how many of the dims before it a new one is compared with.
		lookBack = 12
		// depth says that projections are judged by their first 2^depth points.
		depth = 10
	)
	all := make([]sobolMatrix, 0, n)
	var first sobolMatrix
	for k := range first {
		first[k] = 1 << (sobolBits - 1 - k)
	}
	if all = append(all, first); n == 0 {
		return nil
	}
	// The polynomial x comes first; the next primitive one is x+1.
	poly := uint64(2)
	rng := rand.New(rand.NewPCG(0x50b01, 0x5e9))
	for len(all) < n {
		for poly++; !primitive(poly); poly++ {
		}
		var best sobolMatrix
		bestBad := -1
		for range tries {
			m := sobolFrom(poly, rng)
			bad := 0
			for _, o := range all[max(0, len(all)-lookBack):] {
				bad += projectionBadness(&m, &o, depth)
			}
			if bestBad < 0 || bad < bestBad {
				best, bestBad = m, bad
			}
		}
		all = append(all, best)
	}
	return all[:n]
}

// sobolFrom runs the recurrence of Bratley and Fox (1988, equation 2) for polynomial poly of degree
// s, from s random odd numbers m_k < 2^k.
func sobolFrom(poly uint64, rng *rand.Rand) sobolMatrix {
	s := bits.Len64(poly) - 1
	var v sobolMatrix
	for k := range min(s, sobolBits) {
		// m is odd and below 2^(k+1), as the direction number of bit k has to be.
		m := uint32(rng.Uint64N(1<<k))<<1 | 1
		v[k] = m << (sobolBits - 1 - k)
	}
	for k := s; k < sobolBits; k++ {
		v[k] = v[k-s] ^ v[k-s]>>s
		for i := 1; i < s; i++ {
			if poly>>(s-i)&1 == 1 {
				v[k] ^= v[k-i]
			}
		}
	}
	return v
}

// primitive reports whether the polynomial over GF(2), bit i being the coefficient of xⁱ, is
// primitive: x has order 2^s − 1 modulo it.
func primitive(poly uint64) bool {
	s := bits.Len64(poly) - 1
	if s < 1 || poly&1 == 0 {
		return false
	}
	order := uint64(1)<<s - 1
	if gfPower(order, poly, s) != 1 {
		return false
	}
	for rest, p := order, uint64(2); rest > 1; p++ {
		if p*p > rest {
			p = rest
		}
		if rest%p != 0 {
			continue
		}
		if p != order && gfPower(order/p, poly, s) == 1 {
			return false
		}
		if p == order && s > 1 && gfPower(1, poly, s) == 1 {
			return false
		}
		for rest%p == 0 {
			rest /= p
		}
	}
	return true
}

// gfPower is xⁿ modulo poly of degree s.
func gfPower(n, poly uint64, s int) uint64 {
	mul := func(a, b uint64) uint64 {
		var p uint64
		for ; b > 0; b >>= 1 {
			if b&1 == 1 {
				p ^= a
			}
			if a <<= 1; a>>s&1 == 1 {
				a ^= poly
			}
		}
		return p
	}
	result, base := uint64(1), uint64(2)
	if s == 1 {
		base ^= poly
	}
	for ; n > 0; n >>= 1 {
		if n&1 == 1 {
			result = mul(result, base)
		}
		base = mul(base, base)
	}
	return result
}

// projectionBadness adds up, over m = 1 … depth, the quality parameter t of the first 2^m points of
// the projection on two dims: m minus the largest k for which, for all i ≤ k, i rows of the one and
// k−i of the other matrix are independent.
func projectionBadness(a, b *sobolMatrix, depth int) int {
	bad := 0
	for m := 1; m <= depth; m++ {
		ra, rb := matrixRows(a, m), matrixRows(b, m)
		k := 0
		for k < m && allIndependent(ra, rb, k+1) {
			k++
		}
		bad += (m - k) * (m - k)
	}
	return bad
}

// matrixRows are the first m rows over the first m columns.
func matrixRows(v *sobolMatrix, m int) []uint32 {
	rows := make([]uint32, m)
	for r := range rows {
		for k := range m {
			rows[r] |= v[k] >> (sobolBits - 1 - r) & 1 << k
		}
	}
	return rows
}

func allIndependent(a, b []uint32, k int) bool {
	for i := 0; i <= k; i++ {
		var basis [32]uint32
		if !addRows(&basis, a[:i]) || !addRows(&basis, b[:k-i]) {
			return false
		}
	}
	return true
}

// addRows adds rows to a basis by their leading bit; false if one depends on the others.
func addRows(basis *[32]uint32, rows []uint32) bool {
	for _, r := range rows {
		for r != 0 {
			top := bits.Len32(r) - 1
			if basis[top] == 0 {
				basis[top] = r
				break
			}
			r ^= basis[top]
		}
		if r == 0 {
			return false
		}
	}
	return true
}

// sobolPoint is point n in [0, 1), scrambled by Owen's nested scrambling, a tree of bit flips drawn
// from a hash of (seed, dim): each point is uniform, and the set keeps its even spread.
func sobolPoint(matrices []sobolMatrix, n uint32, seed uint64) []float64 {
	u := make([]float64, len(matrices))
	for d := range matrices {
		var x uint32
		for k, rest := 0, n; rest != 0; k, rest = k+1, rest>>1 {
			if rest&1 == 1 {
				x ^= matrices[d][k]
			}
		}
		h := mix(seed ^ mix(uint64(d)+1))
		u[d] = (float64(owenScramble(x, h)) + float64(mix(h^uint64(n)<<1)>>11)/(1<<53)) / (1 << sobolBits)
	}
	return u
}

// owenScramble flips each bit by a hash of the seed and of all bits above it (Owen 1995).
func owenScramble(x uint32, seed uint64) uint32 {
	out := uint32(0)
	for b := sobolBits - 1; b >= 0; b-- {
		above := uint64(x) >> (b + 1)
		flip := uint32(mix(seed^mix(above<<6|uint64(b))) >> 63)
		out |= (x>>b&1 ^ flip) << b
	}
	return out
}
