package conv

import (
	"github.com/paragon-train/paragon/internal/compute/f32"
	"github.com/paragon-train/paragon/internal/compute/pool"
)

// widenGrain is the number of values that are widened in one task, about.
const widenGrain = 64 << 10

// A widenedWeight is a backward-weight of float32 whose images may be stored as bfloat16: they are
// widened to scratch memory first.
type widenedWeight struct {
	weightPass
	images [2]struct {
		n     int // values
		tasks int

		// from is the input of the call under way, if it is bfloat16.
		from []uint16

		to []float32
	}
	task func(i int)
}

func newWidenedWeight(s Shape, inner weightPass) *widenedWeight {
	w := &widenedWeight{weightPass: inner}
	for i, n := range []int{s.XLen(), s.YLen()} {
		w.images[i].n, w.images[i].tasks = n, (n+widenGrain-1)/widenGrain
	}
	w.task = w.widen
	return w
}

func (w *widenedWeight) scratchLen(half bool) int {
	n := w.weightPass.scratchLen(false)
	if half {
		n += w.images[0].n + w.images[1].n
	}
	return n
}

func (w *widenedWeight) run(p *pool.Pool, dw []float32, x, dy f32.Array, scratch []float32) {
	if x.BF16 != nil || dy.BF16 != nil {
		for i, a := range []*f32.Array{&x, &dy} {
			if m := &w.images[i]; a.BF16 != nil {
				m.from = a.BF16
				m.to, scratch = scratch[:m.n], scratch[m.n:]
				*a = f32.Array{F32: m.to}
			}
		}
		p.Run(w.images[0].tasks+w.images[1].tasks, w.task)
		w.images[0].from, w.images[0].to, w.images[1].from, w.images[1].to = nil, nil, nil, nil
	}
	w.weightPass.run(p, dw, x, dy, scratch)
}

// widen widens one piece of x or, after those, of dy.
func (w *widenedWeight) widen(i int) {
	m := &w.images[0]
	if i >= m.tasks {
		i -= m.tasks
		m = &w.images[1]
	}
	if m.from != nil {
		lo, hi := m.n*i/m.tasks, m.n*(i+1)/m.tasks
		f32.FromBFloat16(m.to[lo:hi], m.from[lo:hi])
	}
}
