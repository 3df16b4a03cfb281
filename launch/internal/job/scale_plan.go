package job

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/paragon-train/paragon/internal/hosts/hosts"
	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/internal/observe/plural"
)

// stayingWorkers are the workers of a host that stay: those that run and are not leaving, and those
// that are being started.
func (c *core) stayingWorkers(h hosts.Host) (nodes []*Node) {
	stays := func(n *Node) bool {
		return n.Role == roleWorker && n.host.Same(h) && !n.ended && !n.leaving && !n.lost && !n.stopped
	}
	for _, n := range c.nodes {
		if stays(n) {
			nodes = append(nodes, n)
		}
	}
	for _, process := range sortedKeys(c.launching) {
		if n := c.launching[process]; stays(n) {
			nodes = append(nodes, n)
		}
	}
	return nodes
}

// countWorkers is how many workers a host has, with those that are on their way.
func (c *core) countWorkers(h hosts.Host) int {
	count := len(c.stayingWorkers(h))
	for _, j := range c.joining {
		if j.host.Same(h) {
			count += j.unstarted()
		}
	}
	return count
}

// unstarted is how many workers of a joining host will be started once it is ready.
func (j *joiningHost) unstarted() int {
	if j.cancelled != "" || j.launching > 0 {
		return 0
	}
	return j.workers
}

// occupied are all hosts with workers: those of the roster in its order, then others.
func (c *core) occupied() (list []hosts.Host) {
	add := func(h hosts.Host) {
		if !slices.ContainsFunc(list, h.Same) {
			list = append(list, h)
		}
	}
	for _, p := range c.roster {
		add(p.Host)
	}
	for _, n := range c.nodes {
		if n.Role == roleWorker && !n.ended {
			add(n.host)
		}
	}
	for _, j := range c.joining {
		add(j.host)
	}
	return slices.DeleteFunc(list, func(h hosts.Host) bool { return c.countWorkers(h) == 0 })
}

// planPlacement plans for workers on hosts that were named. It returns why that is not possible.
func (c *core) planPlacement(s *scaling, placement []control.WorkersOnHost) (refusal string) {
	var named []hosts.Host
	moves := false
	for _, x := range placement {
		h, err := hosts.ParseHost(x.Host)
		if err != nil {
			return err.Error()
		}
		named = append(named, h)
		p := c.placeOf(h)
		if p != nil {
			h = p.Host
		}
		have := c.countWorkers(h)
		s.hosts = append(s.hosts, control.WorkersOnHost{Host: c.hostName(h), Workers: x.Workers})
		switch {
		case c.departing(h) && x.Workers > 0:
			return fmt.Sprintf("host %s is being taken away", h)
		case p == nil && (x.Workers > have || have == 0):
			return fmt.Sprintf("host %s is not one of the job's hosts: name one of its hosts file, or add it first with launch ctl add", h)
		case p == nil:
		case p.Slots > 0 && x.Workers > p.Slots:
			return fmt.Sprintf("host %s has no free slot: %d workers are wanted, and it has slots=%d", h, x.Workers, p.Slots)
		case x.Workers > have:
			s.starts = append(s.starts, growth{host: p.Host, workers: x.Workers - have})
		}
		moves = moves || x.Workers > have
		s.release(c, h, have-x.Workers)
	}
	for _, h := range c.occupied() {
		if !slices.ContainsFunc(named, h.Same) {
			s.release(c, h, c.countWorkers(h))
		}
	}
	if c.set.MaxWorkers == 1 && moves && len(s.releases) > 0 {
		return "a job of at most 1 worker (--max-workers) cannot move it to another host: the new one joins before the old one leaves"
	}
	return ""
}

// planNumber plans for a number of workers, on hosts with free slots. It returns why that is not
// possible.
func (c *core) planNumber(s *scaling) (refusal string) {
	have := 0
	all := c.occupied()
	for _, h := range all {
		have += c.countWorkers(h)
	}
	if missing := s.workers - have; missing > 0 {
		if missing -= c.planStarts(s, missing); missing > 0 {
			return fmt.Sprintf("no free slot for %d of %s: the hosts have %s", missing, plural.Of(s.workers, "worker"), c.slotsText())
		}
		return ""
	}
	s.releaseHighest(c, all, have-s.workers)
	return ""
}

// planStarts chooses hosts for more workers: free slots in the order of the hosts, then hosts
// without slots=, the one with the fewest workers first. It returns how many it found a place for.
func (c *core) planStarts(s *scaling, missing int) (placed int) {
	more := make(map[*place]int)
	for _, p := range c.roster {
		if p.withdrawn || s.failed[p.String()] {
			continue
		}
		if n := min(missing-placed, p.slots()-c.countWorkers(p.Host)); n > 0 {
			more[p], placed = n, placed+n
		}
	}
	for ; placed < missing; placed++ {
		var best *place
		for _, p := range c.roster {
			if p.Slots == 0 && !p.withdrawn && !s.failed[p.String()] && (best == nil || c.countWorkers(p.Host)+more[p] < c.countWorkers(best.Host)+more[best]) {
				best = p
			}
		}
		if best == nil {
			break
		}
		more[best]++
	}
	for _, p := range c.roster {
		if more[p] > 0 {
			s.starts = append(s.starts, growth{host: p.Host, workers: more[p]})
		}
	}
	return placed
}

// slotsText says how many slots the hosts have, and how many are taken.
func (c *core) slotsText() string {
	var parts []string
	for _, p := range c.roster {
		switch {
		case len(parts) == 20:
			return strings.Join(append(parts, "..."), ", ")
		case p.withdrawn:
			parts = append(parts, fmt.Sprintf("%s was removed", p.Host))
		default:
			parts = append(parts, fmt.Sprintf("%s %d of %d slots taken", p.Host, c.countWorkers(p.Host), p.slots()))
		}
	}
	return strings.Join(parts, ", ")
}

// release plans that so many workers of a host leave: those that are not started yet, then those
// that have not joined, then the highest ranks.
func (s *scaling) release(c *core, h hosts.Host, count int) {
	if count > 0 {
		s.releaseHighest(c, []hosts.Host{h}, count)
	}
}

// releaseHighest plans that so many workers of some hosts leave. Hosts that are still being reached
// start fewer.
func (s *scaling) releaseHighest(c *core, on []hosts.Host, count int) {
	var all []*Node
	for _, h := range on {
		for i := len(c.joining) - 1; i >= 0; i-- {
			if j := c.joining[i]; j.host.Same(h) {
				if n := min(count, j.unstarted()); n > 0 {
					s.fewer = append(s.fewer, fewerStarts{j, n})
					count -= n
				}
			}
		}
		all = append(all, c.stayingWorkers(h)...)
	}
	slices.SortStableFunc(all, func(a, b *Node) int {
		switch {
		case a.member != b.member && b.member:
			return -1
		case a.member != b.member:
			return 1
		}
		return cmp.Or(cmp.Compare(b.Rank, a.Rank), cmp.Compare(b.process, a.process))
	})
	s.releases = append(s.releases, all[:min(count, len(all))]...)
}
