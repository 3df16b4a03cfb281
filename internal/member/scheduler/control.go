package scheduler

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// A poll is a request for future events.
type poll struct {
	request  uint64
	after    uint64
	deadline time.Time
}

var phaseNames = [...]string{wire.PhaseForming: control.Forming, wire.PhaseRunning: control.Running, wire.PhaseFinished: control.Finished, wire.PhaseFailed: control.Failed}

var memberStates = [...]string{wire.MemberCounts: control.NodeCounts, wire.MemberJoining: control.NodeJoining, wire.MemberReady: control.NodeReady, wire.MemberLeaving: control.NodeLeaving}

// control answers the requests of the launcher, tools and people.
func (c *Core) control(request uint64, m *wire.Control) {
	r, err := control.DecodeRequest([]byte(m.Request))
	switch {
	case errors.Is(err, control.ErrMalformed):
		c.refuse(request, wire.CodeMalformed, "%v", err)
		return
	case err != nil:
		c.report(request, &control.Done{Error: err.Error()})
		return
	}
	if answer := c.look(r); answer != nil {
		c.report(request, answer)
		return
	}
	switch r.Op {
	case control.OpEvents:
		if c.events <= r.After && r.WaitMillis > 0 && c.open() {
			c.polls = append(c.polls, poll{request, r.After, c.now.Add(time.Duration(r.WaitMillis) * time.Millisecond)})
			return
		}
		c.report(request, c.eventsAfter(r.After))
	case control.OpTrace:
		c.report(request, c.beginTrace(r))
	case control.OpTraceParts:
		c.report(request, c.traceParts(r))
	case control.OpTraceEnd:
		c.report(request, &control.Done{Error: c.endTrace(r.Trace)})
	case control.OpLost:
		refusal := c.ended(r)
		c.report(request, &control.Done{Error: refusal, Phase: phaseNames[c.phase]})
	case control.OpLeft:
		c.report(request, &control.Done{Error: c.ended(r)})
	case control.OpRemoveServer:
		refusal, again := c.removeServer(r.Rank)
		c.report(request, &control.Done{Error: refusal, Again: again})
	case control.OpAddServer:
		rank, refusal := c.addServer(r.Host)
		c.report(request, &control.Done{Error: refusal, Rank: rank})
	case control.OpServerFailed:
		c.report(request, &control.Done{Error: c.serverFailed(r.Rank, r.Reason)})
	case control.OpStop:
		c.report(request, &control.Done{Error: c.stop()})
	case control.OpCheckpointStop:
		if r.NeedsFolder && c.noCheckpointFolder() {
			c.report(request, &control.Done{Error: "its workers have no folder for checkpoints (--checkpoint-dir of the examples), so the job would lose all that it has trained; " +
				"launch ctl stop --force stops it all the same"})
			return
		}
		refusal, again := c.stopWithCheckpoint(r.Reason)
		c.report(request, &control.Done{Error: refusal, Again: again})
	case control.OpScale:
		c.askScale(request, r)
	case control.OpScaling:
		c.report(request, &control.Done{Error: c.launcherScales(r)})
	case control.OpGrow:
		refusal, again := c.grow(r.Host, max(r.Slots, 1))
		c.report(request, &control.Done{Error: refusal, Again: again})
	case control.OpRelease:
		refusal, again := c.release(r.Process)
		c.report(request, &control.Done{Error: refusal, Again: again})
	case control.OpAdd, control.OpRemove, control.OpFailed:
		c.report(request, &control.Done{Error: c.act(r)})
	}
}

// act does what a request asks, or returns why that is not possible.
func (c *Core) act(r control.Request) string {
	if why := c.cannotChange(); why != "" {
		return why
	}
	if c.stopping && r.Op != control.OpFailed {
		return "the whole job is being stopped"
	}
	refusal := ""
	switch r.Op {
	case control.OpAdd:
		refusal = c.addHost(r)
	case control.OpRemove:
		refusal = c.removeHost(r.Host)
	default:
		return c.hostFailed(r.Host, r.Reason)
	}
	if refusal == "" && r.Scale == 0 {
		c.endScale(fmt.Sprintf("a newer request replaces it: %s host %s", r.Op, r.Host))
	}
	return refusal
}

