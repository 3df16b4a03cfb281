package shard

import (
	"fmt"

	"github.com/paragon-train/paragon/internal/store/wire"
)

// A contribution may be the sum of several members' gradients, which one of them has made from
// those of its host. Each contributor has its slot in the round, as if it had pushed for itself;
// the first one's has the payload. So weights, examples, norms, backups and the times of arrival
// are those of the contributors, and the order of the sum is that of single pushes: see
// Member.Group.

// pushTogether counts all contributors or none. Where it cannot, it refuses with CodePushAlone and
// the workers push for themselves, which always gives the same sum. So it need not handle what is
// rare: repeats of some, a guard, ranks of two hosts.
func (s *Shard) pushTogether(c *Contribution) (Status, error) {
	alone := func(format string, args ...any) (Status, error) {
		return Refused, s.cfg.refuse(wire.CodePushAlone, "push of %d workers to round %d: %s", len(c.Contributors), c.Round, fmt.Sprintf(format, args...))
	}
	switch {
	case s.mode.async():
		return alone("in async mode each contribution is a round of its own")
	case s.guard != nil:
		return alone("the guard judges each worker's gradient")
	case c.Step.Measure && s.updater.opt != nil && s.updater.opt.HasSecondMoment():
		return alone("it is measured, and the norms for %s are of each worker's gradient, preconditioned", s.updater.opt.Config().Name)
	}
	var r *round
	repeated, first := 0, s.members.of(c.Contributors[0].Node)
	for i := range c.Contributors {
		x := &c.Contributors[i]
		m := s.members.of(x.Node)
		if m == nil {
			return alone("node %d is not a worker of generation %d", x.Node, s.members.generation)
		}
		if m.Group != first.Group || m.Group == 0 && s.members.grouped() && m != first {
			return alone("nodes %d and %d are not of one host", first.Node, m.Node)
		}
		_, at, status, err := s.find(m, x.Seq, c.Round)
		switch status {
		case Refused:
			return alone("%v", err)
		case Repeated:
			repeated++
		case Held:
			r = at
		}
	}
	switch {
	case repeated == len(c.Contributors):
		c.Data.Release()
		return Repeated, nil
	case repeated > 0:
		return alone("%d of them have counted before", repeated)
	case r == nil:
		return Ahead, nil
	}
	if err := r.checkRate(&s.cfg, c, s.members.of(c.Node).Rank); err != nil {
		return alone("%v", err)
	}
	s.putTogether(r, c)
	s.took(r)
	return Held, nil
}

// putTogether puts each contributor into its slot.
func (s *Shard) putTogether(r *round, c *Contribution) {
	r.setRate(c.Step.Rate)
	placed := false
	for i := range r.slots {
		x := &r.slots[i]
		k, ok := contributorOf(c.Contributors, x.node)
		if !ok {
			continue
		}
		by := &c.Contributors[k]
		r.putTogether(x, c, by, !placed)
		if !placed {
			s.stopwatch.hold(x)
			placed = true
		}
		s.counts.add(s.members.of(by.Node), by.Counted, by.Examples)
		s.stopwatch.arrived(&s.cfg, r, r == &s.rounds.open, by.Node, early(&s.cfg, c.Arrived, by.Early))
	}
}

// early is the time at which a contributor's gradient came to the worker that made the sum, by this
// Meter's clock: so much before the sum arrived here.
func early(cfg *Config, arrived int64, by uint64) int64 {
	if arrived == 0 {
		arrived = cfg.clock()
	}
	return arrived - int64(min(by, uint64(max(arrived, 0))))
}
