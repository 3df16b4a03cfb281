package cpu

import (
	"math"

	"github.com/paragon-train/paragon/internal/compute/f32"
	"github.com/paragon-train/paragon/internal/compute/op"
	"github.com/paragon-train/paragon/internal/compute/plan"
)

// A groupNorms has the kernels of group normalisation and of its gradient, over channels last: an
// image's sums are taken for each channel and joined to those of groups.
type groupNorms struct {
	mem     *memory
	threads threads
}

func (g *groupNorms) builders() builders {
	return builders{plan.GroupNorm: g.norm, plan.GroupNormGrad: g.normGrad}
}

// A groupSize is how the channels of images are cut.
type groupSize struct{ images, pixels, c, groups int }

func groupSizeOf(o *plan.Op, groups int) groupSize {
	s := o.In[0].Shape
	return groupSize{images: s[0], pixels: s[2] * s[3], c: s[1], groups: groups}
}

// channelsOf are the first and, without, the last channel of a group.
func (s groupSize) channelsOf(group int) (lo, hi int) {
	n := s.c / s.groups
	return group * n, (group + 1) * n
}

// count is how many numbers a group of an image has.
func (s groupSize) count() float64 { return float64(s.c / s.groups * s.pixels) }

// norm is op.GroupNorm: a pass for the statistics, and one that writes y.
func (g *groupNorms) norm(o *plan.Op) (kernel, error) {
	a := o.Attr.(*op.GroupNorm)
	s := groupSizeOf(o, a.Groups)
	size := s.pixels * s.c
	return kernel{scratch: 4 * int64(2*s.c*s.images), doubles: 2 * s.c * s.images, bind: func() func() error {
		y, x, w, b := g.mem.floats(o.Out[0]), g.mem.floats(o.In[0]), g.mem.floats(o.In[1]), g.mem.floats(o.In[2])
		var means, rstds []float32
		if len(o.Out) > 2 {
			means, rstds = g.mem.floats(o.Out[1]), g.mem.floats(o.Out[2])
		}
		room, doubles := g.mem.scratch(o), g.mem.doubles(2*s.c*s.images)
		return then(g.threads.split(s.images, max(1, grain/size), func(lo, hi int) {
			for i := lo; i < hi; i++ {
				sums := doubles[2*s.c*i : 2*s.c*(i+1)]
				m := groupMoments{s, rowAt(x, i, size), sums[:s.c], sums[s.c:], rowAt(room, 2*i, s.c), rowAt(room, 2*i+1, s.c)}
				m.line(w, b, a.Eps, rowAt(means, i, s.groups), rowAt(rstds, i, s.groups))
				f32.ScaleShift(rowAt(y, i, size), m.x, m.scale, m.shift, false)
			}
		}))
	}}, nil
}

// A groupMoments finds the statistics of an image's groups, from sums around centers that some of
// the numbers give, as a moments does; a second pass follows where those were no good.
type groupMoments struct {
	groupSize
	x            []float32
	sum, squares []float64

	// scale and shift are for each channel. shift has the centers before.
	scale, shift []float32
}

// line sets scale and shift so that y = x·scale + shift, and means and rstds unless they are nil.
func (m *groupMoments) line(w, b []float32, eps float64, means, rstds []float32) {
	m.sample()
	if !m.around() {
		for k := range m.groups {
			mean, _ := m.of(k)
			m.center(k, float32(mean))
		}
		m.around()
	}
	for k := range m.groups {
		mean, variance := m.of(k)
		rstd := 1 / math.Sqrt(variance+eps)
		lo, hi := m.channelsOf(k)
		for c := lo; c < hi; c++ {
			m.scale[c] = float32(float64(w[c]) * rstd)
			m.shift[c] = float32(float64(b[c]) - mean*float64(w[c])*rstd)
		}
		if means != nil {
			means[k] = float32(mean)
		}
		if rstds != nil {
			rstds[k] = float32(rstd)
		}
	}
}

// sample makes the mean of some pixels each group's center.
func (m *groupMoments) sample() {
	n := min(m.pixels, sampleRows)
	for k := range m.groups {
		lo, hi := m.channelsOf(k)
		sum := 0.0
		for i := range n {
			sum += float64(f32.Sum(m.x[i*m.pixels/n*m.c:][lo:hi]))
		}
		m.center(k, float32(sum/float64(n*(hi-lo))))
	}
}

func (m *groupMoments) center(k int, v float32) {
	lo, hi := m.channelsOf(k)
	for c := lo; c < hi; c++ {
		m.shift[c] = v
	}
}

