package shard

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/paragon-train/paragon/internal/store/wire"
)

// A contribution may be the sum of several members' gradients, which one of them has made from
// those of its host. Each contributor has its slot in the round, as if it had pushed for itself;
// the first one's has the payload. So weights, examples, norms, backups and the times of arrival
// are those of the contributors, and the order of the sum is that of single pushes: see
// Member.Group.

// checkContributors checks all about a contribution of several that does not depend on the shard's
// state.
func (s *Shard) checkContributors(c *Contribution) error {
	if c.Seq != 0 || c.Weight != 0 || c.Examples != 0 || c.Counted || c.Judged || c.Norm != 0 || c.Step.Micro != 0 || c.Step.MicroSqr != 0 {
		return s.refuse(wire.CodeMalformed, "push: got %d contributors and a sequence number, a weight or norms beside them, want none: each contributor has its own", len(c.Contributors))
	}
	if s.cfg.HasRows() {
		return s.refuse(wire.CodeUnsupported, "push: got %d contributors of rows, want each to push its own", len(c.Contributors))
	}
	for i := range c.Contributors {
		x := &c.Contributors[i]
		what := fmt.Sprintf("push: contributor %d (node %d)", i, x.Node)
		if i > 0 && x.Node <= c.Contributors[i-1].Node {
			return s.refuse(wire.CodeMalformed, "%s: comes after node %d, want them in rising order, each once", what, c.Contributors[i-1].Node)
		}
		if err := s.checkNumbers(what, x.Seq, x.Weight, x.Examples); err != nil {
			return err
		}
		if !(x.Sqr >= 0) || !c.Step.Measure && x.Sqr != 0 {
			return s.refuse(wire.CodeMalformed, "%s: got the squared norm %v, measured: %v; want at least 0, and 0 unless measured", what, x.Sqr, c.Step.Measure)
		}
		if err := s.checkMicro(what, c.Step.Measure, x.Micro, x.MicroSqr); err != nil {
			return err
		}
	}
	if _, ok := contributorOf(c.Contributors, c.Node); !ok {
		return s.refuse(wire.CodeMalformed, "push: node %d is not among its %d contributors", c.Node, len(c.Contributors))
	}
	return nil
}

// contributorOf finds a node in a list in rising order.
func contributorOf(list []wire.Contributor, node uint64) (int, bool) {
	return slices.BinarySearchFunc(list, node, func(x wire.Contributor, node uint64) int { return cmp.Compare(x.Node, node) })
}

// pushTogether counts all contributors or none.
func (s *Shard) pushTogether(c *Contribution) (Status, error) {
	alone := func(format string, args ...any) (Status, error) {
		return Refused, s.refuse(wire.CodePushAlone, "push of %d workers to round %d: %s", len(c.Contributors), c.Round, fmt.Sprintf(format, args...))
	}
	switch {
	case s.async():
		return alone("in async mode each contribution is a round of its own")
	case s.guard != nil:
		return alone("the guard judges each worker's gradient")
	case c.Step.Measure && s.opt != nil && s.opt.HasSecondMoment():
		return alone("it is measured, and the norms for %s are of each worker's gradient, preconditioned", s.opt.Config().Name)
	}
	var r *round
	repeated, first := 0, s.memberOf(c.Contributors[0].Node)
	for i := range c.Contributors {
		x := &c.Contributors[i]
		m := s.memberOf(x.Node)
		if m == nil {
			return alone("node %d is not a worker of generation %d", x.Node, s.generation)
		}
		if m.Group != first.Group || m.Group == 0 && s.grouped() && m != first {
			return alone("nodes %d and %d are not of one host", first.Node, m.Node)
		}
		_, at, status, err := s.place(m, x.Seq, c.Round)
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
	if err := s.checkRate(r, c, s.memberOf(c.Node).Rank); err != nil {
		return alone("%v", err)
	}
	r.setRate(c.Step.Rate)
	placed := false
	for i := range r.slots {
		slot := &r.slots[i]
		k, ok := contributorOf(c.Contributors, slot.node)
		if !ok {
			continue
		}
		x := &c.Contributors[k]
		slot.measure, slot.micro, slot.microSqr = c.Step.Measure, x.Micro, x.MicroSqr
		slot.seq, slot.weight, slot.examples, slot.counts, slot.sqr, slot.summed = x.Seq, x.Weight, uint32(x.Examples), x.Counted, x.Sqr, true
		if slot.elsewhere = placed; !placed {
			slot.payload = payloadOf(c)
			s.hold(slot)
			placed = true
		}
		s.countExamples(s.memberOf(x.Node), x.Counted, x.Examples)
		r.present++
		s.arrived(r, x.Node, early(c.Arrived, s, x.Early))
	}
	s.took(r)
	return Held, nil
}

// early is the time at which a contributor's gradient came to the worker that made the sum, by this
// Meter's clock.
func early(arrived int64, s *Shard, by uint64) int64 {
	if arrived == 0 {
		arrived = s.clock()
	}
	return arrived - int64(min(by, uint64(max(arrived, 0))))
}
