package job

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"syscall"
	"time"

	"github.com/paragon-train/paragon/internal/hosts/hosts"
	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/internal/observe/joblog"
)

// errTakenAway is why nothing is started on a host.
var errTakenAway = errors.New("the host is being taken away")

// An access is the way to a host on which processes are to be started: it is connected to, and
// prepared for workers that join. All that are wanted there wait for the same access.
type access struct {
	host hosts.Host
	// waiting are those that wait, in their order.
	waiting []*Node
	// connecting is the number of the connection under way; 0: none is.
	connecting int
	// preparation is the command that prepares the host; nil: none runs.
	preparation *Node
	machine     *machine
	// cancelled is why the work ends; empty: it does not.
	cancelled string
}

// drop says that a process does not wait any more.
func (a *access) drop(n *Node) {
	a.waiting = slices.DeleteFunc(a.waiting, func(o *Node) bool { return o == n })
}

// Timers of processes that are wanted.
type (
	// againSaid tells that a worker is started again. How the one before it ended may be seen
	// only meanwhile, and may end the job.
	againSaid struct {
		node *Node
		want control.WantedProcess
	}
	// arrivalDue says that the time before a process is started again is over.
	arrivalDue struct{ node *Node }
	// arrivalLimit ends what takes too long.
	arrivalLimit struct{ node *Node }
	// unstoppable gives a preparation up that does not end.
	unstoppable struct{ preparation *Node }
)

// arrive begins to start a process that is wanted.
func (r *runner) arrive(p control.WantedProcess) {
	h, err := r.wantedHost(p)
	rank := p.Rank
	if rank < 0 {
		rank = p.Number
	}
	n := r.newNode(p.Process, p.Role, rank, h)
	n.number, n.attempt, n.early, n.joining, n.arriving, n.prepare = p.Number, p.Attempt, p.Early, !p.Early, true, p.Prepare
	n.member = p.Early && p.Role == roleWorker
	r.procs.arrivals = append(r.procs.arrivals, n)
	switch {
	case err != nil:
		r.notStarted(n, err)
		return
	case p.Attempt > 0 && !p.Early && p.Role == roleWorker:
		r.out.after(settleTime, againSaid{n, p})
	case p.Attempt > 0 && !p.Early:
		r.out.info(fmt.Sprintf("starting another server %d on %s in %s", p.Rank, h, p.Delay()),
			joblog.ProcessRestarting.Of(n.logged(), "attempt", p.Attempt, "wait", p.Delay()))
	}
	if p.DelayMillis > 0 {
		r.out.after(p.Delay(), arrivalDue{n})
	} else {
		r.seek(n)
	}
}

// wantedHost is the host of a wanted process, with the limits that are known of it.
func (r *runner) wantedHost(p control.WantedProcess) (hosts.Host, error) {
	h, err := hosts.ParseHost(p.Host)
	if err != nil {
		return h, err
	}
	h.Slots, h.GPUs, h.CPUs = p.Slots, p.GPUs, p.CPUs
	for _, n := range r.procs.nodes {
		if n.host.Same(h) && n.Role == p.Role {
			h = n.host
			h.Slots, h.GPUs, h.CPUs = cmp.Or(p.Slots, h.Slots), cmp.Or(p.GPUs, h.GPUs), cmp.Or(p.CPUs, h.CPUs)
			break
		}
	}
	return r.limits.of(h), nil
}

// sayAgain tells that a worker is started again.
func (r *runner) sayAgain(x againSaid) {
	if r.open && !x.node.ended {
		r.out.info(fmt.Sprintf("starting a worker on %s again in %s (attempt %d of %d)", x.node.host, x.want.Delay(), x.want.Attempt, r.set.Rejoin),
			joblog.ProcessRestarting.Of(joblog.Node{Role: roleWorker, Rank: -1, Host: x.node.host.Name}, "attempt", x.want.Attempt, "wait", x.want.Delay()))
	}
}

// seek begins to reach the host of a process, unless it is no longer wanted.
func (r *runner) seek(n *Node) {
	if !n.arriving {
		return
	}
	// The scheduler, too, gives the host up after --join-timeout, and would know less to say
	// about it.
	if !n.early {
		limit := r.set.JoinTimeout
		r.out.after(limit-min(limit/20, time.Second), arrivalLimit{n})
	}
	name := n.host.String()
	a := r.accesses[name]
	if a == nil {
		a = &access{host: n.host}
		r.accesses[name] = a
	}
	a.waiting = append(a.waiting, n)
	r.advance(a)
}

