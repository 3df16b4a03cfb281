package job

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"syscall"

	"github.com/paragon-train/paragon/internal/hosts/hosts"
	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/internal/observe/joblog"
)

// A wantedState is what the scheduler wants, as it said last. While the scheduler is away this holds.
// Before it has said anything, all processes that the job began with are wanted.
type wantedState struct {
	revision uint64 // 0: the scheduler has not said anything
	// over says that the job has finished or failed: it does not go on without what was lost.
	over  bool
	after uint64 // number of the newest event
	// processes are those that the scheduler names.
	processes map[uint32]control.WantedProcess
	// hosts are those that host_worker should list, by name; nil: nothing was said of them yet.
	hosts map[string]control.WantedHost
	// listed are all hosts that were ever among them.
	listed    map[string]bool
	dismissed []string
}

// names reports whether the scheduler names a process, or has not named any.
func (w *wantedState) names(process uint32) bool {
	_, named := w.processes[process]
	return named || w.revision == 0
}

// left reports whether a host had workers of the job, and is to have none any more.
func (w *wantedState) left(host string) bool {
	_, wanted := w.hosts[host]
	return w.listed[host] && !wanted
}

// takeHosts takes the hosts that host_worker should list, and returns those that it should list in
// another way, and those that it should no longer list.
func (w *wantedState) takeHosts(list []control.WantedHost) (add []control.WantedHost, remove []string) {
	before, first := w.hosts, w.hosts == nil
	w.hosts = make(map[string]control.WantedHost)
	if w.listed == nil {
		w.listed = make(map[string]bool)
	}
	for _, h := range list {
		w.hosts[h.Host], w.listed[h.Host] = h, true
		if old, had := before[h.Host]; !first && (!had || old != h) {
			add = append(add, h)
		}
	}
	for _, host := range sortedKeys(before) {
		if _, still := w.hosts[host]; !still {
			remove = append(remove, host)
		}
	}
	return add, remove
}

// takeWanted takes what the scheduler wants, and what has happened. Whatever is missing is started,
// and what is not wanted ends.
func (c *core) takeWanted(w *control.Wanted) {
	c.want.over = c.want.over || w.Over()
	for _, e := range w.Events {
		if e.Number > c.want.after {
			c.want.after = e.Number
			c.news(e)
		}
	}
	if w.Revision <= c.want.revision || c.stage != running {
		return
	}
	c.want.revision = w.Revision
	if c.done {
		return
	}
	c.want.dismissed = w.Dismissed
	awaited := c.anyDoneAwaited()
	before := c.want.processes
	c.want.processes = make(map[uint32]control.WantedProcess)
	for _, p := range w.Processes {
		c.want.processes[p.Process] = p
	}
	if c.set.Elastic {
		add, remove := c.want.takeHosts(w.Hosts)
		for _, x := range add {
			if h, err := hosts.ParseHost(x.Host); err == nil {
				h.Slots, h.GPUs, h.CPUs = x.Slots, x.GPUs, x.CPUs
				c.do(listHost{h, true})
			}
		}
		for _, name := range remove {
			if h, err := hosts.ParseHost(name); err == nil {
				c.do(listHost{h, false})
			}
		}
	}
	for _, p := range w.Processes {
		if n := c.find(p.Process); n != nil {
			c.aim(n, p, before[p.Process])
		} else if p.Goal == control.GoalRun && !c.done {
			c.arrive(p)
		}
		if c.stage != running {
			return
		}
	}
	for _, process := range slices.Sorted(maps.Keys(before)) {
		n := c.find(process)
		if _, still := c.want.processes[process]; still || n == nil {
			continue
		}
		if n.doneAwaited() {
			n.awaited, n.leaving = false, true // it was judged before it ended
		}
		if n.ended {
			continue
		}
		n.leaving = true
		c.giveUp(n, "fewer workers are wanted", fate{code: control.FateUnneeded})
	}
	if awaited {
		c.doneJudged()
	}
	for _, m := range slices.Sorted(maps.Keys(c.machines)) {
		if h, err := hosts.ParseHost(m); err == nil {
			c.release(h)
		}
	}
	c.report.due = true
}

