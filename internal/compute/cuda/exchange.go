package cuda

import (
	"fmt"
	"slices"

	"github.com/paragon-train/paragon/internal/compute/cuda/drv"
)

// An exchange is what goes between the GPUs before and after a segment.
type exchange struct {
	// up and down are by rank: what it copies from the host and to it.
	up, down [][]span

	gathered, reduced []piece
}

// prepare makes the exchanges, anew if a member's segments are new.
func (g *Group) prepare() error {
	schedules := make([]*schedule, len(g.members))
	for i, e := range g.members {
		schedules[i] = e.schedules.full
	}
	if slices.Equal(schedules, g.schedules) {
		return nil
	}
	g.schedules, g.exchanges = nil, nil
	first := g.members[0]
	for i, e := range g.members[1:] {
		if err := same(first, e); err != nil {
			return fmt.Errorf("the plans on %s and %s differ: %w", first.gpu.Name(), g.members[i+1].gpu.Name(), err)
		}
	}
	exchanges := make([]exchange, len(first.schedules.full.segments))
	for k, s := range first.schedules.full.segments {
		x := &exchanges[k]
		x.gathered, x.up = g.divide(len(s.up), func(e *Executor, m int) span { return e.schedules.full.segments[k].up[m] })
		x.reduced, x.down = g.divide(len(s.down), func(e *Executor, m int) span { return e.schedules.full.segments[k].down[m] })
	}
	g.schedules, g.exchanges = schedules, exchanges
	return nil
}

// prepareLink takes room for all that will be reduced.
func (g *Group) prepareLink() error {
	var all []piece
	for _, x := range g.exchanges {
		all = append(all, x.reduced...)
	}
	return g.link.prepare(all)
}

// divide makes pieces of n spans that all members have, and the part of each.
func (g *Group) divide(n int, of func(e *Executor, m int) span) (pieces []piece, parts [][]span) {
	parts = make([][]span, len(g.members))
	for m := range n {
		p := piece{n: of(g.members[0], m).n / 4}
		for _, e := range g.members {
			s := of(e, m)
			p.at = append(p.at, s.mirror.device+drv.Ptr(s.from))
		}
		for i, e := range g.members {
			s := of(e, m)
			from, count := p.part(i)
			if count > 0 {
				parts[i] = append(parts[i], span{s.mirror, s.from + 4*from, 4 * count})
			}
		}
		pieces = append(pieces, p)
	}
	return pieces, parts
}

// same is an error if two executors do not exchange the same things in the same order.
func same(a, b *Executor) error {
	if len(a.plan.Params) != len(b.plan.Params) {
		return fmt.Errorf("%d and %d parameters", len(a.plan.Params), len(b.plan.Params))
	}
	for i, v := range a.plan.Params {
		if w := b.plan.Params[i]; v.Name != w.Name || v.Len() != w.Len() {
			return fmt.Errorf("parameter %d is %q of %d numbers and %q of %d", i, v.Name, v.Len(), w.Name, w.Len())
		}
	}
	if len(a.schedules.full.segments) != len(b.schedules.full.segments) || a.schedules.full.outputs != b.schedules.full.outputs {
		return fmt.Errorf("a step has %d and %d parts", len(a.schedules.full.segments), len(b.schedules.full.segments))
	}
	for k, s := range a.schedules.full.segments {
		t := b.schedules.full.segments[k]
		alike := slices.Equal(s.waits, t.waits) && slices.Equal(s.ready, t.ready) &&
			alike(s.up, t.up, &a.store.params, &b.store.params) && alike(s.down, t.down, &a.store.grads, &b.store.grads)
		if !alike {
			return fmt.Errorf("part %d of %d exchanges other parameters, or such as lie differently in memory", k, len(a.schedules.full.segments))
		}
	}
	return nil
}

// alike reports whether spans lie in the same places of two executors' mirrors, so that one
// exchange of bytes serves all parameters in them.
func alike(a, b []span, in, other *mirrors) bool {
	return slices.EqualFunc(a, b, func(p, q span) bool {
		return in.order(p.mirror) == other.order(q.mirror) && len(p.mirror.host) == len(q.mirror.host) && p.from == q.from && p.n == q.n
	})
}
