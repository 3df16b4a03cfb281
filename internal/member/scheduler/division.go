package scheduler

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/internal/observe/plural"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// maxUsed bounds the numbers in the cuts of one epoch: a membership must fit a frame.
const maxUsed = 60_000

// A partition is the division of the epoch under way over the workers that count.
//
// Each change cuts off what has been used of every part, and divides the rest anew. The parts are
// those of the last change, in the order of the workers' ranks; before the first change they are
// the whole epoch, divided over the workers that the job began with.
//
// The rule of the cuts is that every example of an epoch is used once: what was used is cut off and
// stays used, and what was not is in the parts of the next division. The step that was under way
// when a worker was lost counts if all servers have it, and is otherwise done again by another
// worker. Its gradient then stays in those shards that had it: the rule is about the steps that
// count, which every shard has.
type partition struct {
	division wire.Division
	// shares are the parts; nil: the job has not begun. There may be none afterwards, when all
	// workers have left and others are about to join.
	shares []share
}

// A share is one worker's part.
type share struct {
	Node uint64
	// Before is how many examples the worker had used when the division was made, since it
	// counted first.
	Before uint64 `json:",omitempty"`
}

// share gives each worker a part, in their order. used is what each has used since it counted
// first.
func (p *partition) share(workers []*node, used map[uint64]uint64) {
	p.shares = make([]share, 0, len(workers))
	for _, n := range workers {
		p.shares = append(p.shares, share{n.Node, used[n.Node]})
	}
}

// fits reports whether the lists of an Arrive have the parts of the division.
func (p *partition) fits(m *wire.Arrive) bool {
	of := func(list []uint64) bool { return len(list) == 0 || len(list) == len(p.shares) }
	bad := func(k wire.Cut) bool { return len(k.Used) != int(k.Parts) || k.Parts == 0 }
	return of(m.Earlier) && of(m.Resumed) && !slices.ContainsFunc(m.Cuts, bad)
}

// divide makes the cut of the pending change. Of each part it takes what the worker says that it
// has used; of a lost worker what is in all shards of all servers, less what it had used before
// this epoch and division; of one that left cleanly, all. It returns how many examples each worker
// has used in all, or the failure of the job.
func (c *changer) divide(out *output, r *roster) (total map[uint64]uint64, failure *control.Failure) {
	p := &c.parts
	d := wire.Division{Change: c.pending.number}
	for _, a := range c.pending.arrived {
		d.Epoch, d.Steps = max(d.Epoch, a.Epoch), max(d.Steps, a.Steps)
	}
	said := c.common(out, r, d.Epoch, d.Steps)
	d.Step, d.Stop, d.Order = said.Step, said.Stop, cmp.Or(said.Order, p.division.Order)
	switch {
	case p.division.Change == 0:
		// The cuts that there are were made before this job.
		d.Cuts = slices.Clip(said.Cuts)
	case d.Epoch == p.division.Epoch:
		d.Cuts = slices.Clip(p.division.Cuts)
	}
	cut := wire.Cut{Parts: uint32(len(p.shares)), Used: make([]uint64, len(p.shares))}
	total = make(map[uint64]uint64)
	for part, s := range p.shares {
		used := c.usedOf(out, r.node(s.Node), part, said, &d)
		cut.Used[part] = used
		total[s.Node] = s.Before + at(said.Earlier, part) + used - min(at(said.Resumed, part), used)
	}
	numbers := len(cut.Used)
	for _, old := range d.Cuts {
		numbers += len(old.Used)
	}
	if slices.ContainsFunc(cut.Used, func(n uint64) bool { return n > 0 }) {
		// Otherwise it is as if nothing had been divided.
		d.Cuts = append(d.Cuts, cut)
	}
	if numbers > maxUsed {
		return nil, &control.Failure{Code: control.TooManyCuts, Rank: -1, Change: d.Change, Text: fmt.Sprintf("change %d: epoch %d was divided %d times, into %d parts in all, want at most %d", d.Change, d.Epoch, len(d.Cuts), numbers, maxUsed)}
	}
	p.division, c.dirty = d, true
	out.note("division of epoch %d: %s", d.Epoch, cuts(d.Cuts))
	return total, nil
}

