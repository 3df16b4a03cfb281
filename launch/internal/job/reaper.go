package job

import (
	"syscall"
	"time"
)

// A reaper ends processes. Who is evicted gets SIGTERM, and SIGKILL if it does not end in time. Others
// are signalled as the stage of the job, or the scheduler, wants it.
type reaper struct {
	out   *output
	procs *processes
	// stopTime is the time between SIGTERM and SIGKILL.
	stopTime time.Duration
}

// An eviction is the SIGTERM for a process that is no longer wanted, and a kill the SIGKILL for one
// that does not end. Both are timers.
type (
	eviction struct {
		node *Node
		why  fate
	}
	kill struct{ node *Node }
)

// signal sends a process a signal; one that is being started gets it then.
func (r *reaper) signal(n *Node, s syscall.Signal) {
	n.signalled = true
	if r.procs.launching[n.process] != nil {
		n.owed = s
		return
	}
	r.out.do(signalProcess{n.process, s})
}

// signalAll signals all processes of some roles that run.
func (r *reaper) signalAll(s syscall.Signal, roles ...string) {
	for _, n := range r.procs.nodes {
		for _, role := range roles {
			if n.Role == role && !n.ended && n.PID != 0 {
				r.signal(n, s)
			}
		}
	}
}

// evict ends a process that is no longer wanted: after a time it gets SIGTERM, and if that does not
// end it SIGKILL.
func (r *reaper) evict(n *Node, why fate, after time.Duration) {
	if after == 0 {
		r.evictNow(eviction{n, why})
		return
	}
	r.out.after(after, eviction{n, why})
}

// evictNow sends the SIGTERM of an eviction.
func (r *reaper) evictNow(e eviction) {
	if e.node.ended {
		return
	}
	if e.node.stopped = true; e.node.fate.code == "" {
		e.node.fate = e.why
	}
	r.signal(e.node, syscall.SIGTERM)
	r.out.after(r.stopTime, kill{e.node})
}

// kill kills a process that has not ended.
func (r *reaper) kill(n *Node) {
	if !n.ended {
		r.signal(n, syscall.SIGKILL)
	}
}

// stop sends a process SIGTERM that has become of no use because the job ends. Whatever does not end
// then is killed with all others.
func (r *reaper) stop(n *Node) {
	n.stopped, n.fate = true, unneeded
	r.signal(n, syscall.SIGTERM)
}
