package job

import (
	"fmt"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/paragon-train/paragon/internal/hosts/hosts"
	"github.com/paragon-train/paragon/internal/member/control"
)

// ownNumbers is what numbers are above that the launcher gives once it reports to the scheduler: to
// schedulers and to preparations. Those of servers and workers the scheduler gives.
const ownNumbers = 1_000_000

// ownNumber is the number of a process that the launcher starts without being asked.
func (c *core) ownNumber() uint32 {
	if c.watching != notWatching {
		c.processes = max(c.processes, ownNumbers)
	}
	c.processes++
	return c.processes
}

// newNode is a process that is not started yet.
func (c *core) newNode(number uint32, role string, rank int, host hosts.Host) *Node {
	if role != roleWorker {
		host = c.limited(host)
	}
	n := &Node{Role: role, Rank: rank, Host: host.String(), host: host, process: number, number: rank}
	c.do(open{n.process, n.source(), len(c.nodes)}) // a colour of its own
	return n
}

// find is the node of a process; nil: launch did not start it, or nothing is remembered of it.
func (c *core) find(process uint32) *Node {
	if n := c.launching[process]; n != nil {
		return n
	}
	for _, n := range c.nodes {
		if n.process == process {
			return n
		}
	}
	for _, n := range slices.Concat(c.arrivals, c.unstarted) {
		if n.process == process {
			return n
		}
	}
	for _, a := range c.accesses {
		if a.preparation != nil && a.preparation.process == process {
			return a.preparation
		}
	}
	return nil
}

// startNode starts a process on its machine.
func (c *core) startNode(n *Node) {
	c.launching[n.process] = n
	n.started = c.now
	a := startProcess{process: n.process, machine: n.machine.id, name: n.Name(), role: n.Role, rank: n.Rank, number: n.number, host: n.host, hostName: c.hostName(n.host),
		joins: n.joining || n.early, sharers: c.sharers(n), address: c.address, port: c.port, launcherDir: n.Role == roleScheduler && c.set.Scheduler == nil}
	switch {
	case n.Role == roleScheduler:
		a.hosts, a.metrics = c.expected(), c.metrics
	case n.Role == roleWorker:
		a.gpus = c.gpus(n)
		if n.joining {
			a.rank = -1 // its rank is the scheduler's to give
		}
	}
	c.do(a)
}

func (c *core) processStarted(e started) {
	n := c.launching[e.process]
	if n == nil {
		return
	}
	delete(c.launching, e.process)
	n.PID = e.pid
	switch {
	case c.stage == starting:
		c.startedAtStart(n, nil)
		return
	case n.Role == rolePrepare:
		c.preparationStarted(n)
		return
	case c.stage >= closing: // it ends with its machine
		n.signalled = true
		c.nodes = append(c.nodes, n)
		return
	}
	c.nodes = append(c.nodes, n)
	c.report.due = true
	if n.owed != 0 {
		c.signal(n, n.owed)
	}
	switch {
	case c.stage >= stopAll || n.Role == roleWorker && c.stage > running: // the others have been told, or will be
		n.stopped, n.fate = true, fate{code: control.FateUnneeded}
		c.signal(n, syscall.SIGTERM)
	case n.unwanted.code != "":
		c.evict(n, fate{code: control.FateUnneeded}, 0)
	case n.Role == roleWorker && c.done:
		c.evict(n, fate{code: control.FateUnneeded}, 0)
	}
}

func (c *core) processNotStarted(e startFailed) {
	n := c.launching[e.process]
	if n == nil {
		return
	}
	delete(c.launching, e.process)
	n.ended = c.stage != starting // at the start it may be started again
	switch {
	case c.stage == starting:
		c.startedAtStart(n, e.err)
	case c.stage >= closing:
	case n.Role == rolePrepare:
		c.preparationOver(n, fmt.Errorf("prepare-data: %w", e.err))
	case n.Role == roleScheduler:
		c.schedulerNotStarted(n, e.err)
	default:
		c.freeGPUs(n)
		c.notStarted(n, e.err)
	}
}

