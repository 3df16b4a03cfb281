package attention

// Rows of a head are D numbers, a projection's width apart: no order that the CPU would guess. They
// are fetched while something else is computed. What is fetched has no part in results.

// fetch asks for n positions of a head from t on.
func (l *Plan) fetch(x *Heads, b, t, h, n int) {
	if x.Data != nil && n > 0 {
		l.single.Fetch(x.Data[l.at(x, b, t, h):], x.Position, n, l.D)
	}
}

// slice is part i of n of so many positions.
func slice(positions, i, n int) (from, count int) {
	from = positions * i / n
	return from, positions*(i+1)/n - from
}

// fetchForward asks for what comes after panel u of a task: the queries of the next panel, where the
// result of this one goes, and a part of the keys that this thread is likely to have next.
func (l *Plan) fetchForward(head, u, panels int) {
	f := &l.forward
	b, hk := head/l.Hk, head%l.Hk
	here := func(u int) (h, i0 int) { return hk*l.group + u%l.group, (l.panels - 1 - u/l.group) * l.cols }
	h, i0 := here(u)
	l.fetch(&f.o, b, i0, h, min(l.cols, l.T-i0))
	if u += f.chunks; u < panels {
		h, i0 = here(u)
		l.fetch(&l.in.Q, b, i0, h, min(l.cols, l.T-i0))
	}
	next := head + l.threads
	if f.chunks > 1 || next >= l.B*l.Hk || l.in.First != nil {
		return
	}
	t, n := slice(l.S, u-f.chunks, panels)
	l.fetch(&l.in.K, next/l.Hk, t, next%l.Hk, n)
	l.fetch(&l.in.V, next/l.Hk, t, next%l.Hk, n)
}

// fetchBackward asks, at step i of n of a head of queries, for a part of the next head that this
// thread is likely to have.
func (l *Plan) fetchBackward(b, h, i, n int) {
	g := &l.backward
	next := b*l.H + h + 1
	keys := next%l.group == 0
	if keys {
		next += (l.threads - 1) * l.group
	}
	if g.parts > 1 || next >= l.B*l.H {
		return
	}
	b, h = next/l.H, next%l.H
	t, count := slice(l.T, i, n)
	l.fetch(&l.in.Q, b, t, h, count)
	l.fetch(&g.do, b, t, h, count)
	l.fetch(&g.o, b, t, h, count)
	if keys {
		t, count = slice(l.S, i, n)
		l.fetch(&l.in.K, b, t, h/l.group, count)
		l.fetch(&l.in.V, b, t, h/l.group, count)
	}
}