// usedOf is how many examples of a part were used. A worker that is behind the others' step has not
// done what the division counts; its own count is taken if it is of the same epoch.
func (c *changer) usedOf(out *output, n *node, part int, said *wire.Arrive, d *wire.Division) uint64 {
	a, told := c.pending.arrived[n.Node], c.reports[n.Node]
	switch {
	case told != nil:
		return c.usedByLost(out, n, told, part, said)
	case a == nil:
		return math.MaxUint64
	case a.Epoch != d.Epoch || a.Steps != d.Steps:
		out.note("%v arrived at step %d of epoch %d, others at step %d of epoch %d", n, a.Steps, a.Epoch, d.Steps, d.Epoch)
		if a.Epoch != d.Epoch {
			return 0
		}
	}
	return a.Used
}

// common is what the workers that arrived say alike: the word of the one of the lowest rank that
// has done the most.
func (c *changer) common(out *output, r *roster, epoch, steps uint64) *wire.Arrive {
	var said *wire.Arrive
	// The shares are in order, so that the same is taken every time.
	for _, s := range c.parts.shares {
		a := c.pending.arrived[s.Node]
		switch {
		case a == nil || c.reports[s.Node] != nil || a.Epoch != epoch || a.Steps != steps:
		case said == nil:
			said = a
		case a.Step != said.Step || !slices.Equal(a.Earlier, said.Earlier) || !slices.Equal(a.Resumed, said.Resumed) || a.Order != said.Order:
			out.note("%v says step %d, examples of earlier epochs %d, of a resumed run %d, order %q; node %d says step %d, %d, %d and %q: that report is used",
				r.node(s.Node), a.Step, a.Earlier, a.Resumed, a.Order, said.Node, said.Step, said.Earlier, said.Resumed, said.Order)
		}
	}
	if said == nil {
		return &wire.Arrive{}
	}
	return said
}

// at is an item of a list that is empty where all are 0.
func at(list []uint64, i int) uint64 {
	if i < len(list) {
		return list[i]
	}
	return 0
}

// usedByLost is how many examples of its share a lost worker's steps have used. A step counts if
// all shards that count examples have accepted it, so the server that counted least is right. Of a
// step that only some have accepted the examples are used again, although its gradients are in some
// shards.
//
// An example: a worker had used 300 examples when the division was made (share.Before), in batches
// of 10, and was killed in its 8th step after that. One server has all of that step (380), the other
// only what came before (370). Then 370 - 300 = 70 examples of its share are used, and the 10 of the
// 8th step are in what is divided anew. Servers count what a worker pushes to them since it counted
// first. So what it used in earlier epochs of the same division (Arrive.Earlier) is taken off, too,
// and what a run before this one used of its share, which no server of this one has seen, is added
// (Arrive.Resumed).
func (c *changer) usedByLost(out *output, n *node, told lossReport, part int, said *wire.Arrive) uint64 {
	least := uint64(math.MaxUint64)
	for _, count := range told {
		least = min(least, count)
	}
	if least == math.MaxUint64 {
		least = 0
	}
	before := c.parts.shares[part].Before + at(said.Earlier, part)
	used := least - min(least, before) + at(said.Resumed, part)
	out.note("%v: servers counted %s, %d before this division: %d of its share used", n, plural.Of(least, "example"), before, used)
	return used
}

// cuts describes the cuts of an epoch, of each the first eight parts.
func cuts(all []wire.Cut) string {
	if len(all) == 0 {
		return "whole"
	}
	var b strings.Builder
	for i, k := range all {
		if i > 0 {
			b.WriteString(", then ")
		}
		fmt.Fprintf(&b, "%s used", plural.Of(k.Parts, "part"))
		for j, n := range k.Used {
			switch {
			case j == 8:
				b.WriteString(" ...")
			case j > 8:
			case n == math.MaxUint64:
				b.WriteString(" all")
			default:
				fmt.Fprintf(&b, " %d", n)
			}
		}
	}
	return b.String()
}