// tooLate gives up on a process that has not been started in time.
func (r *runner) tooLate(n *Node) {
	if why := fmt.Sprintf("gave up after %s (--join-timeout)", r.set.JoinTimeout); n.arriving {
		r.cancelWait(n, why)
	} else if r.procs.launching[n.process] != nil {
		r.out.do(cancelStart{n.process, why})
	}
}

// advance goes on with an access, as far as nothing that is under way must be over first.
func (r *runner) advance(a *access) {
	if a.connecting != 0 || len(a.waiting) == 0 {
		return
	}
	m := r.machines.at(a.host)
	switch {
	case m != nil && !m.lost && (r.set.Remote || r.set.beganOn(a.host)):
		r.reached(a, m, false)
		return
	// A preparation that runs is one of a connection that is lost: it ends.
	case a.preparation != nil:
		return
	}
	a.connecting = r.machines.call(r.machines.key(a.host), a.host, a)
	for _, n := range a.waiting {
		n.try = a.connecting
	}
	if h := a.host; r.set.Remote {
		r.out.do(connect{a.connecting, &h})
	} else {
		r.out.do(checkHost{a.connecting, h})
	}
}

// connected takes the answer to the connection of an access.
func (r *runner) connected(a *access, m *machine, fresh bool, err error) {
	try := a.connecting
	a.connecting = 0
	if err == nil && a.cancelled != "" {
		err = errors.New(a.cancelled)
	}
	a.cancelled = ""
	if err != nil {
		r.accessFailed(a, try, err)
		return
	}
	r.reached(a, m, fresh)
}

// reached starts what waits for a host that is connected. Workers that join wait until it is
// prepared, where it must be.
func (r *runner) reached(a *access, m *machine, fresh bool) {
	a.machine = m
	var rest []*Node
	for _, n := range a.waiting {
		if n.prepare = n.prepare || fresh; r.set.prepares(n) && m.notice == nil {
			rest = append(rest, n)
		} else {
			r.begin(n, m)
		}
	}
	if a.waiting = rest; len(rest) == 0 || !r.open || a.preparation != nil {
		r.closeAccess(a)
		return
	}
	n := r.newNode(r.procs.number(), rolePrepare, 0, a.host)
	n.machine, n.goal, a.preparation = m, a, n
	r.start(n)
}

// begin starts a process on its machine.
func (r *runner) begin(n *Node, m *machine) {
	if m.notice != nil {
		r.notStarted(n, errTakenAway)
		return
	}
	r.procs.dropArrival(n)
	switch {
	case n.Role == roleServer && n.attempt == 0:
		r.out.info(fmt.Sprintf("starting server %d on %s", n.Rank, n.Host))
	case n.Role == roleWorker && !n.early:
		r.out.do(announceWorker{n.host})
	}
	n.machine = m
	r.start(n)
}

// closeAccess forgets an access for which nothing is under way.
func (r *runner) closeAccess(a *access) {
	if a.connecting == 0 && a.preparation == nil && len(a.waiting) == 0 {
		delete(r.accesses, a.host.String())
		r.release(a.host)
	}
}

// accessFailed gives up what has waited for a host since this connection was begun. The host may
// have come back meanwhile, so those that came later begin another one.
func (r *runner) accessFailed(a *access, try int, err error) {
	waiting := a.waiting
	a.waiting = slices.DeleteFunc(slices.Clone(waiting), func(n *Node) bool { return n.try == try })
	for _, n := range waiting {
		if n.try == try {
			r.notStarted(n, err)
		}
	}
	r.advance(a)
	r.closeAccess(a)
}

// notStarted takes note of a process that could not be started, for the report.
func (r *runner) notStarted(n *Node, err error) {
	r.procs.dropArrival(n)
	r.out.changed = true
	if n.unwanted.code == "" && r.open && !n.leaving {
		n.neverRan(err)
		n.await(r.out)
		r.procs.unstarted = append(r.procs.unstarted, n)
		if n.early || n.Role == roleServer && n.attempt > 0 {
			n.machine = r.machines.at(n.host)
			r.procs.nodes = append(r.procs.nodes, n)
		}
	}
	r.release(n.host)
}