// aim brings a process to what is wanted of it: its rank, its fate, its end.
func (c *core) aim(n *Node, p, before control.WantedProcess) {
	if n.Role == roleWorker && p.Joined {
		n.joining, n.member = false, true
		if p.Rank >= 0 && p.Rank != n.Rank && !n.ended {
			n.Rank = p.Rank
			c.do(rename{n.process, n.source()})
		}
	}
	n.leaving = n.leaving || p.Goal == control.GoalLeave || p.Fate == control.FateRemoved || p.Fate == control.FateRefused
	if p.Fate != "" && before.Fate == "" {
		c.judged(n, p)
	}
	if n.awaited && p.Goal == control.GoalOver {
		n.awaited = false
	}
	if p.Goal == before.Goal || n.ended || c.stage != running {
		return
	}
	switch p.Goal {
	case control.GoalLeave, control.GoalEnd:
		why := fate{p.Fate, p.Note}
		if p.Goal == control.GoalLeave && !n.arriving {
			return // it ends by itself
		}
		if p.Grace() == 0 || n.arriving {
			c.giveUp(n, givenUp(p), why)
			return
		}
		c.evict(n, why, p.Grace())
	case control.GoalKill:
		if p.Grace() == 0 {
			c.signal(n, syscall.SIGKILL)
			return
		}
		c.after(p.Grace(), kill{n})
	}
}

// givenUp says why a process is not started any more.
func givenUp(p control.WantedProcess) string {
	switch {
	case p.Fate == control.FateRefused:
		return "the scheduler gave up on the host"
	case p.Role == roleServer:
		return "the server is no longer wanted"
	}
	return "the host was removed"
}

// giveUp ends a process, or the work that would start it.
func (c *core) giveUp(n *Node, why string, as fate) {
	switch {
	case n.arriving:
		c.cancelArrival(n, why)
	case c.launching[n.process] != nil:
		n.unwanted = as
		c.do(cancelStart{n.process, why})
	default:
		c.evict(n, as, 0)
	}
}

// judged takes what the scheduler says of a process that has ended, or that it has given up.
func (c *core) judged(n *Node, p control.WantedProcess) {
	switch p.Fate {
	case control.FateFailed:
		if n.awaited {
			n.awaited = false
			c.failed(n)
		}
		return
	case control.FateLost:
		if n.lost {
			return
		}
		n.lost = true
		if n.Role == roleWorker {
			c.lost = n
		}
		if n.ended {
			c.tellLost(n, p)
		} else { // how it ends says more, if it is ending
			c.after(settleTime, declaredLoss{n, p})
		}
	case control.FateRestarted:
		n.lost = true
		c.tellRestarted(n)
	case control.FateNotJoined:
		c.tellUnjoined(n, p)
	case control.FateRemoved, control.FateRefused:
		if !n.ended || !n.Exit.OK() && n.fate.code != "" {
			return // its eviction says so, if it does not end by itself
		}
	}
	n.fate = fate{p.Fate, p.Note}
}

// declaredLoss tells of a process that the scheduler has declared lost.
type declaredLoss struct {
	node *Node
	want control.WantedProcess
}

func (l declaredLoss) run(c *core) { c.tellLost(l.node, l.want) }

// tellLost tells of a worker or a server that was lost, once; the job goes on.
func (c *core) tellLost(n *Node, p control.WantedProcess) {
	if n.lossTold || c.stage != running {
		return
	}
	n.lossTold = true
	why := p.Reason
	if n.ended && !n.Exit.OK() {
		why = n.Exit.String()
	}
	switch {
	case n.Role == roleServer:
		c.warn(fmt.Sprintf("%s on %s was lost: %s; the job goes on with the backups of its shards", n.Name(), n.Host, why), joblog.ServerLost.Of(n.logged(), "reason", why))
	case n.asked(): // whoever sent the signal wants no replacement, and the others may be about to end, too
		c.warn(fmt.Sprintf("%s on %s ended: %s: it or another worker %s", n.Name(), n.Host, n.Exit, outside), joblog.WorkerLost.Of(n.logged(), "reason", why))
	default:
		verb := "was lost"
		if n.failedItself() {
			verb = "failed"
		}
		text := fmt.Sprintf("%s on %s %s: %s", n.Name(), n.Host, verb, why)
		if !c.want.over {
			text += "; the job goes on"
		}
		c.warn(text, joblog.WorkerLost.Of(n.logged(), "reason", why))
	}
}

// tellRestarted tells of a process that ended before the job was complete, and in whose place
// another one is wanted.
func (c *core) tellRestarted(n *Node) {
	for _, number := range slices.Sorted(maps.Keys(c.want.processes)) {
		if p := c.want.processes[number]; p.Early && p.Role == n.Role && p.Number == n.number && number > n.process {
			c.warn(fmt.Sprintf("%s on %s ended before the job was complete: %s; starting it again in %s (attempt %d of %d)", n.Name(), n.Host, n.Exit, p.Delay(), p.Attempt, c.attempts(n)),
				joblog.ProcessRestarting.Of(n.logged(), "attempt", p.Attempt, "wait", p.Delay()))
			return
		}
	}
}

