package job

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/paragon-train/paragon/internal/hosts/hosts"
	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/internal/observe/exitreport"
)

const (
	// ownNumbers is what numbers are above that the launcher gives once it reports to the
	// scheduler: to schedulers and to preparations. Those of servers and workers the scheduler
	// gives.
	ownNumbers = 1_000_000
	// maxEnded is how many processes that came and went are remembered one by one, for the
	// table at the end: the newest.
	maxEnded = 1000
	// maxExpected bounds what expected says: Linux has room for 128 KiB in one variable. Whom it
	// leaves out the scheduler knows by rank only.
	maxExpected = 100 << 10
)

// processes are the processes of a job. One that is wanted goes from arrivals, while its host is
// reached, to launching and then to nodes, where it stays after its end; or to unstarted. Those that
// the job begins with are nodes at once, also while they are being started.
type processes struct {
	// nodes are those that have a row in the table at the end of the job: those that the job
	// began with, those that were started, and those that could not be, in the place of others.
	// The first one is the scheduler that all were told of when the job began.
	nodes     []*Node
	launching map[uint32]*Node
	arrivals  []*Node
	// unstarted could not be started, and the scheduler has not been told, or has not said what
	// that means.
	unstarted []*Node

	// last is the highest number that the launcher has given.
	last uint32
	// reported is the highest number when the scheduler was first told of processes: it numbers
	// those that it wants from there on; 0: it has not been told.
	reported uint32
	// forgotten is how many processes ended long ago and are no longer in nodes.
	forgotten int
}

// number is a new number for a process of the launcher.
func (p *processes) number() uint32 {
	if p.reported > 0 {
		p.last = max(p.last, ownNumbers)
	}
	p.last++
	return p.last
}

// find is the node of a process of the job; nil: launch did not start it, or it is forgotten.
func (p *processes) find(process uint32) *Node {
	if n := p.launching[process]; n != nil {
		return n
	}
	for _, list := range [][]*Node{p.nodes, p.arrivals, p.unstarted} {
		for _, n := range list {
			if n.process == process {
				return n
			}
		}
	}
	return nil
}

// any reports whether one of the nodes that were started is as asked.
func (p *processes) any(is func(*Node) bool) bool { return slices.ContainsFunc(p.nodes, is) }

// count is how many of the nodes that were started are as asked.
func (p *processes) count(is func(*Node) bool) (count int) {
	for _, n := range p.nodes {
		if is(n) {
			count++
		}
	}
	return count
}

// alive is how many processes run.
func (p *processes) alive() int { return p.count(func(n *Node) bool { return !n.ended }) }

// working reports whether a worker runs that is in the job, or any. While the job runs, those that
// have not joined yet do not count: nobody admits them when all others are done.
func (p *processes) working(any bool) bool {
	return p.any(func(n *Node) bool { return n.Role == roleWorker && !n.ended && (n.member || any) })
}

// anyAwaited reports whether the scheduler is still to say what the end of a process means.
func (p *processes) anyAwaited() bool {
	awaited := func(n *Node) bool { return n.awaited }
	return p.any(awaited) || slices.ContainsFunc(p.unstarted, awaited)
}

// anyComing reports whether a worker is on its way, or may be: the scheduler has not said yet what
// the end of one means.
func (p *processes) anyComing() bool {
	awaited := func(n *Node) bool { return n.Role == roleWorker && n.awaited }
	return p.any(awaited) || slices.ContainsFunc(p.unstarted, awaited) ||
		slices.ContainsFunc(p.arrivals, func(n *Node) bool { return n.Role == roleWorker })
}

// scheduler is the present one: that with the highest number.
func (p *processes) scheduler() (newest *Node) {
	newer := func(n *Node) {
		if n.Role == roleScheduler && (newest == nil || n.process > newest.process) {
			newest = n
		}
	}
	for _, n := range p.nodes {
		newer(n)
	}
	for _, n := range p.launching {
		newer(n)
	}
	return newest
}

