package job

import (
	"fmt"
	"log/slog"
	"syscall"
	"time"

	"github.com/paragon-train/paragon/internal/hosts/hosts"
	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/internal/observe/joblog"
	"github.com/paragon-train/paragon/launch/internal/hostworker"
)

// A queuedRequest is one to the scheduler that is sent after all that were queued before it. If it
// is refused, refusal makes the log line; nil: none is written. done, if set, is called with the
// answer.
type queuedRequest struct {
	control.Request
	level   slog.Level
	refusal func(err error) string
	done    func(err error)
}

// ask asks the scheduler at once; goal says what is done with the answer.
func (c *core) ask(q control.Request, limit time.Duration, goal any) {
	id := c.id()
	c.asked[id] = goal
	c.do(ask{id, q, limit})
}

// enqueue asks the scheduler for something, after all that was asked before, unless the job is
// being stopped.
func (c *core) enqueue(q queuedRequest) {
	if c.stage != running {
		return
	}
	if c.queue = append(c.queue, q); len(c.queue) == 1 {
		c.askNext()
	}
}

// queueHead is the goal of the first request of the queue.
type queueHead struct{ queuedRequest }

func (c *core) askNext() { c.ask(c.queue[0].Request, 0, queueHead{c.queue[0]}) }

func (c *core) answered(e answered) {
	if c.stage >= closing {
		return
	}
	goal := c.asked[e.id]
	delete(c.asked, e.id)
	switch goal := goal.(type) {
	case queueHead:
		if len(c.queue) == 0 {
			return // the job no longer changes
		}
		if c.queue = c.queue[1:]; e.err != nil && goal.refusal != nil {
			c.tell(goal.level, goal.refusal(e.err))
		}
		if len(c.queue) > 0 {
			c.askNext()
		}
		if goal.done != nil && c.stage == running {
			goal.done(e.err)
		}
	case stopRequest:
		if c.stage < killing {
			c.signalAll(syscall.SIGTERM, roleWorker)
		}
	case checkpointRequest:
		c.checkpointAnswered(e.err)
	case wishRequest:
		if e.err != nil {
			c.warn(fmt.Sprintf("the job cannot scale as rank 0 asks: %v", e.err), joblog.ScaleShort.With("reason", e.err.Error()))
		}
	case ranksRequest:
		c.ranksAnswered(e)
	case *earlyLoss:
		c.earlyLossAnswered(goal, e.done.Phase)
	}
}

// edited passes on what an edit of host_worker asks for; the scheduler decides.
func (c *core) edited(e edited) {
	for _, h := range e.Resized {
		c.warn(fmt.Sprintf("%s: slots=, gpus= and cpus= of %s take effect when the host is added; to change them, remove the host, and add it again once it has left", hostworker.Name, h))
	}
	request := func(q control.Request, h hosts.Host) {
		q.Host = h.String()
		c.enqueue(queuedRequest{Request: q, level: slog.LevelError, refusal: func(err error) string {
			return fmt.Sprintf("%s: %s %s: %v", hostworker.Name, q.Op, h, err)
		}})
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

// hostFailed tells the scheduler that a host cannot take part.
func (c *core) hostFailed(h hosts.Host, err error) {
	text := plainText(err)
	c.startsMissing(h, text)
	c.enqueue(queuedRequest{Request: control.Request{Op: control.OpFailed, Host: h.String(), Reason: text}, level: slog.LevelWarn, refusal: func(err error) string {
		return fmt.Sprintf("host %s: %s (%v)", h, text, err) // it has other workers, say
	}})
}

// serverFailed tells the scheduler that a server could not be added.
func (c *core) serverFailed(rank int, err error) {
	text := plainText(err)
	c.enqueue(queuedRequest{Request: control.Request{Op: control.OpServerFailed, Rank: rank, Reason: text}, level: slog.LevelWarn, refusal: func(err error) string {
		return fmt.Sprintf("server %d: %s (%v)", rank, text, err)
	}})
}

// reportLoss tells the scheduler that a process ended. The scheduler would notice by itself a
// little later.
func (c *core) reportLoss(n *Node) {
	c.enqueue(queuedRequest{Request: control.Request{Op: control.OpLost, Process: n.process, Cause: causeOf(n.Exit)}}) // a refusal says that it knows already
}

// reportLeft tells the scheduler of a worker that is done: a worker whose connection was lost
// cannot say so itself. Usually the scheduler knows, and may have ended with the job, so no answer
// is wanted.
func (c *core) reportLeft(n *Node) {
	c.do(ask{0, control.Request{Op: control.OpLeft, Process: n.process}, c.set.FinishTime})
}
