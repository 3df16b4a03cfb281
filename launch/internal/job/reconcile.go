package job

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/paragon-train/paragon/internal/hosts/agent"
	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/internal/observe/joblog"
)

// noticeTime is assumed where a notice does not say how much time is left: less than any provider
// gives.
const noticeTime = 20 * time.Second

// beginExchange begins to exchange states with the scheduler, where the job runs and that has not begun.
// Once a job is complete that may change, edits of host_worker are handed over, too.
func (c *core) beginExchange() {
	if c.present.complete && c.set.Changes() {
		c.exchange.handOverEdits()
	}
	if c.stage == running {
		c.procs.reported = cmp.Or(c.procs.reported, c.procs.last)
		c.exchange.begin(&c.want)
	}
}

// answered takes an answer of the scheduler. An answer may come after its request was cancelled, so
// each kind looks whether the job is still in the stage for it.
func (c *core) answered(e answered) {
	if c.stage >= closing {
		return
	}
	if e.err == nil {
		c.scheduler.heard = c.out.now
	}
	switch goal := c.requests.answered(e.id).(type) {
	case editRequest:
		c.requests.edited(goal, e.err)
	case stopRequest:
		if c.stage < killing {
			c.reaper.signalAll(syscall.SIGTERM, roleWorker)
		}
	case checkpointRequest:
		// A refusal: the job has ended, which other news say.
		if e.err != nil && c.stage == running {
			c.checkpoint.withdraw(&c.out)
			c.out.warn("the job cannot be stopped with a checkpoint: " + strings.TrimPrefix(plainText(e.err), "refused: "))
		}
	case reportRequest:
		c.exchange.reporting = false
	case watchRequest:
		if c.stage == running {
			c.wantedAnswered(e)
		}
	}
}

// wantedAnswered takes an answer of the watch, and asks again.
func (c *core) wantedAnswered(e answered) {
	if e.err != nil {
		// The job may be about to end, so it is told only a while later.
		c.out.after(quietTime, watchLost{e.err})
		return
	}
	revision, after := c.want.revision, c.want.after
	c.takeWanted(&e.wanted)
	// No more ends are judged.
	if e.wanted.Over() && c.stage == running && c.procs.any((*Node).doneAwaited) {
		for _, n := range c.procs.nodes {
			n.awaited = n.awaited && !n.doneAwaited()
		}
		c.doneJudged()
	}
	if c.stage == running {
		c.exchange.again(&c.want, c.want.revision > revision || c.want.after > after, e.wanted.Over())
	}
}

// takeWanted takes what the scheduler wants, and what has happened. Whatever is missing is started,
// and what is not wanted ends.
//
// A state that was taken before has no effect, so answers may come twice and in any order. Processes
// are looked at by their numbers: what became of one is told before another one takes its place. The
// verdict on one may end the job, and then the rest is not wanted any more.
func (c *core) takeWanted(w *control.Wanted) {
	c.want.over = c.want.over || w.Over()
	for _, e := range c.want.news(w.Events) {
		c.history.take(e, &c.procs, c.stage > running)
	}
	if w.Revision <= c.want.revision || c.stage != running {
		return
	}
	c.want.revision = w.Revision
	if c.done {
		return
	}
	awaited := c.procs.any((*Node).doneAwaited)
	before := c.want.take(w)
	if c.set.Enabled {
		c.want.list(&c.out, w.Hosts)
	}
	for _, p := range w.Processes {
		if n := c.procs.find(p.Process); n != nil {
			c.aim(n, p, before[p.Process])
		} else if p.Goal == control.GoalRun && !c.done {
			c.runner.arrive(p)
		}
		if c.stage != running {
			return
		}
	}
	// What was named and is no longer had not ended, so far as the scheduler knows.
	for _, process := range slices.Sorted(maps.Keys(before)) {
		if n := c.procs.find(process); n != nil && !c.want.names(process) {
			c.runner.dismiss(n)
		}
	}
	if awaited {
		c.doneJudged()
	}
	c.runner.releaseAll()
	c.out.changed = true
}