// cannotChange says why workers cannot come and go as asked; empty: they can.
func (c *Core) cannotChange() string {
	switch {
	case !c.set.Elastic.Enabled:
		return "the job's hosts cannot change: it was not started with --elastic-training-enabled"
	case !c.open():
		return "the job has " + phaseNames[c.phase] + because(c.reason)
	case c.phase == wire.PhaseForming:
		return c.cannotStart()
	}
	return ""
}

// cannotStart says whom a forming job waits for.
func (c *Core) cannotStart() string {
	return "the job is forming: waiting for " + strings.Join(c.missing(), ", ")
}

// ended handles the launcher's report that a process has ended, so that its lease need not expire
// first. It returns why the report is ignored. A worker that ended well without a Leave has done
// all its work. If others go on it is declared lost nevertheless, because a division would take all
// of its share for used, and the servers report what it used.
func (c *Core) ended(r control.Request) string {
	n := c.nodeOf(r.Process)
	switch {
	case n == nil:
		return fmt.Sprintf("no live node has process number %d", r.Process)
	case !c.open():
	case r.Op == control.OpLost:
		c.lose(n, r.Cause)
	case n.Role != wire.RoleWorker:
		return fmt.Sprintf("%v is not a worker", n)
	case c.set.joins() && n.Counts() && len(c.counting(wire.RoleWorker)) > 1:
		c.lose(n, control.Cause{Kind: control.CauseUnsaid})
	default:
		c.depart(n, &wire.Leave{Node: n.Node, OK: true})
	}
	return ""
}

// nodeOf finds the living node of a process; nil: there is none.
func (c *Core) nodeOf(process uint32) *node {
	for _, n := range c.nodes {
		if n.state == living && n.process == process && process != 0 {
			return n
		}
	}
	return nil
}

func (c *Core) report(request uint64, answer control.Answer) {
	b, err := control.EncodeAnswer(answer)
	if err != nil {
		c.refuse(request, wire.CodeInternal, "%v", err)
		return
	}
	c.answer(request, &wire.Report{Answer: string(b)})
}

func (c *Core) eventsAfter(after uint64) *control.Events {
	e := &control.Events{Phase: phaseNames[c.phase], Reason: c.reason, Failure: c.failure, Last: c.events, Events: []control.Event{}}
	for _, h := range c.happened {
		if h.Number > after && len(e.Events) < 1000 { // the rest comes with the next request
			e.Events = append(e.Events, h)
		}
	}
	return e
}

// tellEvents answers the polls if there are events for them or the job has ended.
func (c *Core) tellEvents() {
	c.polls = slices.DeleteFunc(c.polls, func(p poll) bool {
		if c.events <= p.after && c.open() {
			return false
		}
		c.report(p.request, c.eventsAfter(p.after))
		return true
	})
}

// maxStatusNodes bounds the nodes of one Status.
const maxStatusNodes = 2000

func (c *Core) status() *control.Status {
	s := &control.Status{Job: c.set.Job, Phase: phaseNames[c.phase], Reason: c.reason, Failure: c.failure, Generation: c.generation, Revision: c.revision,
		Workers: len(c.counting(wire.RoleWorker)), Elastic: c.set.Elastic.Enabled, Waiting: c.Waiting(), Division: c.division,
		Nodes: []control.Node{}, Hosts: []control.Host{}, LastEvent: c.events,
		Placement: c.placement, Servers: c.serverStatus(), Scale: c.scaleStatus(), Adaptation: c.adaptation}
	if c.phase == wire.PhaseRunning {
		s.Waiting = c.InGrace()
	}
	if text := c.bare(); text != "" {
		s.Warnings = append(s.Warnings, text)
	}
	if g := c.change; g.number > 0 {
		s.Change = &control.Change{Number: g.number, Causes: g.causes, Seconds: c.now.Sub(g.since).Seconds(), WaitsFor: c.obstacles(0)}
	}
	add := func(n *node, state string) {
		if len(s.Nodes) == maxStatusNodes {
			s.LeftOut++
			return
		}
		s.Nodes = append(s.Nodes, control.Node{Node: n.Node, Role: roleName(n.Role), Rank: n.Rank, Host: n.Host, Addr: n.Addr, PID: n.PID, Process: n.process,
			State: state, Step: n.step, Epoch: n.epoch, HeardMillis: c.now.Sub(n.heard).Milliseconds()})
	}
	for _, role := range []uint8{wire.RoleServer, wire.RoleWorker} {
		for _, n := range c.living(role) {
			add(n, memberStates[n.State])
		}
	}
	for _, n := range c.nodes {
		if n.state == removed {
			add(n, control.NodeRemoved)
		}
	}
	for _, name := range c.hostNames() {
		s.Hosts = append(s.Hosts, control.Host{Host: name, Status: c.hosts[name].status, Reason: c.hosts[name].reason})
	}
	return s
}

