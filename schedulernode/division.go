package schedulernode

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/paragon-train/paragon/internal/control"
	"github.com/paragon-train/paragon/internal/wire"
)

// maxUsed bounds the numbers in the cuts of one epoch: a membership must fit a frame.
const maxUsed = 60_000

// divide makes the cut of the pending change. Of each part it takes what the worker says that it has used; of a lost worker
// what is in all shards of all servers, less what it had used before this division; of one that left in order, all. It
// returns false when the job failed.
func (c *Core) divide() bool {
	d := wire.Division{Change: c.change.number}
	for _, a := range c.change.arrived {
		d.Epoch, d.Steps = max(d.Epoch, a.Epoch), max(d.Steps, a.Steps)
	}
	if d.Epoch == c.division.Epoch {
		d.Cuts = slices.Clip(c.division.Cuts)
	}
	cut := wire.Cut{Parts: uint32(len(c.shares)), Used: make([]uint64, len(c.shares))}
	for part, id := range c.shares {
		n := c.node(id)
		a, s := c.change.arrived[id], c.settle[id]
		switch {
		case s != nil:
			cut.Used[part] = c.usedByLost(n, s)
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
		return false
	}
	c.division = d
	c.note("division of epoch %d: %s", d.Epoch, cuts(d.Cuts))
	return true
}

// usedByLost is how many examples of its share a lost worker's acknowledged steps have used.
func (c *Core) usedByLost(n *node, s *settlement) uint64 {
	least := uint64(math.MaxUint64)
	for _, count := range s.told {
		least = min(least, count)
	}
	if least == math.MaxUint64 {
		least = 0
	}
	base, known := uint64(0), false
	for _, id := range c.shares { // in order, so that the same is taken every time
		a := c.change.arrived[id]
		if a == nil || c.settle[id] != nil {
			continue
		}
		i := slices.IndexFunc(a.Bases, func(b wire.NodeCount) bool { return b.Node == n.Node })
		switch {
		case i < 0:
		case !known:
			base, known = a.Bases[i].Count, true
		case base != a.Bases[i].Count:
			c.note("%v had used %d examples before this division, says %v; others say %d", n, a.Bases[i].Count, c.node(id), base)
		}
	}
	if !known && least > 0 {
		c.note("nobody says what %v had used before this division: all of its share is given out again", n)
		return 0
	}
	used := least - min(least, base)
	c.note("%v: servers counted %d examples, %d before this division: %d of its share are used", n, least, base, used)
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
