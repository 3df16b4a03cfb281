package attention

import (
	"math"

	"github.com/paragon-train/paragon/internal/compute/f32"
)

// forward is the plan of the forward pass, and the call under way.
type forward struct {
	// chunks are tasks of each head of keys: its panels are dealt out to them.
	chunks int

	o    Heads
	lse  []float32
	task func(thread, i int)
}

func (l *Plan) planForward() {
	f := &l.forward
	f.chunks = max(1, min(l.group*l.panels, 8*l.threads/(l.B*l.Hk)))
	f.task = l.forwardTask
}

// forwardMemory gives the threads their memory.
func (l *Plan) forwardMemory(a *arena) {
	for i := range l.workers {
		w := &l.workers[i]
		w.packed = -1
		w.keys = a.take(l.S * l.depthD)
		w.turned = a.take(l.D * l.stride)
		w.panel = a.take(l.depthD * l.cols)
		w.s = a.take((forwardKeys + 1) * l.cols)
		w.sum = a.take(l.D * l.cols)
		l.smallMemory(w, forwardKeys, a)
	}
}

// smallMemory is what a thread needs in all passes, for blocks of so many keys.
func (l *Plan) smallMemory(w *worker, keys int, a *arena) {
	for _, x := range []*[]float32{&w.most, &w.total, &w.shift, &w.last, &w.unused} {
		*x = a.take(l.cols)
	}
	if l.affine || l.Threshold > 0 {
		w.more = a.take(keys * l.cols)
	}
	if l.tile.Pairs() {
		w.pairs = a.take(max(partKeys/2*l.D, l.cols*l.depthD))
		w.s16 = a.take((keys + 1) / 2 * l.cols)
	}
}

// ForwardScratchLen is the number of values of scratch memory for Forward.
func (l *Plan) ForwardScratchLen() int {
	var a arena
	l.forwardMemory(&a)
	return a.used
}

// Forward sets o, and lse (B,H,T) unless it is nil. scratch has ForwardScratchLen values.
func (l *Plan) Forward(o Heads, lse []float32, in Inputs, scratch []float32) {
	f := &l.forward
	f.o, f.lse, l.in = o, lse, in
	l.forwardMemory(&arena{memory: scratch})
	l.pool.RunThreads(l.B*l.Hk*f.chunks, f.task)
	f.o, f.lse, l.in = Heads{}, nil, Inputs{}
}

// forwardTask computes panels of a head of keys, in turn with its other chunks, those that see most
// keys first.
func (l *Plan) forwardTask(thread, i int) {
	w, head, chunk := &l.workers[thread], i/l.forward.chunks, i%l.forward.chunks
	l.packKeys(w, head, false)
	b, hk := head/l.Hk, head%l.Hk
	for u := chunk; u < l.group*l.panels; u += l.forward.chunks {
		l.fetchForward(head, u, l.group*l.panels)
		l.forwardPanel(w, b, hk*l.group+u%l.group, l.panels-1-u/l.group)
	}
}

func (l *Plan) forwardPanel(w *worker, b, h, panel int) {
	i0 := panel * l.cols
	t := tileOf{b: b, h: h, i0: i0, queries: min(l.cols, l.T-i0)}
	lo, hi := l.visible(b, i0, t.queries)
	for c := range w.most {
		w.most[c], w.total[c] = float32(math.Inf(-1)), 0
	}
	if lo >= hi {
		clear(w.sum)
	} else {
		l.packPanel(w, w.panel, &l.in.Q, b, i0, h, t.queries)
	}
	// Blocks begin at even keys, as pairs do.
	lo &^= 1
	for t.k0 = lo; t.k0 < hi; t.k0 += forwardKeys {
		t.n = min(forwardKeys, hi-t.k0)
		l.forwardTile(w, &t, t.k0 > lo)
	}
	l.forwardStore(w, &t)
}

// forwardTile adds a block of keys to a panel's sums. more says that it is not the first.
func (l *Plan) forwardTile(w *worker, t *tileOf, more bool) {
	s := w.s[:t.n*l.cols]
	scale := l.scores(w, s, w.keys[t.k0*l.depthD:], w.panel, t)
	copy(w.last, w.most)
	f32.MaxColumns(w.most, s, scale)
	for c, m := range w.most {
		// A column that has seen nothing has scores of −∞ alone, and is not shifted by that.
		if w.shift[c] = m; math.IsInf(float64(m), -1) {
			w.shift[c] = 0
		}
	}
	if more {
		f32.ExpColumns(w.last, w.unused, w.shift, 1)
		f32.Mul(w.total, w.total, w.last)
		f32.ScaleColumns(w.sum, w.last)
	}
	f32.ExpColumns(s, w.total, w.shift, scale)
	if l.Threshold > 0 {
		l.mask(w, t)
		f32.Mul(s, s, w.more[:len(s)])
	}
	right, depth := s, l.depth(t.n)
	if l.tile.Pairs() {
		right = w.s16
		l.pairRows(right, l.cols, s, l.cols, t.n, l.cols, l.cols)
	}
	l.multiply(w, w.sum, w.turned, l.stride, l.D, l.depth(t.k0), depth, right, more)
}

// forwardStore writes a panel's result.
func (l *Plan) forwardStore(w *worker, t *tileOf) {
	f := &l.forward
	for c, sum := range w.total {
		w.shift[c] = 0
		if sum != 0 {
			w.shift[c] = 1 / sum
		}
	}
	if f.lse != nil {
		lse := f.lse[(t.b*l.H+t.h)*l.T+t.i0:]
		for c := range t.queries {
			lse[c] = float32((float64(w.most[c]) + math.Log2(float64(w.total[c]))) * math.Ln2)
		}
	}
	f32.ScaleColumns(w.sum, w.shift)
	l.transpose(w, f.o.Data[l.at(&f.o, t.b, t.i0, t.h):], f.o.Position, w.sum, l.cols, l.D, t.queries)
}
