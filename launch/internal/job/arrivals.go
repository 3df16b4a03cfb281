package job

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/paragon-train/paragon/internal/hosts/hosts"
	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/internal/observe/joblog"
)

// errTakenAway is why nothing is started on a host.
var errTakenAway = errors.New("the host is being taken away")

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
)

// arrive begins to start a process that is wanted: in a running job this is where every worker and
// server comes from. After its delay seek looks for its host, access.go reaches that, preparation.go
// prepares it, and begin starts the process. notStarted, cancelArrival and cancelWait are the ways
// on which it ends before.
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
