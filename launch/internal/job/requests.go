package job

import (
	"fmt"
	"time"

	"github.com/paragon-train/paragon/internal/hosts/hosts"
	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/launch/internal/hostworker"
)

// requests are those to the scheduler whose answers are pending. The shell repeats a request until
// it is answered, also while the scheduler is being started again.
type requests struct {
	out *output
	// last is the number of the newest one; 0 is that of requests whose answer nobody wants.
	last int
	// asked says what the answers are for.
	asked map[int]any
	// edits are what edits of host_worker ask for, in order: the first one is under way.
	edits []editRequest
}

// The goals of requests: a stop of all, a stop with a checkpoint, a report of what is observed, and
// the watch of what is wanted.
type (
	stopRequest       struct{}
	checkpointRequest struct{}
	reportRequest     struct{}
	watchRequest      struct{}
)

// An editRequest is what an edit of host_worker asks the scheduler for. It is sent after all that
// were asked for before, since a host may be removed and added again.
type editRequest struct {
	control.Request
	host hosts.Host
}

// ask asks the scheduler; goal says what is done with the answer.
func (r *requests) ask(q control.Request, limit time.Duration, goal any) {
	r.last++
	r.asked[r.last] = goal
	r.out.do(ask{r.last, q, limit})
}

// answered removes a request that was answered, and returns its goal.
func (r *requests) answered(id int) any {
	goal := r.asked[id]
	delete(r.asked, id)
	return goal
}

// drop cancels the requests of a goal: nobody waits for their answers.
func (r *requests) drop(goal any, why string) {
	for _, id := range sortedKeys(r.asked) {
		if r.asked[id] == goal {
			delete(r.asked, id)
			r.out.do(cancelAsk{id, why})
		}
	}
}

// edit passes on what an edit of host_worker asks for; the scheduler decides. Whoever writes the file
// may not know yet that a host is being taken away.
func (r *requests) edit(e hostworker.Change, machines *machines) {
	for _, h := range e.Resized {
		r.out.warn(fmt.Sprintf("%s: slots=, gpus= and cpus= of %s take effect when the host is added; to change them, remove the host, and add it again once it has left", hostworker.Name, h))
	}
	for _, h := range e.Removed {
		r.queue(editRequest{control.Request{Op: control.OpRemove, Host: h.String()}, h})
	}
	for _, h := range e.Added {
		if machines.departing(h) {
			r.out.warn(fmt.Sprintf("%s: %s is not added: it is being taken away", hostworker.Name, h))
			r.out.do(listHost{h, false})
			continue
		}
		r.queue(editRequest{control.Request{Op: control.OpAdd, Host: h.String(), Slots: h.Slots, GPUs: h.GPUs, CPUs: h.CPUs}, h})
	}
}

// queue sends a request when those before it have been answered.
func (r *requests) queue(e editRequest) {
	if r.edits = append(r.edits, e); len(r.edits) == 1 {
		r.ask(e.Request, 0, e)
	}
}

// edited takes the answer to an edit, and asks for the next one.
func (r *requests) edited(e editRequest, err error) {
	// The job changes no more.
	if len(r.edits) == 0 {
		return
	}
	if r.edits = r.edits[1:]; err != nil {
		r.out.error(fmt.Sprintf("%s: %s %s: %v", hostworker.Name, e.Op, e.host, err))
	}
	if len(r.edits) > 0 {
		r.ask(r.edits[0].Request, 0, r.edits[0])
	}
}

// busy reports whether anything was asked besides the watch and a report: what those lead to is
// pending by itself.
func (r *requests) busy() bool {
	for _, goal := range r.asked {
		switch goal.(type) {
		case watchRequest, reportRequest:
		default:
			return true
		}
	}
	return false
}

// cancel cancels all that is pending. Answers still come.
func (r *requests) cancel(why string) {
	r.edits = nil
	for _, id := range sortedKeys(r.asked) {
		r.out.do(cancelAsk{id, why})
	}
}
