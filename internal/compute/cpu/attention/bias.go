package attention

import (
	"github.com/paragon-train/paragon/internal/compute/f32"
)

// biasGrad is the plan of the gradient of a bias, and the call under way: dS, summed over the
// examples and heads that share a bias, in order. P is computed once more.
type biasGrad struct {
	dbias []float32
	task  func(thread, i int)
}

func (l *Plan) planBiasGrad() { l.bias.task = l.biasTask }

func (l *Plan) biasMemory(a *arena) {
	for i := range l.workers {
		w := &l.workers[i]
		w.packed = -1
		w.keys, w.values = a.take(backwardKeys*l.depthD), a.take(backwardKeys*l.depthD)
		w.panel, w.queries.do = a.take(l.depthD*l.cols), a.take(l.depthD*l.cols)
		w.s, w.sum = a.take(backwardKeys*l.cols), a.take(backwardKeys*l.cols)
		w.block.ds = a.take(backwardKeys * l.cols)
		w.queries.shift, w.queries.delta = a.take(l.cols), a.take(l.cols)
		l.smallMemory(w, backwardKeys, a)
	}
}

// BiasScratchLen is the number of values of scratch memory for BiasGrad.
func (l *Plan) BiasScratchLen() int {
	var a arena
	l.biasMemory(&a)
	return a.used
}

// BiasGrad sets dbias from o, lse and do. scratch has BiasScratchLen values.
func (l *Plan) BiasGrad(dbias []float32, o, do Heads, lse []float32, in Inputs, scratch []float32) {
	g := &l.backward
	g.o, g.do, g.lse, l.in, l.bias.dbias = o, do, lse, in, dbias
	l.biasMemory(&arena{memory: scratch})
	l.pool.RunThreads(l.BiasB*l.BiasH*l.panels, l.bias.task)
	g.o, g.do, g.lse, l.in, l.bias.dbias = Heads{}, Heads{}, nil, Inputs{}, nil
}

// biasTask computes the gradient of a panel of queries.
func (l *Plan) biasTask(thread, i int) {
	w := &l.workers[thread]
	bias, i0 := i/l.panels, i%l.panels*l.cols
	bb, bh := bias/l.BiasH, bias%l.BiasH
	n := min(l.cols, l.T-i0)
	for k0 := 0; k0 < l.S; k0 += backwardKeys {
		keys := min(backwardKeys, l.S-k0)
		sum := w.sum[:keys*l.cols]
		clear(sum)
		for b := bb; b < l.B; b += l.BiasB {
			for h := bh; h < l.H; h += l.BiasH {
				l.addBias(w, sum, &tileOf{b: b, h: h, i0: i0, queries: n, k0: k0, n: keys})
			}
		}
		l.transpose(w, l.bias.dbias[l.biasRow(bb, bh, i0)+k0:], l.S, sum, l.cols, keys, n)
	}
}

// addBias adds dS of a tile.
func (l *Plan) addBias(w *worker, sum []float32, t *tileOf) {
	lo, hi := l.visible(t.b, t.i0, t.queries)
	if lo >= t.k0+t.n || hi <= t.k0 {
		return
	}
	hk := t.h / l.group
	l.packRows(w.keys, &l.in.K, t.b, t.k0, hk, t.n)
	l.packRows(w.values, &l.in.V, t.b, t.k0, hk, t.n)
	l.packPanel(w, w.panel, &l.in.Q, t.b, t.i0, t.h, t.queries)
	l.packPanel(w, w.queries.do, &l.backward.do, t.b, t.i0, t.h, t.queries)
	l.statistics(w.queries.shift, w.queries.delta, t.b, t.h, t.i0, t.queries)
	p, ds := w.s[:t.n*l.cols], w.block.ds[:t.n*l.cols]
	at := *t
	at.n = min(t.n, hi-t.k0)
	x := side{w.keys, w.values, w.panel, w.queries.do, w.queries.shift, w.queries.delta}
	l.probabilities(w, p[:at.n*l.cols], ds[:at.n*l.cols], &x, &at)
	f32.AddTo(sum[:at.n*l.cols], ds[:at.n*l.cols])
}
