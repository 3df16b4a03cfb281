package job

import (
	"errors"
	"fmt"
	"syscall"
)

// unstoppable is the timer that gives a preparation up which does not end.
type unstoppable struct{ preparation *Node }

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
