package job

import (
	"fmt"
	"syscall"
	"time"

	"github.com/paragon-train/paragon/internal/hosts/hosts"
	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/launch/internal/hostworker"
)

// ask asks the scheduler at once; goal says what is done with the answer.
func (c *core) ask(q control.Request, limit time.Duration, goal any) {
	c.requests++
	id := c.requests
	c.asked[id] = goal
	c.do(ask{id, q, limit})
}

// An editRequest is what an edit of host_worker asks the scheduler for. It is sent after all that
// were asked for before.
type editRequest struct {
	control.Request
	host hosts.Host
}

// edited passes on what an edit of host_worker asks for; the scheduler decides.
func (c *core) edited(e edited) {
	for _, h := range e.Resized {
		c.warn(fmt.Sprintf("%s: slots=, gpus= and cpus= of %s take effect when the host is added; to change them, remove the host, and add it again once it has left", hostworker.Name, h))
	}
	request := func(q control.Request, h hosts.Host) {
		q.Host = h.String()
		if c.queue = append(c.queue, editRequest{q, h}); len(c.queue) == 1 {
			c.ask(q, 0, c.queue[0])
		}
	}
	for _, h := range e.Removed {
		request(control.Request{Op: control.OpRemove}, h)
	}
	for _, h := range e.Added {
		if c.departing(h) { // whoever writes the file may not know yet
			c.warn(fmt.Sprintf("%s: %s is not added: it is being taken away", hostworker.Name, h))
			c.do(listHost{h, false})
			continue
		}
		request(control.Request{Op: control.OpAdd, Slots: h.Slots, GPUs: h.GPUs, CPUs: h.CPUs}, h)
	}
}

func (c *core) answered(e answered) {
	if c.stage >= closing {
		return
	}
	goal := c.asked[e.id]
	delete(c.asked, e.id)
	if e.err == nil {
		c.heard = c.now
	}
	switch goal := goal.(type) {
	case editRequest:
		if len(c.queue) == 0 {
			return // the job no longer changes
		}
		if c.queue = c.queue[1:]; e.err != nil {
			c.error(fmt.Sprintf("%s: %s %s: %v", hostworker.Name, goal.Op, goal.host, e.err))
		}
		if len(c.queue) > 0 {
			c.ask(c.queue[0].Request, 0, c.queue[0])
		}
	case stopRequest:
		if c.stage < killing {
			c.signalAll(syscall.SIGTERM, roleWorker)
		}
	case checkpointRequest:
		c.checkpointAnswered(e.err)
	case reportRequest:
		c.report.asked = false
	case watchRequest:
		if c.stage == running {
			c.wantedAnswered(e)
		}
	}
}
