package attention

import (
	"math"

	"github.com/paragon-train/paragon/internal/compute/f32"
)

// backward is the plan of the backward pass, and the call under way.
type backward struct {
	// parts are tasks of each head of keys: its blocks of keys are dealt out to them.
	parts, blocks int

	dq, dk, dv, o, do Heads
	lse               []float32

	// dqParts has the parts of dQ of all tasks, where there are several.
	dqParts []float32

	task func(thread, i int)
	add  func(thread, i int)
}

// queries are the heads of queries of a head of keys, packed for the backward pass: those of one
// head at a time.
type queries struct {
	// q and do are panels transposed, and qRows and doRows the rows of right operands, in panels
	// of D.
	q, do, qRows, doRows []float32

	// dq are panels of the gradient, transposed.
	dq []float32

	// shift is lse in units of log 2, and delta Σ do·o, of each query. shift is +∞ where a query
	// sees no key.
	shift, delta []float32
}

// A block is what becomes of a block of keys.
type block struct {
	// p and ds are tiles of panels, backwardKeys rows each.
	p, ds []float32

	// p16 and ds16 are their rows as pairs of queries, of a tile of pairs.
	p16, ds16 []float32

	// dk and dv are gradients, in panels of D.
	dk, dv []float32
}

func (l *Plan) planBackward() {
	g := &l.backward
	g.blocks = (l.S + backwardKeys - 1) / backwardKeys
	heads := l.B * l.Hk
	g.parts = max(1, min((leastTasks+heads-1)/heads, mostParts, g.blocks))
	g.task, g.add = l.backwardTask, l.addParts
}

// dqLen is the number of values of dQ of one head, in panels.
func (l *Plan) dqLen() int { return l.panels * l.D * l.cols }

func (l *Plan) backwardMemory(a *arena) {
	g := &l.backward
	rows := l.panels * l.cols
	for i := range l.workers {
		w := &l.workers[i]
		w.packed = -1
		w.keys, w.values = a.take(l.S*l.depthD), a.take(l.S*l.depthD)
		w.turned = a.take(l.D * l.stride)
		l.smallMemory(w, backwardKeys, a)
		q := &w.queries
		q.q, q.do = a.take(l.panels*l.depthD*l.cols), a.take(l.panels*l.depthD*l.cols)
		q.qRows, q.doRows = a.take(l.panelsD*l.depth(rows)*l.cols), a.take(l.panelsD*l.depth(rows)*l.cols)
		q.shift, q.delta = a.take(rows), a.take(rows)
		if g.parts == 1 {
			q.dq = a.take(l.dqLen())
		}
		k := &w.block
		k.p, k.ds = a.take(backwardPanels*backwardKeys*l.cols), a.take(backwardPanels*backwardKeys*l.cols)
		if l.tile.Pairs() {
			k.p16, k.ds16 = a.take(backwardPanels*backwardKeys*l.cols/2), a.take(backwardPanels*backwardKeys*l.cols/2)
		}
		k.dk, k.dv = a.take(l.panelsD*backwardKeys*l.cols), a.take(l.panelsD*backwardKeys*l.cols)
	}
	if g.parts > 1 {
		g.dqParts = a.take(l.B * l.H * g.parts * l.dqLen())
	}
}

// BackwardScratchLen is the number of values of scratch memory for Backward.
func (l *Plan) BackwardScratchLen() int {
	var a arena
	l.backwardMemory(&a)
	return a.used
}

// Backward sets dq, dk and dv, as far as they are wanted, from o, lse and do. scratch has
// BackwardScratchLen values.
func (l *Plan) Backward(dq, dk, dv, o, do Heads, lse []float32, in Inputs, scratch []float32) {
	g := &l.backward
	g.dq, g.dk, g.dv, g.o, g.do, g.lse, l.in = dq, dk, dv, o, do, lse, in
	l.backwardMemory(&arena{memory: scratch})
	l.pool.RunThreads(l.B*l.Hk*g.parts, g.task)
	if g.parts > 1 && dq.Data != nil {
		l.pool.RunThreads(l.B*l.H, g.add)
	}
	g.dq, g.dk, g.dv, g.o, g.do, g.lse, g.dqParts, l.in = Heads{}, Heads{}, Heads{}, Heads{}, Heads{}, nil, nil, Inputs{}
}