// cancelArrival ends the work that would start a process that is not wanted any more.
func (r *runner) cancelArrival(n *Node, why string) {
	n.leaving = true
	r.procs.dropArrival(n)
	a := r.accesses[n.host.String()]
	if a == nil {
		r.release(n.host)
		return
	}
	if a.drop(n); len(a.waiting) == 0 {
		r.cancelAccess(a, why)
	}
	r.closeAccess(a)
}

// cancelWait ends the work that would start a process, since it takes too long. The last one that
// waits for its host is told by the host's answer what it waited for.
func (r *runner) cancelWait(n *Node, why string) {
	a := r.accesses[n.host.String()]
	switch {
	case a == nil:
		return
	// The command may take long to end, so it is not waited for.
	case a.preparation != nil && r.set.prepares(n):
		why = "prepare-data: " + why
	case len(a.waiting) == 1:
		r.cancelAccess(a, why)
		return
	}
	a.drop(n)
	if r.notStarted(n, errors.New(why)); len(a.waiting) == 0 {
		r.cancelAccess(a, why)
	}
}

// cancelAccess cancels what is under way for a host.
func (r *runner) cancelAccess(a *access, why string) {
	if a.cancelled != "" || a.connecting == 0 && a.preparation == nil {
		return
	}
	switch a.cancelled = why; {
	case a.connecting != 0:
		r.out.do(cancelCall{a.connecting, why})
	case r.procs.launching[a.preparation.process] != nil:
		r.out.do(cancelStart{a.preparation.process, why})
	default:
		r.terminate(a.preparation)
	}
}

// preparing is the preparation of that number; nil: none runs that has it.
func (r *runner) preparing(process uint32) *Node {
	for _, a := range r.accesses {
		if a.preparation != nil && a.preparation.process == process {
			return a.preparation
		}
	}
	return nil
}

// preparationStarted ends a preparation that is no longer wanted.
func (r *runner) preparationStarted(n *Node) {
	if n.goal.cancelled != "" {
		r.terminate(n)
	}
}

// killPreparations kills the commands that prepare hosts.
func (r *runner) killPreparations() {
	for _, name := range sortedKeys(r.accesses) {
		if n := r.accesses[name].preparation; n != nil && n.PID != 0 {
			r.reaper.signal(n, syscall.SIGKILL)
		}
	}
}

// terminate sends a preparation SIGTERM, later SIGKILL, and in the end gives it up, also when the
// job no longer changes.
func (r *runner) terminate(n *Node) {
	r.reaper.signal(n, syscall.SIGTERM)
	at := r.out.now.Add(r.set.StopTimeout)
	r.out.timers.add(timer{at, kill{n}, true})
	r.out.timers.add(timer{at.Add(r.set.StopTimeout + killTime), unstoppable{n}, true})
}

// abandon gives a preparation up that does not end.
func (r *runner) abandon(n *Node) {
	if !n.ended {
		r.preparationOver(n, errors.New("prepare-data: cannot be stopped"))
	}
}

// preparationEnded goes on when the command that prepares a host has ended.
func (r *runner) preparationEnded(n *Node) {
	text := ""
	switch {
	case n.goal.cancelled != "":
		text = n.goal.cancelled
	case !n.Exit.OK():
		text = n.Exit.String()
		if last := cut(n.Last, 300); last != "" {
			text += ": " + last
		}
	default:
		r.preparationOver(n, nil)
		return
	}
	r.preparationOver(n, fmt.Errorf("prepare-data: %s", text))
}

// preparationOver starts the workers that waited for it, unless err says why the host is not ready
// for them.
func (r *runner) preparationOver(n *Node, err error) {
	a := n.goal
	n.ended, a.preparation, a.cancelled = true, nil, ""
	if err == nil && !a.machine.usable() {
		err = fmt.Errorf("connection to %s lost", a.host)
	}
	waiting := a.waiting
	a.waiting = nil
	for _, w := range waiting {
		switch {
		case !r.open:
		case !r.set.prepares(w):
			a.waiting = append(a.waiting, w)
		case err != nil:
			r.notStarted(w, err)
		default:
			r.begin(w, a.machine)
		}
	}
	r.advance(a)
	r.closeAccess(a)
}
