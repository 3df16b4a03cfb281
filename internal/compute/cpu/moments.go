package cpu

import "github.com/paragon-train/paragon/internal/compute/f32"

// A moments is what gives a batch normalisation its statistics. With numbers a near the channels'
// means and d = Σ (x−a)/m,
//
//	mean = a + d,  variance = Σ (x−a)²/m − d²
//
// The difference loses d²/variance times float32's precision. Where a is the mean of some rows,
// that is nothing worth mentioning, and one pass does. For a channel of which those rows say
// little, a second pass follows around the mean that the first one found.
type moments struct {
	mean, variance []float64

	x f32.Array
	c int

	// near is a of the formula.
	near []float32

	// sums has Σ (x−a) and Σ (x−a)².
	sums *channelSum

	// row is room for one row of x.
	row []float32
}

// sampleRows is the number of rows that a first guess of the mean is made of, and secondPass the
// (d/deviation)² above which it was no good.
const (
	sampleRows = 8
	secondPass = 8
)

// newMoments prepares the statistics of rows of c channels. doubles has sumDoubles numbers.
func newMoments(t threads, doubles []float64, x f32.Array, c int) *moments {
	m := &moments{mean: make([]float64, c), variance: make([]float64, c), x: x, c: c, near: make([]float32, c), row: make([]float32, c)}
	m.sums = newChannelSum(t, doubles, x.Len()/c, c, func(a, b []float64, lo, hi int) {
		channelTotalsAround(a, b, x.Part(lo*c, hi*c), m.near)
	})
	return m
}

// compute sets mean and variance of the first rows, 1 or more.
func (m *moments) compute(rows int) {
	m.sample(rows)
	if m.around(rows) {
		return
	}
	for k, v := range m.mean {
		m.near[k] = float32(v)
	}
	m.around(rows)
}

// sample sets near to the mean of some of the rows, and mean to their sum.
func (m *moments) sample(rows int) {
	n := min(rows, sampleRows)
	clear(m.mean)
	for i := range n {
		at := i * rows / n
		f32.Move(f32.Array{F32: m.row}, m.x.Part(at*m.c, (at+1)*m.c))
		for k, v := range m.row {
			m.mean[k] += float64(v)
		}
	}
	for k, sum := range m.mean {
		m.near[k] = float32(sum / float64(n))
	}
}

// around sets mean and variance from sums around near, and reports whether near was near enough.
func (m *moments) around(rows int) bool {
	m.sums.run(rows)
	n, exact := float64(rows), true
	for k := range m.mean {
		d := m.sums.a[k] / n
		m.mean[k] = float64(m.near[k]) + d
		m.variance[k] = max(m.sums.b[k]/n-d*d, 0)
		exact = exact && !(d*d > secondPass*m.variance[k])
	}
	return exact
}