// aim brings a process to what is wanted of it: its rank, its fate, its end. A fate and a goal count
// once, when they are new; they stay in the wanted state until the launcher has reported that it has
// read them.
func (c *core) aim(n *Node, p, before control.WantedProcess) {
	if n.Role == roleWorker && p.Joined {
		c.runner.joined(n, p.Rank)
	}
	n.leaving = n.leaving || p.Goal == control.GoalLeave || p.Fate == control.FateRemoved || p.Fate == control.FateRefused
	if p.Fate != "" && before.Fate == "" {
		c.judged(n, p)
	}
	n.awaited = n.awaited && p.Goal != control.GoalOver
	if p.Goal != before.Goal && !n.ended && c.stage == running {
		c.runner.pursue(n, p)
	}
}

// judged takes what the scheduler says of a process that has ended, or that it has given up.
func (c *core) judged(n *Node, p control.WantedProcess) {
	switch p.Fate {
	// A process that was told to end in the meantime has not failed.
	case control.FateFailed:
		if n.awaited {
			n.awaited = false
			c.failed(n)
		}
		return
	case control.FateLost:
		if n.lost {
			return
		}
		if n.lost = true; n.Role == roleWorker {
			c.ending.lost = n
		}
		if n.ended {
			n.tellLost(&c.out, p.Reason, c.want.over)
		} else {
			c.out.after(settleTime, declaredLoss{n, p.Reason})
		}
	case control.FateRestarted:
		n.lost = true
		if by, ok := c.want.replacement(n); ok {
			n.tellRestarted(&c.out, by, c.set.attempts(n))
		}
	case control.FateNotJoined:
		n.tellUnjoined(&c.out)
	case control.FateRemoved, control.FateRefused:
		// Its eviction says so, if it does not end by itself.
		if !n.ended || !n.Exit.OK() && n.fate.code != "" {
			return
		}
	}
	n.fate = fate{p.Fate, p.Note}
}

// report reports what is observed. With a limit it is the last report. The scheduler's machine is
// named, since a job cannot do without that host.
func (c *core) report(limit time.Duration) {
	var at *machine
	if s := c.procs.scheduler(); s != nil && !s.ended {
		at = s.machine
	}
	o := &control.Observed{Last: c.procs.reported, Processes: c.procs.observed(c.out.now, &c.want), Hosts: c.machines.observed(&c.set, at)}
	c.exchange.report(o, &c.want, limit)
}

// noticed takes a notice of an agent. The scheduler decides what leaves the host. Providers repeat
// their notices, so people are told of the first one, and only a shorter time counts after it.
func (c *core) noticed(e noticed) {
	m := c.machines.byID[e.machine]
	if !m.usable() || c.stage > running {
		return
	}
	h, said := m.host(), ""
	if e.Text != "" {
		said = ": " + e.Text
	}
	event := joblog.HostNotice.With("node_host", h.String(), "notice", e.Code, "reason", e.Text)
	switch {
	case e.Withdrawn:
		c.out.changed = c.out.changed || m.notice != nil
		m.notice = nil
	case !e.Known():
		c.out.warn(fmt.Sprintf("host %s has a notice of a kind that is not known here (%q), and nothing is done about it%s", h, e.Code, said), event)
	case e.Code == agent.NoticeAtRisk:
		if m.notice == nil {
			c.out.warn(fmt.Sprintf("host %s may be taken away before long%s; the job goes on there until then", h, said), event)
		}
	default:
		left := cmp.Or(e.Left, noticeTime)
		by := c.out.now.Add(left)
		if m.notice != nil && !by.Before(m.notice.by) {
			return
		}
		if m.notice == nil {
			c.out.warn(fmt.Sprintf("host %s is being taken away%s; %s left", h, said, left.Round(time.Second)),
				joblog.HostNotice.With("node_host", h.String(), "notice", e.Code, "reason", e.Text, "left", left))
		}
		// A checkpoint must leave the processes the time to stop after it; where there is hardly
		// any time it gets half of it.
		m.notice = &hostNotice{by: by, checkpointBy: c.out.now.Add(max(left-c.set.StopTimeout-killTime, left/2)), text: e.Text}
		c.checkpoint.boundBy(&c.out, m.notice.checkpointBy)
		c.out.changed = true
		c.beginExchange()
	}
}