// around takes the sums around the centers, and reports whether those were near enough.
func (m *groupMoments) around() bool {
	clear(m.sum)
	clear(m.squares)
	f32.ChannelSumsAround(m.sum, m.squares, m.x, m.shift)
	for k := range m.groups {
		lo, _ := m.channelsOf(k)
		mean, variance := m.of(k)
		if d := mean - float64(m.shift[lo]); d*d > secondPass*variance {
			return false
		}
	}
	return true
}

// of are the mean and the variance of a group, from the sums around its center.
func (m *groupMoments) of(k int) (mean, variance float64) {
	lo, hi := m.channelsOf(k)
	d := sumOf(m.sum[lo:hi]) / m.count()
	return float64(m.shift[lo]) + d, max(sumOf(m.squares[lo:hi])/m.count()-d*d, 0)
}

func sumOf(x []float64) (sum float64) {
	for _, v := range x {
		sum += v
	}
	return sum
}

// normGrad is op.GroupNormGrad: a pass for the sums and one that writes dx. Gradients of the weights
// are sums over the images, in their order.
func (g *groupNorms) normGrad(o *plan.Op) (kernel, error) {
	s := groupSizeOf(o, o.Attr.(*op.GroupNormGrad).Groups)
	size := s.pixels * s.c
	return kernel{scratch: 4 * int64(3*s.c*s.images), doubles: 2 * s.c * s.images, bind: func() func() error {
		x, w, means, rstds, dy := g.mem.floats(o.In[0]), g.mem.floats(o.In[1]), g.mem.floats(o.In[2]), g.mem.floats(o.In[3]), g.mem.floats(o.In[4])
		dx, dw, db := g.mem.floats(o.Out[0]), g.mem.floats(o.Out[1]), g.mem.floats(o.Out[2])
		room, doubles := g.mem.scratch(o), g.mem.doubles(2*s.c*s.images)
		images := g.threads.split(s.images, max(1, grain/size), func(lo, hi int) {
			for i := lo; i < hi; i++ {
				sums := doubles[2*s.c*i : 2*s.c*(i+1)]
				p := groupPlane{s, sums[:s.c], sums[s.c:], rowAt(room, 3*i, s.c), rowAt(room, 3*i+1, s.c), rowAt(room, 3*i+2, s.c)}
				p.fit(rowAt(dy, i, size), rowAt(x, i, size), w, rowAt(means, i, s.groups), rowAt(rstds, i, s.groups))
				if dx != nil {
					f32.NormGrad(rowAt(dx, i, size), rowAt(dy, i, size), rowAt(x, i, size), nil, p.p, p.q, p.r)
				}
			}
		})
		return then(images, func() {
			addImages(dw, doubles[s.c:], s)
			addImages(db, doubles, s)
		})
	}}, nil
}

// addImages adds what the images give to the gradient of a weight, which is nil if it is not wanted.
func addImages(sum []float32, doubles []float64, s groupSize) {
	for c := range sum {
		total := 0.0
		for i := range s.images {
			total += doubles[2*s.c*i+c]
		}
		sum[c] = float32(total)
	}
}

// A groupPlane is the gradient of an image: dx = dy·p + x·q + r for each channel.
type groupPlane struct {
	groupSize

	// sumDy and sumDyX are Σ dy and Σ dy·x̂.
	sumDy, sumDyX []float64

	p, q, r []float32
}

// fit sets the plane and the sums.
func (g *groupPlane) fit(dy, x, w, means, rstds []float32) {
	clear(g.sumDy)
	clear(g.sumDyX)
	for k, mean := range means {
		lo, hi := g.channelsOf(k)
		for c := lo; c < hi; c++ {
			g.r[c] = mean
		}
	}
	f32.ChannelGradSums(g.sumDy, g.sumDyX, dy, x, nil, g.r)
	for k, mean := range means {
		lo, hi := g.channelsOf(k)
		rstd := float64(rstds[k])
		var sumG, sumGX float64
		for c := lo; c < hi; c++ {
			g.sumDyX[c] *= rstd
			sumG += g.sumDy[c] * float64(w[c])
			sumGX += g.sumDyX[c] * float64(w[c])
		}
		slope := -rstd * rstd * sumGX / g.count()
		for c := lo; c < hi; c++ {
			g.p[c], g.q[c], g.r[c] = float32(rstd*float64(w[c])), float32(slope), float32(-rstd*sumG/g.count()-slope*float64(mean))
		}
	}
}
