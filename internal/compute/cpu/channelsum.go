package cpu

// A channelSum adds up two quantities for each channel of rows: the sums a and b. Pieces of the
// rows are summed apart and added in order, so that the totals are the same bits for any number of
// threads.
type channelSum struct {
	threads threads
	c       int

	// a and b have the totals of the last run. They lie in the first 2·c numbers of doubles.
	a, b []float64

	// doubles has the sums of all pieces.
	doubles []float64

	// pieces is the number of pieces, whatever the number of rows. A run cuts into it its own rows.
	pieces, rows int

	// piece sums one piece.
	piece func(i int)
}

// newChannelSum prepares sums over at most most rows of c channels: sum adds to its two arguments
// what it finds in rows lo to hi. doubles has sumDoubles(most, c) numbers.
func newChannelSum(t threads, doubles []float64, most, c int, sum func(a, b []float64, lo, hi int)) *channelSum {
	s := &channelSum{threads: t, c: c, doubles: doubles, pieces: pieces(most, rowGrain(c))}
	s.a, s.b = s.part(0)
	s.piece = func(i int) {
		a, b := s.part(i)
		clear(a)
		clear(b)
		sum(a, b, i*s.rows/s.pieces, (i+1)*s.rows/s.pieces)
	}
	return s
}

// sumDoubles is the number of doubles that a channelSum needs.
func sumDoubles(rows, c int) int { return 2 * c * pieces(rows, rowGrain(c)) }

// part is the memory of the sums of a piece.
func (s *channelSum) part(i int) (a, b []float64) {
	p := s.doubles[2*s.c*i : 2*s.c*(i+1)]
	return p[:s.c], p[s.c:]
}

// run sets the totals to those of the first rows.
func (s *channelSum) run(rows int) {
	s.rows = rows
	s.threads.pool.Run(s.pieces, s.piece)
	for i := 1; i < s.pieces; i++ {
		a, b := s.part(i)
		for j := range s.c {
			s.a[j] += a[j]
			s.b[j] += b[j]
		}
	}
}