// backwardTask computes a part of the blocks of a head of keys.
func (l *Plan) backwardTask(thread, i int) {
	g, w := &l.backward, &l.workers[thread]
	head, part := i/g.parts, i%g.parts
	l.packKeys(w, head, true)
	b := head / l.Hk
	for first := range l.group {
		h := head%l.Hk*l.group + first
		if g.parts > 1 {
			w.queries.dq = g.dqParts[((b*l.H+h)*g.parts+part)*l.dqLen():][:l.dqLen()]
		}
		l.packQueries(w, b, h)
		for block := part; block < g.blocks; block += g.parts {
			l.backwardBlock(w, b, h, block*backwardKeys, first > 0)
		}
		if g.parts == 1 && g.dq.Data != nil {
			l.storeQueries(w, b, h, w.queries.dq)
		}
	}
}

// packQueries packs what the backward pass reads of a head of queries.
func (l *Plan) packQueries(w *worker, b, h int) {
	g, q := &l.backward, &w.queries
	clear(q.dq)
	size, rows := l.depthD*l.cols, l.depth(l.cols)*l.cols
	for p := range l.panels {
		i0 := p * l.cols
		n := min(l.cols, l.T-i0)
		l.packPanel(w, q.q[p*size:(p+1)*size], &l.in.Q, b, i0, h, n)
		l.packPanel(w, q.do[p*size:(p+1)*size], &g.do, b, i0, h, n)
		l.packColumns(q.qRows[p*rows:], l.panels*rows, &l.in.Q, b, i0, h, n)
		l.packColumns(q.doRows[p*rows:], l.panels*rows, &g.do, b, i0, h, n)
	}
	l.statistics(q.shift, q.delta, b, h, 0, l.T)
}

// statistics sets shift and delta of n queries from i0 on; those after them see no key.
func (l *Plan) statistics(shift, delta []float32, b, h, i0, n int) {
	g := &l.backward
	inf := float32(math.Inf(1))
	for i := range shift {
		if shift[i], delta[i] = inf, 0; i >= n {
			continue
		}
		lse := g.lse[(b*l.H+h)*l.T+i0+i]
		if !math.IsInf(float64(lse), -1) {
			shift[i] = lse * math.Log2E
		}
		delta[i] = f32.Dot(g.o.Data[l.at(&g.o, b, i0+i, h):][:l.D], g.do.Data[l.at(&g.do, b, i0+i, h):][:l.D])
	}
}

// backwardBlock computes dk and dv of a block of keys, and adds its part to dq. more says that dk and
// dv have the part of another head already.
func (l *Plan) backwardBlock(w *worker, b, h, k0 int, more bool) {
	k := &w.block
	keys := min(backwardKeys, l.S-k0)
	some := false
	l.fetch(&l.backward.dk, b, k0, h/l.group, keys)
	l.fetch(&l.backward.dv, b, k0, h/l.group, keys)
	for p := 0; p < l.panels; {
		// Panels that see none of these keys are left out.
		n := 0
		for ; n < backwardPanels && p < l.panels; p++ {
			l.fetchBackward(b, h, k0/backwardKeys*l.panels+p, l.backward.blocks*l.panels)
			if l.backwardTile(w, b, h, k0, keys, p, n) {
				w.segments[n] = l.rowsOf(p, n)
				n++
			}
		}
		if n > 0 {
			l.addBlock(w, k.dv, k.p, k.p16, w.queries.doRows, keys, n, some)
			l.addBlock(w, k.dk, k.ds, k.ds16, w.queries.qRows, keys, n, some)
			some = true
		}
	}
	if !some {
		clear(k.dk)
		clear(k.dv)
	}
	l.storeBlock(&l.backward.dv, k.dv, 1, b, h/l.group, k0, keys, more)
	l.storeBlock(&l.backward.dk, k.dk, float32(l.Scale), b, h/l.group, k0, keys, more)
}

// rowsOf is the sum over the queries of panel p, which is tile n of a block.
func (l *Plan) rowsOf(p, n int) f32.Segment {
	depth := l.depth(l.cols)
	return f32.Segment{In: n * backwardKeys * depth, Len: depth, W: p * depth * l.cols}
}

