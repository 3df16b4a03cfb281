package recurrent

import "github.com/paragon-train/paragon/internal/compute/f32"

// Forward computes the results. scratch has ForwardScratchLen values.
func (l *Plan) Forward(out Results, in Inputs, scratch []float32) {
	l.in, l.out = in, out
	l.room(&l.over, scratch)
	l.pool.Run(l.over.panels, l.packOver)
	l.pool.RunThreads(l.tasks, l.forward)
	l.release(&l.over)
}

// forwardTask computes all steps of the examples of task i.
func (l *Plan) forwardTask(thread, i int) {
	w := &l.workers[thread]
	first, n := l.task(i)
	for r := range n {
		set(row(w.h, r, l.H), row(l.in.H0, first+r, l.H))
		set(row(w.c, r, l.H), row(l.in.C0, first+r, l.H))
	}
	for k := range l.most(first, n) {
		l.activate(w, first, n, k)
		l.multiply(w, &l.over, w.a, w.h, false)
		for _, r := range w.active {
			b := first + r
			t := l.place(b, k)
			set(row(l.out.Before, b*l.T+t, l.H), row(w.h, r, l.H))
			if l.GRU {
				l.unit(w, r, b, t)
			} else {
				l.cell(w, r, b, t)
			}
			set(l.out.Y.at(b, t, l.H), row(w.h, r, l.H))
		}
	}
	for r := range n {
		b := first + r
		set(l.out.Last[0].at(b, 0, l.H), row(w.h, r, l.H))
		set(l.out.Last[1].at(b, 0, l.H), row(w.c, r, l.H))
		for t := l.steps(b); t < l.T; t++ {
			clear(row(l.out.Before, b*l.T+t, l.H))
			clear(l.out.Y.at(b, t, l.H))
		}
	}
}

// cell is a step of an LSTM of one example: the state h and c of row r.
func (l *Plan) cell(w *worker, r, b, t int) {
	h, at := l.H, b*l.T+t
	a, state, c, more := row(w.a, r, l.width), row(w.h, r, h), row(w.c, r, h), row(w.more, r, h)
	f32.Add(a, a, row(l.in.Z, at, l.width))
	gates := row(l.out.Gates, at, l.width)
	if gates == nil {
		gates = a
	}
	f32.Activate(f32.Sigmoid, gates[:2*h], a[:2*h], 0)
	f32.Activate(f32.Tanh, gates[2*h:3*h], a[2*h:3*h], 0)
	f32.Activate(f32.Sigmoid, gates[3*h:], a[3*h:], 0)
	f32.Mul(c, c, gates[h:2*h])
	f32.Mul(more, gates[:h], gates[2*h:3*h])
	f32.AddTo(c, more)
	set(row(l.out.Kept, at, h), c)
	f32.Activate(f32.Tanh, more, c, 0)
	f32.Mul(state, gates[3*h:], more)
}

// unit is a step of a GRU of one example: the state h of row r.
func (l *Plan) unit(w *worker, r, b, t int) {
	h, at := l.H, b*l.T+t
	a, state, more := row(w.a, r, l.width), row(w.h, r, h), row(w.more, r, h)
	z := row(l.in.Z, at, l.width)
	if l.in.Bias != nil {
		f32.AddTo(a, l.in.Bias)
	}
	set(row(l.out.Kept, at, h), a[2*h:])
	f32.AddTo(a[:2*h], z[:2*h])
	f32.Activate(f32.Sigmoid, a[:2*h], a[:2*h], 0)
	f32.Mul(a[2*h:], a[2*h:], a[:h])
	f32.AddTo(a[2*h:], z[2*h:])
	f32.Activate(f32.Tanh, a[2*h:], a[2*h:], 0)
	set(row(l.out.Gates, at, l.width), a)

	// h = n + u·(h₋ − n)
	f32.Axpby(state, -1, a[2*h:], 1)
	f32.Mul(more, state, a[h:2*h])
	f32.Add(state, more, a[2*h:])
}
