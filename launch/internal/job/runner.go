package job

import (
	"fmt"
	"syscall"

	"github.com/paragon-train/paragon/internal/hosts/hosts"
	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/internal/observe/joblog"
)

// A runner starts processes on hosts, which it reaches and prepares first (arrivals.go, access.go,
// preparation.go). What should run the wanted state says; what the end of a process means is not the
// runner's to decide. It works on the tables
// of processes and of machines, and keeps these true: all that wait for a host wait for the same
// connection and the same preparation; whatever is given up while it waits is not started; and a
// connection is closed only when nothing of the job is there.
type runner struct {
	set       *settings
	out       *output
	procs     *processes
	machines  *machines
	want      *wantedState
	scheduler *endpoint
	reaper    *reaper

	// accesses are the hosts that are being reached or prepared, by name.
	accesses map[string]*access
	gpus     gpuSlots
	limits   hostLimits
	// open says that processes may come and go.
	open bool
}

// newNode is a process that is not started yet.
func (r *runner) newNode(number uint32, role string, rank int, host hosts.Host) *Node {
	if role != roleWorker {
		host = r.limits.of(host)
	}
	n := &Node{Role: role, Rank: rank, Host: host.String(), host: host, process: number, number: rank}
	// The number of nodes before it gives it a colour of its own.
	r.out.do(open{n.process, n.source(), len(r.procs.nodes)})
	return n
}

// expect adds a process that the job begins with.
func (r *runner) expect(role string, rank int, host hosts.Host) {
	n := r.newNode(r.procs.number(), role, rank, host)
	n.member = role == roleWorker
	r.procs.nodes = append(r.procs.nodes, n)
}

// connectAll connects to every machine that the job begins on, each once.
func (r *runner) connectAll() {
	seen := make(map[string]bool)
	for _, n := range r.procs.nodes {
		key := r.machineKey(n)
		if seen[key] {
			continue
		}
		seen[key] = true
		a := connect{id: r.machines.call(key, n.host, nil)}
		if key != "" {
			a.host = &n.host
		}
		r.out.do(a)
	}
}

// machineKey is how the machine of a process is called.
func (r *runner) machineKey(n *Node) string {
	if n.Role == roleScheduler && r.set.SchedulerHost == nil {
		return ""
	}
	return r.machines.key(n.host)
}

// hostName is what the job's nodes call a host. Where hosts come and go it is what the operator
// calls it, with user and port.
func (r *runner) hostName(h hosts.Host) string {
	if r.set.Enabled {
		return h.String()
	}
	return h.Name
}

// start starts a process on its machine.
func (r *runner) start(n *Node) {
	r.procs.launching[n.process] = n
	n.started = r.out.now
	a := startProcess{process: n.process, machine: n.machine.id, name: n.Name(), role: n.Role, rank: n.Rank, number: n.number, host: n.host, hostName: r.hostName(n.host),
		joins: n.joining || n.early, sharers: r.procs.sharers(n), address: r.scheduler.address, port: r.scheduler.port}
	switch n.Role {
	case roleScheduler:
		a.hosts, a.metrics, a.launcherDir = r.procs.expected(r.hostName), r.scheduler.metrics, r.set.SchedulerHost == nil
	case roleWorker:
		a.gpus = r.gpus.take(n)
		// The rank of a joining worker is the scheduler's to give.
		if n.joining {
			a.rank = -1
		}
	}
	r.out.do(a)
}

// another is the scheduler that takes the place of one that ended. what is told of that one. It has a
// number of its own, and is started where the other one was.
func (r *runner) another(n *Node, what string) *Node {
	n.fate = fate{code: control.FateRestarted}
	r.out.warn(fmt.Sprintf("scheduler on %s %s", n.Host, what), joblog.SchedulerLost.Of(n.logged(), "reason", n.Exit.String()))
	return r.newNode(r.procs.number(), roleScheduler, 0, n.host)
}

// restart starts a scheduler in the place of another one, once its host is connected.
func (r *runner) restart(s schedulerAgain) {
	if !s.old.machine.lost {
		s.new.machine = s.old.machine
		r.start(s.new)
		return
	}
	host := s.new.host
	r.out.do(connect{r.machines.call(r.machineKey(s.new), host, s), &host})
}

