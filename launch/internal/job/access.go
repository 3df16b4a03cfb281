package job

import (
	"errors"
	"slices"

	"github.com/paragon-train/paragon/internal/hosts/hosts"
)

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
