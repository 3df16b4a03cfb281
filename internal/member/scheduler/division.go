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

// fits says that the lists of an Arrive have the parts of the division.
func (c *Core) fits(m *wire.Arrive) bool {
	of := func(list []uint64) bool { return len(list) == 0 || len(list) == len(c.shares) }
	bad := func(k wire.Cut) bool { return len(k.Used) != int(k.Parts) || k.Parts == 0 }
	return of(m.Earlier) && of(m.Resumed) && !slices.ContainsFunc(m.Cuts, bad)
}

// divide makes the cut of the pending change. Of each part it takes what the worker says that it
// has used; of a lost worker what is in all shards of all servers, less what it had used before
// this epoch and division; of one that left cleanly, all. It returns how many examples each worker
// has used in all, and false when the job failed.
func (c *Core) divide() (total map[uint64]uint64, ok bool) {
	d := wire.Division{Change: c.change.number}
	for _, a := range c.change.arrived {
		d.Epoch, d.Steps = max(d.Epoch, a.Epoch), max(d.Steps, a.Steps)
	}
	said := c.common(d.Epoch, d.Steps)
	d.Step, d.Stop, d.Order = said.Step, said.Stop, cmp.Or(said.Order, c.division.Order)
	switch {
	case c.division.Change == 0: // the cuts that there are were made before this job
		d.Cuts = slices.Clip(said.Cuts)
	case d.Epoch == c.division.Epoch:
		d.Cuts = slices.Clip(c.division.Cuts)
	}
	cut := wire.Cut{Parts: uint32(len(c.shares)), Used: make([]uint64, len(c.shares))}
	total = make(map[uint64]uint64)
	for part, id := range c.shares {
		n := c.node(id)
		a, s := c.change.arrived[id], c.lossReports[id]
		switch {
		case s != nil:
			cut.Used[part] = c.usedByLost(n, s, part, said)
		case a == nil:
			cut.Used[part] = math.MaxUint64
		case a.Epoch != d.Epoch || a.Steps != d.Steps:
			c.note("%v arrived at step %d of epoch %d, others at step %d of epoch %d", n, a.Steps, a.Epoch, d.Steps, d.Epoch)
			if a.Epoch == d.Epoch {
				cut.Used[part] = a.Used
			}
		default:
			cut.Used[part] = a.Used
		}
		total[id] = c.before[part] + at(said.Earlier, part) + cut.Used[part] - min(at(said.Resumed, part), cut.Used[part])
	}
	numbers := len(cut.Used)
	for _, old := range d.Cuts {
		numbers += len(old.Used)
	}
	if slices.ContainsFunc(cut.Used, func(n uint64) bool { return n > 0 }) { // otherwise it is as if nothing had been divided
		d.Cuts = append(d.Cuts, cut)
	}
	if numbers > maxUsed {
		c.fail(control.Failure{Code: control.TooManyCuts, Rank: -1, Change: c.change.number, Text: fmt.Sprintf("change %d: epoch %d was divided %d times, into %d parts in all, want at most %d", c.change.number, d.Epoch, len(d.Cuts), numbers, maxUsed)})
		return nil, false
	}
	c.division = d
	c.note("division of epoch %d: %s", d.Epoch, cuts(d.Cuts))
	return total, true
}

// common is what the workers that arrived say alike: the word of the one of the lowest rank that
// has done the most.
func (c *Core) common(epoch, steps uint64) *wire.Arrive {
	var said *wire.Arrive
	for _, id := range c.shares { // in order, so that the same is taken every time
		a := c.change.arrived[id]
		switch {
		case a == nil || c.lossReports[id] != nil || a.Epoch != epoch || a.Steps != steps:
		case said == nil:
			said = a
		case a.Step != said.Step || !slices.Equal(a.Earlier, said.Earlier) || !slices.Equal(a.Resumed, said.Resumed) || a.Order != said.Order:
			c.note("%v says step %d, examples of earlier epochs %d, of a resumed run %d, order %q; node %d says step %d, %d, %d and %q: that report is used",
				c.node(id), a.Step, a.Earlier, a.Resumed, a.Order, said.Node, said.Step, said.Earlier, said.Resumed, said.Order)
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

// usedByLost is how many examples of its share a lost worker's acknowledged steps have used.
func (c *Core) usedByLost(n *node, s *lossReport, part int, said *wire.Arrive) uint64 {
	least := uint64(math.MaxUint64)
	for _, count := range s.told {
		least = min(least, count)
	}
	if least == math.MaxUint64 {
		least = 0
	}
	before := c.before[part] + at(said.Earlier, part)
	used := least - min(least, before) + at(said.Resumed, part)
	c.note("%v: servers counted %s, %d before this division: %d of its share used", n, plural.Of(least, "example"), before, used)
	return used
}

func cuts(all []wire.Cut) string {
	if len(all) == 0 {
		return "whole"
	}
	var b strings.Builder
	for i, k := range all {
		if i > 0 {
			b.WriteString(", then ")
		}
		fmt.Fprintf(&b, "%d parts used", k.Parts)
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
