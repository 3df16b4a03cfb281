package recurrent

import "github.com/paragon-train/paragon/internal/compute/f32"

// Backward computes the gradients of z and of the first states, and a GRU's da. scratch has
// BackwardScratchLen values. Of the inputs W, C0 and Lengths are read.
func (l *Plan) Backward(g Grads, in Inputs, scratch []float32) {
	l.in, l.grads = in, g
	l.room(&l.back, scratch)
	l.pool.Run(l.back.panels, l.packBack)
	l.pool.RunThreads(l.tasks, l.backward)
	l.release(&l.back)
}

// backwardTask computes all steps of the examples of task i, from the last on.
func (l *Plan) backwardTask(thread, i int) {
	w, g := &l.workers[thread], &l.grads
	first, n := l.task(i)
	for r := range n {
		b := first + r
		set(row(w.h, r, l.H), g.Last[0].at(b, 0, l.H))
		set(row(w.c, r, l.H), g.Last[1].at(b, 0, l.H))
		for t := l.steps(b); t < l.T; t++ {
			clear(row(g.DZ, b*l.T+t, l.width))
			clear(row(g.DA, b*l.T+t, l.width))
		}
	}
	for k := l.most(first, n) - 1; k >= 0; k-- {
		l.activate(w, first, n, k)
		for _, r := range w.active {
			b := first + r
			t := l.place(b, k)
			if dy := g.Y.at(b, t, l.H); dy != nil {
				f32.AddTo(row(w.h, r, l.H), dy)
			}
			if l.GRU {
				l.unitBack(w, r, b*l.T+t)
				continue
			}
			before := row(l.in.C0, b, l.H)
			if k > 0 {
				before = row(g.Kept, b*l.T+l.place(b, k-1), l.H)
			}
			l.cellBack(w, r, b*l.T+t, before)
		}
		l.multiply(w, &l.back, w.h, w.a, l.GRU)
	}
	for r := range n {
		set(row(g.DH0, first+r, l.H), row(w.h, r, l.H))
		set(row(g.DC0, first+r, l.H), row(w.c, r, l.H))
	}
}

// cellBack is a step of an LSTM backward, of row r: da, and dc of the step before. before is c there,
// nil for 0.
func (l *Plan) cellBack(w *worker, r, at int, before []float32) {
	h := l.H
	da, dh, dc, more := row(w.a, r, l.width), row(w.h, r, h), row(w.c, r, h), row(w.more, r, h)
	gates := row(l.grads.Gates, at, l.width)
	i, f, g, o := gates[:h], gates[h:2*h], gates[2*h:3*h], gates[3*h:]
	th := da[:h]
	f32.Activate(f32.Tanh, th, row(l.grads.Kept, at, h), 0)
	f32.Mul(more, dh, th)
	f32.ActivateGrad(f32.Sigmoid, da[3*h:], more, o, 0)
	f32.Mul(more, dh, o)
	f32.ActivateGrad(f32.Tanh, more, more, th, 0)
	f32.AddTo(dc, more)
	if before == nil {
		clear(da[h : 2*h])
	} else {
		f32.Mul(more, dc, before)
		f32.ActivateGrad(f32.Sigmoid, da[h:2*h], more, f, 0)
	}
	f32.Mul(more, dc, i)
	f32.ActivateGrad(f32.Tanh, da[2*h:3*h], more, g, 0)
	f32.Mul(more, dc, g)
	f32.ActivateGrad(f32.Sigmoid, da[:h], more, i, 0)
	f32.Mul(dc, dc, f)
	set(row(l.grads.DZ, at, l.width), da)
}

// unitBack is a step of a GRU backward, of row r: dz, da, and dh of the step before as far as it does
// not go through W.
func (l *Plan) unitBack(w *worker, r, at int) {
	h := l.H
	da, dh, more := row(w.a, r, l.width), row(w.h, r, h), row(w.more, r, h)
	gates := row(l.grads.Gates, at, l.width)
	reset, u, n := gates[:h], gates[h:2*h], gates[2*h:]
	dn := da[2*h:]

	// du by h₋ − n, dn by dh − dh·u.
	set(more, row(l.grads.Before, at, h))
	f32.Axpby(more, -1, n, 1)
	f32.Mul(more, more, dh)
	f32.ActivateGrad(f32.Sigmoid, da[h:2*h], more, u, 0)
	f32.Mul(more, dh, u)
	f32.Axpby(dh, -1, more, 1)
	f32.ActivateGrad(f32.Tanh, dn, dh, n, 0)
	copy(dh, more)
	f32.Mul(more, dn, row(l.grads.Kept, at, h))
	f32.ActivateGrad(f32.Sigmoid, da[:h], more, reset, 0)
	f32.Mul(more, dn, reset)
	set(row(l.grads.DZ, at, l.width), da)
	copy(dn, more)
	set(row(l.grads.DA, at, l.width), da)
}