// giveUp ends a process, or the work that would start it.
func (r *runner) giveUp(n *Node, why string, as fate) {
	switch {
	case n.arriving:
		r.cancelArrival(n, why)
	case r.procs.launching[n.process] != nil:
		n.unwanted = as
		r.out.do(cancelStart{n.process, why})
	default:
		r.reaper.evict(n, as, 0)
	}
}

// dismiss ends a process that the wanted state no longer names. One that ended well meanwhile was let
// go before its end: nothing is to be said of that any more.
func (r *runner) dismiss(n *Node) {
	if n.doneAwaited() {
		n.awaited, n.leaving = false, true
	}
	if !n.ended {
		n.leaving = true
		r.giveUp(n, "fewer workers are wanted", unneeded)
	}
}

// freeze ends all work that would start a process: the job no longer changes.
func (r *runner) freeze(why string) {
	r.open = false
	r.cancelStarts(why)
	for len(r.procs.arrivals) > 0 {
		r.procs.dropArrival(r.procs.arrivals[0])
	}
	for _, name := range sortedKeys(r.accesses) {
		a := r.accesses[name]
		if a.waiting = nil; a.preparation != nil {
			r.cancelAccess(a, why)
		}
	}
}

// cancelStarts cancels all starts of processes. Their answers still come.
func (r *runner) cancelStarts(why string) {
	for _, process := range sortedKeys(r.procs.launching) {
		r.out.do(cancelStart{process, why})
	}
}

// admitNone ends what would join: the job has ended, but some of its workers still do work of their
// own.
func (r *runner) admitNone(why string) {
	for len(r.procs.arrivals) > 0 {
		r.cancelArrival(r.procs.arrivals[0], why)
	}
	for _, process := range sortedKeys(r.procs.launching) {
		if n := r.procs.launching[process]; n.Role == roleWorker {
			n.unwanted = unneeded
			r.out.do(cancelStart{process, why})
		}
	}
}

// joined takes note that a worker is in the job, and of its rank.
func (r *runner) joined(n *Node, rank int) {
	n.joining, n.member = false, true
	if rank >= 0 && rank != n.Rank && !n.ended {
		n.Rank = rank
		r.out.do(rename{n.process, n.source()})
	}
}

// pursue brings a process to the end that is wanted of it. One that leaves ends by itself, when the
// scheduler has let it go; one that has not been started needs no time to end.
func (r *runner) pursue(n *Node, p control.WantedProcess) {
	switch why := (fate{p.Fate, p.Note}); p.Goal {
	case control.GoalLeave, control.GoalEnd:
		switch {
		case p.Goal == control.GoalLeave && !n.arriving:
		case p.Grace() == 0 || n.arriving:
			r.giveUp(n, givenUp(p), why)
		default:
			r.reaper.evict(n, why, p.Grace())
		}
	case control.GoalKill:
		if p.Grace() == 0 {
			r.reaper.signal(n, syscall.SIGKILL)
			return
		}
		r.out.after(p.Grace(), kill{n})
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

// busy reports whether a process is being started, or its host reached or prepared.
func (r *runner) busy() bool {
	return len(r.procs.launching) > 0 || len(r.accesses) > 0 || len(r.procs.arrivals) > 0
}

// releaseAll releases every host that is connected.
func (r *runner) releaseAll() {
	for _, key := range sortedKeys(r.machines.used) {
		if h, err := hosts.ParseHost(key); err == nil {
			r.release(h)
		}
	}
}

// release closes the connection to a host that the job has left, or that is lost or taken away, once
// nothing of the job is there any more.
func (r *runner) release(h hosts.Host) {
	key := r.machines.key(h)
	m := r.machines.used[key]
	if m == nil || key == "" || !r.open || !r.want.left(key) && !m.lost && m.notice == nil || r.accesses[key] != nil || r.procs.occupied(m) {
		return
	}
	for _, n := range r.procs.arrivals {
		if n.Role == roleWorker && n.host.String() == key {
			return
		}
	}
	r.machines.release(m, r.want.dismisses(key) && !m.lost)
}