// schedulerDone reports whether the scheduler has ended with code 0: it says nothing any more.
func (p *processes) schedulerDone() bool {
	s := p.scheduler()
	return s.ended && s.Exit.OK()
}

// occupied reports whether a process lives on a machine, or is about to.
func (p *processes) occupied(m *machine) bool {
	at := func(n *Node) bool { return n.machine == m && !n.ended }
	for _, n := range p.launching {
		if at(n) {
			return true
		}
	}
	return p.any(at)
}

// sharers is how many processes of n's role its machine runs, n among them: each gets its share of
// the cores. Workers and servers take the cores in turns, so one role's number does not matter to
// the other.
func (p *processes) sharers(n *Node) int {
	return 1 + p.count(func(o *Node) bool {
		return o.Role == n.Role && o.machine == n.machine && !o.ended && o != n
	})
}

// expected tells the scheduler where everybody comes up, so that it can name whom it waits for:
// worker/0/d1,server/0/d1. name is what the job's nodes call a host.
func (p *processes) expected(name func(hosts.Host) string) string {
	var b strings.Builder
	for _, n := range p.nodes[1:] {
		if n.joining || n.early || n.Role == roleScheduler {
			continue
		}
		item := fmt.Sprintf(",%s/%d/%s", n.Role, n.number, name(n.host))
		if b.Len()+len(item) > maxExpected {
			break
		}
		b.WriteString(item)
	}
	return strings.TrimPrefix(b.String(), ",")
}

// savedSteps is after how many steps workers that stopped say that the job has a complete
// checkpoint; 0: none does.
func (p *processes) savedSteps() (steps uint64) {
	for _, n := range p.nodes {
		if n.Role == roleWorker && n.Exit.Report.Cause == exitreport.Checkpointed {
			steps = max(steps, n.Exit.Report.Steps)
		}
	}
	return steps
}

// dropArrival says that a node is not arriving any more: it is being started, or given up.
func (p *processes) dropArrival(n *Node) {
	n.arriving = false
	p.arrivals = slices.DeleteFunc(p.arrivals, func(o *Node) bool { return o == n })
}

// forget forgets the oldest processes that have ended while the job went on, unless the end of the
// job may be about them. It reports whether any was forgotten.
func (p *processes) forget(kept ...*Node) bool {
	over := p.count(func(n *Node) bool { return n.ended }) - maxEnded
	if over <= 0 {
		return false
	}
	before := p.forgotten
	p.nodes = slices.DeleteFunc(p.nodes, func(n *Node) bool {
		if over <= 0 || !n.ended || n.fate.code == "" || n.Role == roleScheduler || slices.Contains(kept, n) {
			return false
		}
		over--
		p.forgotten++
		return true
	})
	return p.forgotten > before
}

// observed is what the launcher sees of servers and workers: of all that live, and of those that
// ended and that the wanted state still names. Those that could not be started are dropped with the
// last report of them.
func (p *processes) observed(now time.Time, want *wantedState) (list []control.ObservedProcess) {
	seen := make(map[uint32]bool)
	for _, n := range slices.Concat(p.nodes, p.unstarted, slices.Collect(maps.Values(p.launching)), p.arrivals) {
		if n.Role != roleServer && n.Role != roleWorker || seen[n.process] || n.ended && !want.names(n.process) {
			continue
		}
		seen[n.process] = true
		x := control.ObservedProcess{Process: n.process, Role: n.Role, Rank: n.Rank, Number: n.number, Host: n.host.String(), State: control.StateRunning}
		switch {
		case n.ended:
			x.State, x.Cause, x.Seconds, x.Outside = control.StateEnded, causeOf(n.Exit), n.Exit.Elapsed.Seconds(), n.asked()
		case n.arriving:
			x.State = control.StateWaiting
		default:
			x.Seconds = now.Sub(n.started).Seconds()
		}
		list = append(list, x)
	}
	p.unstarted = slices.DeleteFunc(p.unstarted, func(n *Node) bool { return !want.names(n.process) })
	slices.SortFunc(list, func(a, b control.ObservedProcess) int { return cmp.Compare(a.Process, b.Process) })
	return list
}