func (c *core) processEnded(e ended) {
	n := c.find(e.process)
	switch {
	case n == nil || n.ended:
	case c.stage == starting:
		c.endedAtStart(n, e)
	case n.Role == rolePrepare:
		n.finish(e)
		c.preparationEnded(n)
	default:
		n.finish(e)
		c.report.due = true
		if c.stage < closing {
			c.afterEnd(n)
		}
	}
}

// afterEnd says what the end of a process means for the job.
func (c *core) afterEnd(n *Node) {
	switch {
	case n.Exit.OK(): // servers and scheduler may end before the last worker does, once all have left the job
		c.endedWell(n)
	case n.Exit.Final() && c.jobNeeds(n):
		c.failedFinally(n)
	case c.stage > settling || n.stopped:
	case c.stoppedWell(n):
		n.stopped = true
	case c.goesOn(n):
	default:
		c.failed(n)
	}
	if c.activeWorkers() == 0 {
		switch c.stage {
		case running:
			c.noWorker()
		case stopWorkers:
			c.enter(stopAll)
		}
	}
	c.release(n.host)
	c.forget()
}

// finish takes note of how a process ended.
func (n *Node) finish(e ended) {
	n.ended, n.Exit = true, e.exit
	if n.Last = e.last; len(n.Last) > maxLast {
		n.Last = strings.Clone(n.Last[:maxLast])
	}
}

// endedAt is when the process ended, by the launcher's clock.
func (n *Node) endedAt() time.Time { return n.started.Add(n.Exit.Elapsed) }

// signal sends a process a signal; one that is being started gets it then.
func (c *core) signal(n *Node, s syscall.Signal) {
	n.signalled = true
	if c.launching[n.process] != nil {
		n.owed = s
		return
	}
	c.do(signalProcess{n.process, s})
}

// signalAll signals all processes of some roles that run.
func (c *core) signalAll(s syscall.Signal, roles ...string) {
	for _, n := range c.nodes {
		for _, role := range roles {
			if n.Role == role && !n.ended && n.PID != 0 {
				c.signal(n, s)
			}
		}
	}
}

// evict ends a process that is no longer wanted: after a time it gets SIGTERM, and if that does not
// end it SIGKILL.
func (c *core) evict(n *Node, why fate, after time.Duration) {
	e := eviction{n, why}
	if after == 0 {
		e.run(c)
		return
	}
	c.after(after, e)
}

// eviction sends the SIGTERM of evict, kill a SIGKILL.
type (
	eviction struct {
		node *Node
		why  fate
	}
	kill struct{ node *Node }
)

func (e eviction) run(c *core) {
	if e.node.ended {
		return
	}
	if e.node.stopped = true; e.node.fate.code == "" {
		e.node.fate = e.why
	}
	c.signal(e.node, syscall.SIGTERM)
	c.after(c.set.StopTimeout, kill{e.node})
}

func (k kill) run(c *core) {
	if !k.node.ended {
		c.signal(k.node, syscall.SIGKILL)
	}
}

// maxExpected bounds what expected says: Linux has room for 128 KiB in one variable. Whom it leaves
// out the scheduler knows by rank only.
const maxExpected = 100 << 10

// expected tells the scheduler where everybody comes up, so that it can name whom it waits for:
// worker/0/d1,server/0/d1.
func (c *core) expected() string {
	var b strings.Builder
	for _, n := range c.nodes[1:] {
		if n.joining || n.early || n.Role == roleScheduler {
			continue
		}
		item := fmt.Sprintf(",%s/%d/%s", n.Role, n.number, c.hostName(n.host))
		if b.Len()+len(item) > maxExpected {
			break
		}
		b.WriteString(item)
	}
	return strings.TrimPrefix(b.String(), ",")
}

// hostName is what the job's nodes call a host. Where hosts come and go it is what the operator
// calls it, with user and port.
func (c *core) hostName(h hosts.Host) string {
	if c.set.Elastic {
		return h.String()
	}
	return h.Name
}

// sharers is how many processes of n's role its machine runs, n among them: each gets its share of
// the cores. Workers and servers take the cores in turns, so one role's number does not matter to
// the other.
func (c *core) sharers(n *Node) int {
	count := 1
	for _, o := range c.nodes {
		if o.Role == n.Role && o.machine == n.machine && !o.ended && o != n {
			count++
		}
	}
	return count
}