// backwardTile computes p and dS of a block of keys and panel p, as tile n of the block, and adds its
// part to dq. false: the panel sees none of the keys.
func (l *Plan) backwardTile(w *worker, b, h, k0, keys, p, n int) bool {
	q, k := &w.queries, &w.block
	t := tileOf{b: b, h: h, i0: p * l.cols}
	t.queries = min(l.cols, l.T-t.i0)
	lo, hi := l.visible(b, t.i0, t.queries)
	lo, hi = max(lo&^1, k0), min(hi, k0+keys)
	if lo >= hi {
		return false
	}
	t.k0, t.n = lo, hi-lo
	at, size, columns := n*backwardKeys*l.cols, l.depthD*l.cols, p*l.cols
	probs, ds := k.p[at:at+backwardKeys*l.cols], k.ds[at:at+backwardKeys*l.cols]
	from, to := (lo-k0)*l.cols, (hi-k0)*l.cols
	for _, x := range [][]float32{probs, ds} {
		clear(x[:from])
		clear(x[to : keys*l.cols])
	}
	probs, ds = probs[from:to], ds[from:to]
	x := side{w.keys[lo*l.depthD:], w.values[lo*l.depthD:], q.q[p*size : (p+1)*size], q.do[p*size : (p+1)*size], q.shift[columns : columns+l.cols], q.delta[columns : columns+l.cols]}
	l.probabilities(w, probs, ds, &x, &t)
	right := ds
	if l.tile.Pairs() {
		right = w.s16
		l.pairRows(right, l.cols, ds, l.cols, t.n, l.cols, l.cols)
		l.tile.PackPairs(k.p16[at/2:(at+keys*l.cols)/2], k.p[at:at+keys*l.cols])
		l.tile.PackPairs(k.ds16[at/2:(at+keys*l.cols)/2], k.ds[at:at+keys*l.cols])
	}
	if l.backward.dq.Data != nil {
		l.multiply(w, q.dq[p*l.D*l.cols:(p+1)*l.D*l.cols], w.turned, l.stride, l.D, l.depth(lo), l.depth(t.n), right, true)
	}
	return true
}

// A side is what a tile is computed from: rows of keys and values, panels of queries and do, and
// shift and delta of the queries.
type side struct{ keys, values, q, do, shift, delta []float32 }

// probabilities sets p to P, with dropout, and ds to dS of a tile.
func (l *Plan) probabilities(w *worker, p, ds []float32, x *side, t *tileOf) {
	shift, delta := x.shift, x.delta
	scale := l.scores(w, p, x.keys, x.q, t)
	l.multiply(w, ds, x.values, l.depthD, t.n, 0, l.depthD, x.do, false)
	if l.Threshold == 0 {
		f32.ExpColumnsGrad(p, ds, shift, delta, scale)
		return
	}
	l.mask(w, t)
	more := w.more[:len(p)]
	f32.Mul(ds, ds, more)
	f32.ExpColumnsGrad(p, ds, shift, delta, scale)
	f32.Mul(p, p, more)
}

// addBlock adds to sums, or sets them to, the products of rows of a block's tiles, a row for each
// key, by the rows of queries that the segments name.
func (l *Plan) addBlock(w *worker, sums, tiles, tiles16, rows []float32, keys, n int, more bool) {
	width := l.depth(l.cols)
	if l.tile.Pairs() {
		tiles = tiles16
	}
	w.gather.Segments = w.segments[:n]
	for i := range l.panelsD {
		w.gather.W = rows[i*l.panels*width*l.cols:]
		l.tiles(w, sums[i*backwardKeys*l.cols:], tiles, width, keys, more)
	}
}

// storeBlock writes the gradient of a block of keys, times scale, or adds it to what there is.
func (l *Plan) storeBlock(dst *Heads, sums []float32, scale float32, b, h, k0, keys int, more bool) {
	if dst.Data == nil {
		return
	}
	for i := range l.panelsD {
		width := min(l.cols, l.D-i*l.cols)
		for r := range keys {
			row := dst.Data[l.at(dst, b, k0+r, h)+i*l.cols:][:width]
			sum := sums[(i*backwardKeys+r)*l.cols:][:width]
			if more {
				f32.Axpy(row, scale, sum)
			} else {
				f32.Scale(row, scale, sum)
			}
		}
	}
}

// storeQueries writes dq of a head of queries from its panels.
func (l *Plan) storeQueries(w *worker, b, h int, panels []float32) {
	dq := &l.backward.dq
	f32.Scale(panels, float32(l.Scale), panels)
	for p := range l.panels {
		i0 := p * l.cols
		l.transpose(w, dq.Data[l.at(dq, b, i0, h):], dq.Position, panels[p*l.D*l.cols:], l.cols, l.D, min(l.cols, l.T-i0))
	}
}

// addParts adds the parts of dQ of a head of queries, in order.
func (l *Plan) addParts(thread, i int) {
	g := &l.backward
	all := g.dqParts[i*g.parts*l.dqLen():][:g.parts*l.dqLen()]
	sum := all[:l.dqLen()]
	for part := 1; part < g.parts; part++ {
		f32.AddTo(sum, all[part*l.dqLen():(part+1)*l.dqLen()])
	}
	l.storeQueries(&l.workers[thread], i/l.H, i%l.H, sum)
}
