package allocate

import (
	"cmp"
	"slices"
)

// A nodeState is a node while jobs are placed.
type nodeState struct {
	free  int
	wide  *work   // the job that spans nodes, if there is one
	small []*work // those that are here alone
}

func (d *division) states() []nodeState {
	states := make([]nodeState, len(d.nodes))
	for i := range states {
		states[i].free = d.nodes[i].Slots
	}
	return states
}

// place gives each job its size on nodes. Jobs whose size stays keep their places. The others
// follow, the largest first; where one does not fit, smaller ones that have a node to themselves or
// share it leave and follow later. A job that fits nowhere gets less.
func (d *division) place(sizes []int) {
	states := d.states()
	var queue []*work
	for i, w := range d.jobs {
		w.want = sizes[i]
		switch {
		case w.want == 0:
		case (w.want == w.have && len(w.lost) == 0) && d.fits(states, w.current):
			d.put(states, w, w.current)
		default:
			queue = append(queue, w)
		}
	}
	order := func(a, b *work) int {
		return cmp.Or(cmp.Compare(b.want, a.want), cmp.Compare(slices.Index(d.jobs, a), slices.Index(d.jobs, b)))
	}
	slices.SortStableFunc(queue, order)
	for len(queue) > 0 {
		w := queue[0]
		queue = queue[1:]
		for ; w.want >= w.least; w.want-- {
			if out, ok := d.seat(states, w); ok {
				queue = append(queue, out...)
				slices.SortStableFunc(queue, order)
				break
			}
		}
	}
}

// better says whether what the jobs are given is worth more than what they have; places may have
// kept them from what is best for them.
func (d *division) better() bool {
	states := d.states()
	given, have := 0.0, 0.0
	for _, w := range d.jobs {
		if len(w.lost) > 0 || w.have > 0 && (w.have < w.least || w.have > w.most) || !d.fits(states, w.current) {
			return true // it cannot stay as it is
		}
		take(states, w, w.current)
		given += d.term(w, d.rateOver(w, spans(w.given), w.got), !slices.Equal(w.given, w.current))
		have += d.term(w, d.rateOver(w, spans(w.current), w.have), false)
	}
	return given > have
}

// keep gives all jobs what they have.
func (d *division) keep() {
	for _, w := range d.jobs {
		copy(w.given, w.current)
		w.got = w.have
	}
}

// fits says whether an allocation is possible beside those already made.
func (d *division) fits(states []nodeState, a []int) bool {
	wide := spans(a) > 1
	for i, r := range a {
		if r > states[i].free || wide && r > 0 && states[i].wide != nil {
			return false
		}
	}
	return true
}

func spans(a []int) (n int) {
	for _, r := range a {
		if r > 0 {
			n++
		}
	}
	return n
}

// put gives a job an allocation.
func (d *division) put(states []nodeState, w *work, a []int) {
	copy(w.given, a)
	w.got = 0
	for _, r := range a {
		w.got += r
	}
	take(states, w, a)
}

// take takes an allocation's slots.
func take(states []nodeState, w *work, a []int) {
	wide := spans(a) > 1
	for i, r := range a {
		if r == 0 {
			continue
		}
		states[i].free -= r
		if wide {
			states[i].wide = w
		} else {
			states[i].small = append(states[i].small, w)
		}
	}
}

// seat finds nodes for w.want replicas, and says which jobs have to leave.
func (d *division) seat(states []nodeState, w *work) (out []*work, ok bool) {
	if w.want <= d.widest {
		return d.seatOnOne(states, w)
	}
	return d.seatOnSeveral(states, w)
}

// seatOnOne takes the node where the fewest replicas have to move; of several the one where the job
// is; then the one with the fewest free slots.
func (d *division) seatOnOne(states []nodeState, w *work) (out []*work, ok bool) {
	best, least := -1, [3]int{}
	for i := range states {
		evicted, ok := d.evictions(states, i, w.want, w.want)
		if !ok {
			continue
		}
		cost := [3]int{0, 1, states[i].free} // replicas that move; 0 where the job is; free slots
		for _, e := range evicted {
			cost[0] += e.got
		}
		if w.current[i] > 0 {
			cost[1] = 0
		}
		if best < 0 || slices.Compare(cost[:], least[:]) < 0 {
			best, least, out = i, cost, evicted
		}
	}
	if best < 0 {
		return nil, false
	}
	d.evict(states, best, out)
	a := make([]int, len(states))
	a[best] = w.want
	d.put(states, w, a)
	return out, true
}

// seatOnSeveral takes nodes that no other wide job is on: those with the most slots first, of
// several those where the fewest replicas have to move.
func (d *division) seatOnSeveral(states []nodeState, w *work) (out []*work, ok bool) {
	type candidate struct{ node, slots, cost, mine int }
	var list []candidate
	for i := range states {
		if states[i].wide != nil {
			continue
		}
		c := candidate{node: i, slots: states[i].free}
		for _, s := range states[i].small {
			if !s.pinned {
				c.slots += s.got
				c.cost += s.got
			}
		}
		if w.current[i] > 0 {
			c.mine = 1
		}
		if c.slots > 0 {
			list = append(list, c)
		}
	}
	slices.SortFunc(list, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(b.slots, a.slots), cmp.Compare(a.cost, b.cost), cmp.Compare(b.mine, a.mine), cmp.Compare(a.node, b.node))
	})
	a := make([]int, len(states))
	left := w.want
	for _, c := range list {
		if left == 0 {
			break
		}
		a[c.node] = min(left, c.slots)
		left -= a[c.node]
	}
	if left > 0 {
		return nil, false
	}
	for i, r := range a {
		if r > 0 {
			e, _ := d.evictions(states, i, r, w.want)
			d.evict(states, i, e)
			out = append(out, e...)
		}
	}
	d.put(states, w, a)
	return out, true
}

// evictions are the jobs of a node that have to go for so many replicas to fit: smaller than what
// comes, the smallest first.
func (d *division) evictions(states []nodeState, node, replicas, below int) (out []*work, ok bool) {
	free := states[node].free
	if free >= replicas {
		return nil, true
	}
	small := slices.Clone(states[node].small)
	slices.SortStableFunc(small, func(a, b *work) int { return cmp.Compare(a.got, b.got) })
	for _, s := range small {
		if s.pinned || s.got >= below {
			continue
		}
		out = append(out, s)
		if free += s.got; free >= replicas {
			return out, true
		}
	}
	return nil, false
}

func (d *division) evict(states []nodeState, node int, out []*work) {
	for _, w := range out {
		r := &states[node]
		r.small = slices.Delete(r.small, slices.Index(r.small, w), slices.Index(r.small, w)+1)
		r.free += w.got
		w.given[node] = 0
		w.got = 0
		w.evicted = true
	}
}
