package scheduler

import (
	"cmp"
	"time"

	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/internal/observe/joblog"
	"github.com/paragon-train/paragon/internal/observe/telemetry"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// stop handles the launcher's notice that it stops the whole job: from now on no single worker may
// leave, so that all stop together.
func (c *Core) stop() string {
	switch {
	case !c.open():
		return "the job has " + phaseNames[c.phase] + because(c.reason)
	case !c.stopping:
		c.stopping, c.dirty.job = true, true
		c.note("the whole job is being stopped").Event = joblog.JobStopping.With()
	}
	return ""
}

// stopWithCheckpoint makes all workers write a checkpoint after a step that they agree on, and
// leave. The membership tells them.
func (c *Core) stopWithCheckpoint(reason string) (refusal string, again bool) {
	switch {
	case !c.open():
		return "the job has " + phaseNames[c.phase] + because(c.reason), false
	case c.phase == wire.PhaseForming:
		return c.cannotStart(), true
	case c.stopsFor == "":
		c.stopping, c.stopsFor = true, cmp.Or(reason, "no reason given")
		c.note("the job stops with a checkpoint: %s", c.stopsFor).Event = joblog.JobStopping.With("reason", c.stopsFor)
		c.change.want, c.change.loss, c.change.rejoinBy = 0, nil, time.Time{} // nobody is waited for any more
		c.changed()
		c.tryCommit()
	}
	return "", false
}

// noCheckpointFolder reports whether a running job has no place for checkpoints, as its workers
// say: some have none, and none has one. Of a program that does not report it nothing is known.
func (c *Core) noCheckpointFolder() bool {
	none := false
	for _, n := range c.counting(wire.RoleWorker) {
		switch c.history.Newest(n.Node, telemetry.Column{Metric: telemetry.CheckpointFolder}) {
		case 1:
			return false
		case 0:
			none = true
		}
	}
	return none && c.phase == wire.PhaseRunning && c.stopsFor == ""
}

// workerStopped takes what a worker says that the job can go on from. A checkpoint that is complete
// stays so, whatever others say later.
func (c *Core) workerStopped(request uint64, m *wire.Stopped) {
	n := c.member(request, m.Node)
	switch {
	case n == nil:
		return
	case n.Role != wire.RoleWorker:
		c.refuse(request, wire.CodeUnsupported, "stopped: %v is not a worker", n)
		return
	case c.stopsFor == "":
		c.refuse(request, wire.CodeConflict, "stopped: %v: the job was not asked to stop with a checkpoint", n)
		return
	case c.stopped == nil, c.stopped.Steps == 0 && m.Steps > 0:
		c.stopped, c.dirty.job = &control.Stopped{Steps: m.Steps, Reason: m.Reason}, true
	}
	c.ack(request)
}

// Stopping says why the job stops with a checkpoint, as whoever asked for it told; empty: it does
// not.
func (c *Core) Stopping() string { return c.stopsFor }

// Stopped is what the stopped job can go on from; nil: no worker has told yet.
func (c *Core) Stopped() *control.Stopped { return c.stopped }
