package job

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/internal/observe/joblog"
)

// A checkpointStop is the orderly end of a job that is to go on later: all workers write a
// checkpoint after a step that they agree on, and end. The scheduler tells them and reports what
// came of it. The job changes no more meanwhile, but it survives the losses that it would survive
// else.
type checkpointStop struct {
	why     string           // who asked for it; empty: nobody did
	asked   bool             // the scheduler was asked, or told of it by itself
	limit   time.Duration    // how long it may take
	by      time.Time        // when that is over
	late    bool             // it took longer
	stopped *control.Stopped // what a worker says; nil: none has
}

// requested reports whether the job is to stop with a checkpoint.
func (s *checkpointStop) requested() bool { return s.why != "" }

// complete reports whether there is a checkpoint from which the job can go on.
func (s *checkpointStop) complete() bool {
	return s.requested() && s.stopped != nil && s.stopped.Steps > 0
}

// stopWithCheckpoint begins it: within the limit the checkpoint must be complete, else the job is
// stopped as by SIGTERM. Before the job is complete it waits for that: the workers begin, or
// resume, and write a checkpoint after the first step.
func (c *core) stopWithCheckpoint(why string, limit time.Duration) {
	switch {
	case c.stage > running:
		c.info(why + ": the job is ending already")
		return
	case c.checkpoint.requested():
		c.info(why + ": the job is being stopped with a checkpoint already")
		if c.now.Add(limit).Before(c.checkpoint.by) {
			c.limitCheckpoint(limit)
		}
		return
	}
	c.checkpoint.why = why
	for _, n := range c.notices { // their order does not matter
		limit = max(min(limit, n.checkpointBy.Sub(c.now)), 0)
	}
	c.limitCheckpoint(limit)
	c.warn(fmt.Sprintf("%s: stopping the job with a checkpoint, within %s", why, limit), joblog.JobStopping.With("reason", why))
	c.askCheckpoint()
}

// checkpointRequest is the goal of the request that tells the scheduler to stop the job with a
// checkpoint.
type checkpointRequest struct{}

// askCheckpoint tells the scheduler, as soon as the job is complete. It is asked until it answers,
// also while it is being started again.
func (c *core) askCheckpoint() {
	s := &c.checkpoint
	if !s.requested() || s.asked || !c.formed || c.stage != running {
		return
	}
	s.asked = true
	c.ask(control.Request{Op: control.OpCheckpointStop, Reason: s.why}, 0, checkpointRequest{})
}

// checkpointAnswered takes a refusal: the job has ended, which other news say.
func (c *core) checkpointAnswered(err error) {
	if err != nil && c.stage == running {
		c.checkpoint = checkpointStop{}
		c.timers = slices.DeleteFunc(c.timers, func(t timer) bool { return t.due == due(checkpointLimit{}) })
		c.warn(fmt.Sprintf("the job cannot be stopped with a checkpoint: %s", strings.TrimPrefix(plainText(err), "refused: ")))
	}
}

// schedulerStops takes the scheduler's report that the job stops with a checkpoint: someone else
// may have asked for it.
func (c *core) schedulerStops(s control.Stopping) {
	limit := c.set.CheckpointTime
	if s.LimitMillis > 0 {
		limit = time.Duration(s.LimitMillis) * time.Millisecond
	}
	if !c.checkpoint.requested() {
		c.checkpoint.asked = true
		c.stopWithCheckpoint(s.Reason, limit)
	}
}

// limitCheckpoint sets when the checkpoint must be complete.
func (c *core) limitCheckpoint(d time.Duration) {
	c.timers = slices.DeleteFunc(c.timers, func(t timer) bool { return t.due == due(checkpointLimit{}) })
	c.checkpoint.limit, c.checkpoint.by = d, c.now.Add(d)
	c.after(d, checkpointLimit{})
}

// checkpointLimit ends what takes too long.
type checkpointLimit struct{}

func (checkpointLimit) run(c *core) {
	s := &c.checkpoint
	s.late = true
	switch {
	case c.stage == starting:
		c.abort(errors.New(c.checkpointFailure().String()))
	case c.stage == running:
		c.warn(fmt.Sprintf("no checkpoint is complete after %s (--checkpoint-timeout); stopping all processes", s.limit), joblog.JobStopping.With("reason", s.why))
		c.enter(stopWorkers)
	}
}

// stoppedWell reports whether a worker ended as one does that stops and has no better code than
// that of SIGTERM. With code 0 it has also finished.
func (c *core) stoppedWell(n *Node) bool {
	return c.checkpoint.asked && n.Role == roleWorker && n.Exit.Signal == 0 && n.Exit.Err == "" && n.Exit.Code == 128+int(syscall.SIGTERM)
}

// checkpointFailure says how a job ended that was to stop with a checkpoint; nil: it was not, or
// its workers were done before.
func (c *core) checkpointFailure() *control.Failure {
	s := &c.checkpoint
	f := &control.Failure{Code: control.NoCheckpoint, Rank: -1, Text: s.why}
	switch {
	case !s.requested(), c.start.err != nil && !s.late:
		return nil
	case s.complete():
		f.Code, f.Step = control.Checkpointed, s.stopped.Steps
	case s.stopped != nil:
		f.Text += ": " + s.stopped.Reason
	case s.late && !s.asked:
		f.Text += fmt.Sprintf(": the job was not complete %s later (--checkpoint-timeout)", s.limit)
	case s.late:
		f.Text += fmt.Sprintf(": none was complete %s later (--checkpoint-timeout); workers must train with worker.Fit, or do what kvstore.Stopper says", s.limit)
	case c.anyWorkerDone() && !slices.ContainsFunc(c.nodes, c.stoppedWell):
		return nil
	default:
		f.Text += ": all workers ended, and none reported a checkpoint"
	}
	return f
}