// tellUnjoined tells of a process that ended before it had joined the running job.
func (c *core) tellUnjoined(n *Node, p control.WantedProcess) {
	text, why := fmt.Sprintf("%s on %s ended before it had joined: %s", n.Name(), n.Host, n.Exit), causeOf(n.Exit)
	switch {
	case n.Role == roleWorker && n.Exit.Final():
		text = fmt.Sprintf("%s on %s ended before it had joined: exit %d: %s; no restart can mend this, so it is not started again", n.Name(), n.Host, n.Exit.Code, why.Text)
	case n.Role == roleWorker && n.Exit.Signal == 0 && n.Exit.Err == "" && !n.asked():
		text += "; a worker that joins a running job has to call Ready of its store (kvstore.Elastic) before it takes part, as worker.Fit does"
	}
	c.warn(text, joblog.ProcessUnjoined.Of(n.logged(), "exit", n.Exit.String()))
}

// A watching is the state of the watch of what is wanted: one request at a time.
type watching uint8

const (
	notWatching  watching = iota // the job has no news yet
	watchAsked                   // a request is under way
	watchPaused                  // the next request comes a little later
	watchRefused                 // the scheduler does not answer the watch
)

// A watchRequest is the goal of a request for what is wanted.
type watchRequest struct{}

// follow begins to watch what is wanted, and to report. A job whose processes cannot change begins
// when there is something that it must be told of.
func (c *core) follow() {
	if c.watching == notWatching && c.stage == running {
		if c.report.due = true; c.formed && c.set.Changes {
			c.followFiles()
		}
		c.askWanted()
	} else if c.formed && c.set.Changes {
		c.followFiles()
	}
}

// followFiles hands over edits of host_worker from now on.
func (c *core) followFiles() {
	if !c.files {
		c.files = true
		c.do(follow{})
	}
}

func (c *core) askWanted() {
	c.watching = watchAsked
	c.ask(control.Request{Op: control.OpWanted, Revision: c.want.revision, After: c.want.after, WaitMillis: eventsWait.Milliseconds()}, 0, watchRequest{})
}

// wantedAnswered takes an answer of the watch, and asks again.
func (c *core) wantedAnswered(e answered) {
	if e.err != nil {
		c.watching = watchRefused
		c.after(quietTime, watchLost{e.err}) // the job may be about to end
		return
	}
	revision, after := c.want.revision, c.want.after
	c.takeWanted(&e.wanted)
	if e.wanted.Over() && c.stage == running && c.anyDoneAwaited() { // no more ends are judged
		for _, n := range c.nodes {
			if n.doneAwaited() {
				n.awaited = false
			}
		}
		c.doneJudged()
	}
	news := c.want.revision > revision || c.want.after > after
	switch {
	case c.stage != running:
	case news:
		c.askWanted()
	case e.wanted.Over():
		// Nothing more will be wanted.
		c.watching = watchPaused
		c.after(overPause, watchAgain{})
	default:
		// A scheduler that answers at once that nothing happened is not asked again at once.
		c.watching = watchPaused
		c.after(firstPause, watchAgain{})
	}
}

// watchAgain asks for what is wanted again.
type watchAgain struct{}

func (watchAgain) run(c *core) { c.askWanted() }

// watchLost tells that the job cannot change any more.
type watchLost struct{ err error }

func (l watchLost) run(c *core) {
	c.error(fmt.Sprintf("launch: follow the changes of the job: %v; hosts can no longer join or leave", l.err))
}

// wantedHost is the host of a wanted process, with the limits that are known of it.
func (c *core) wantedHost(p control.WantedProcess) (hosts.Host, error) {
	h, err := hosts.ParseHost(p.Host)
	if err != nil {
		return h, err
	}
	h.Slots, h.GPUs, h.CPUs = p.Slots, p.GPUs, p.CPUs
	for _, n := range c.nodes {
		if n.host.Same(h) && n.Role == p.Role {
			h = n.host
			h.Slots, h.GPUs, h.CPUs = cmp.Or(p.Slots, h.Slots), cmp.Or(p.GPUs, h.GPUs), cmp.Or(p.CPUs, h.CPUs)
			break
		}
	}
	return c.limited(h), nil
}