// maxCallsThatWait bounds the answer's size: their texts come from workers.
const maxCallsThatWait = 64

// callsThatWait are the workers' calls that have waited for a server, or for another worker of
// their host, longest first.
func (c *Core) callsThatWait() (waits []control.Wait) {
	for _, n := range c.living(wire.RoleWorker) {
		if x := n.wait; x.At != "" {
			x.Who, x.Seconds = c.who(n.Node), x.Seconds+c.now.Sub(n.heard).Seconds()
			waits = append(waits, x)
		}
	}
	slices.SortStableFunc(waits, longerWait)
	return waits[:min(len(waits), maxCallsThatWait)]
}

func longerWait(a, b control.Wait) int { return int(b.Seconds*1000) - int(a.Seconds*1000) }

func (c *Core) why() *control.Why {
	w := &control.Why{Waits: []control.Wait{}, Slow: c.slowest()}
	add := func(waits []wait, what func(wait) string, whom func(wait) string) {
		for _, x := range waits {
			if len(w.Waits) < maxStatusNodes {
				w.Waits = append(w.Waits, control.Wait{Who: c.who(x.node), At: what(x), For: whom(x), Seconds: c.now.Sub(x.since).Seconds()})
			}
		}
	}
	add(c.barriers.waits, func(x wait) string { return fmt.Sprintf("barrier %s", wire.Shown(x.name)) }, func(x wait) string { return c.notAt(x.name) })
	add(c.signals.waits, func(x wait) string { return fmt.Sprintf("signal %s", wire.Shown(x.name)) }, func(x wait) string {
		if x.sender == 0 {
			return "the worker that sends it"
		}
		if n := c.node(x.sender); n != nil {
			return c.describe(n)
		}
		return c.who(x.sender)
	})
	add(c.bounds.waits, func(x wait) string { return x.name }, func(x wait) string { return c.obstacles(x.node) })
	for _, n := range c.nodes {
		if n.state == living && n.grace != noGrace && len(w.Waits) < maxStatusNodes {
			w.Waits = append(w.Waits, control.Wait{Who: "the job", At: "a silent node", For: c.graceText(n), Seconds: c.now.Sub(n.graceSince).Seconds()})
		}
	}
	w.Waits = append(w.Waits, c.callsThatWait()...)
	slices.SortStableFunc(w.Waits, longerWait)
	newest := uint64(0)
	workers := c.counting(wire.RoleWorker)
	for _, n := range workers {
		newest = max(newest, n.step)
	}
	workers = slices.DeleteFunc(workers, func(n *node) bool { return n.step >= newest })
	slices.SortStableFunc(workers, func(a, b *node) int { return int(int64(a.step) - int64(b.step)) })
	for _, n := range workers[:min(len(workers), maxNamed)] {
		w.Behind = append(w.Behind, c.describe(n))
	}
	if c.phase == wire.PhaseForming {
		w.Waits = append(w.Waits, control.Wait{Who: "the job", At: "start", For: strings.Join(c.missing(), ", "), Seconds: c.now.Sub(c.start).Seconds()})
	}
	return w
}
