package job

import (
	"fmt"
	"strings"
	"syscall"
	"time"

	"github.com/paragon-train/paragon/internal/hosts/hosts"
	"github.com/paragon-train/paragon/internal/member/control"
)

// newNode is a process that is not started yet.
func (c *core) newNode(role string, rank int, host hosts.Host) *Node {
	c.processes++
	if role != roleWorker {
		host = c.limited(host)
	}
	n := &Node{Role: role, Rank: rank, Host: host.String(), host: host, process: c.processes, number: rank}
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
	for _, j := range c.joining {
		if j.preparation != nil && j.preparation.process == process {
			return j.preparation
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
	if n.owed != 0 {
		c.signal(n, n.owed)
	}
	switch {
	case c.stage >= stopAll || n.Role == roleWorker && c.stage > running: // the others have been told, or will be
		n.stopped, n.fate = true, fate{code: control.FateUnneeded}
		c.signal(n, syscall.SIGTERM)
	case n.Role == roleWorker && (c.done || n.leaving || c.host(n.host).leaving):
		c.evict(n, fate{code: control.FateUnneeded}, 0)
	}
	c.launched(n, nil)
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
	default:
		c.freeGPUs(n)
		c.launched(n, e.err)
	}
}

// launched goes on with what a process was started for while the job runs.
func (c *core) launched(n *Node, err error) {
	switch goal := n.goal.(type) {
	case *joiningHost:
		c.workerLaunched(goal, err)
	case *replacement:
		c.replacementLaunched(goal, err)
	case *wantedServer:
		c.serverLaunched(goal, err)
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
