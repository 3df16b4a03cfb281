package schedulernode

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/paragon-train/paragon/internal/wire"
)

// A ControlRequest is the JSON of a wire.Control. Op is one of
//
//	status  answer: Status
//	why     answer: Why
//	events  answer: Events after number After, at once if there are any or the job has ended, else after WaitMillis at most
//	add     Host, Slots: ask for workers on it;        answer: Done
//	remove  Host: ask all workers there to leave;      answer: Done
//	failed  Host, Reason: it could not be added;       answer: Done
//	lost    Host, PID, Reason: that process ended;     answer: Done, with Phase; found by Place, too
//	left    Host, PID: that worker ended with code 0;  answer: Done
//	stop    the whole job is about to be stopped;      answer: Done
//
// and, where shards have backups,
//
//	add-server     Host (may be empty): ask for one more server;   answer: Done
//	remove-server  Rank: its shards go to others, and it ends;     answer: Done
//	server-failed  Rank, Reason: it could not be started;          answer: Done
//
// An answer with Error set says why nothing was done.
type ControlRequest struct {
	Op         string `json:"op"`
	Host       string `json:"host,omitempty"`
	Slots      int    `json:"slots,omitempty"` // workers that the launcher starts there; 0: one
	PID        uint32 `json:"pid,omitempty"`
	Place      string `json:"place,omitempty"` // as which the process was started, "worker/1"; its number may be that of a shell
	Rank       int    `json:"rank,omitempty"`  // of the server that is meant
	Reason     string `json:"reason,omitempty"`
	After      uint64 `json:"after,omitempty"`
	WaitMillis int64  `json:"wait_ms,omitempty"`
}

// Done is the answer to a request that something be done.
type Done struct {
	Error string `json:"error,omitempty"`
	Again bool   `json:"again,omitempty"` // it may be done a moment later
	Rank  uint32 `json:"rank,omitempty"`  // of the server that "add-server" asked for
	Phase string `json:"phase,omitempty"` // of the job, after "lost"
}

// Events is the answer to "events".
type Events struct {
	Error  string      `json:"error,omitempty"`
	Phase  string      `json:"phase"`
	Reason string      `json:"reason,omitempty"` // why the job failed
	Last   uint64      `json:"last"`             // number of the newest event
	Events []HostEvent `json:"events"`
}

// Status is the answer to "status".
type Status struct {
	Error      string        `json:"error,omitempty"`
	Job        string        `json:"job"`
	Phase      string        `json:"phase"`
	Reason     string        `json:"reason,omitempty"`
	Generation uint64        `json:"generation"`
	Revision   uint64        `json:"revision"`
	Workers    int           `json:"workers"` // that count
	Elastic    bool          `json:"elastic"`
	Change     *ChangeStatus `json:"change,omitempty"` // the pending one
	Waiting    []string      `json:"waiting,omitempty"`
	Warnings   []string      `json:"warnings,omitempty"` // what somebody should see to
	Division   wire.Division `json:"division"`
	Nodes      []NodeStatus  `json:"nodes"`
	LeftOut    int           `json:"nodes_left_out,omitempty"` // nodes that did not fit
	Hosts      []HostStatus  `json:"hosts"`
	LastEvent  uint64        `json:"last_event"`

	// Of jobs whose shards have backups.
	Placement uint64         `json:"placement,omitempty"` // goes up when shards move
	Servers   []ServerStatus `json:"servers,omitempty"`
}

// ChangeStatus is a pending change and what it waits for.
type ChangeStatus struct {
	Number   uint64   `json:"number"`
	Causes   []string `json:"causes"`
	Seconds  float64  `json:"seconds"`
	WaitsFor string   `json:"waits_for"`
}

// NodeStatus is one node.
type NodeStatus struct {
	Node        uint64 `json:"node"`
	Role        string `json:"role"`
	Rank        int32  `json:"rank"`
	Host        string `json:"host"`
	Addr        string `json:"addr,omitempty"`
	PID         uint32 `json:"pid"`
	State       string `json:"state"` // counts, joining, ready, leaving, removed
	Step        uint64 `json:"step"`
	Epoch       uint64 `json:"epoch"`
	HeardMillis int64  `json:"heard_ms"` // since it was heard of
}

// HostStatus is one host of workers.
type HostStatus struct {
	Host   string `json:"host"`
	Status string `json:"status"`
	Reason string `json:"reason,omitempty"`
}

// Why is the answer to "why": who waits for whom at the scheduler, longest first.
type Why struct {
	Error string `json:"error,omitempty"`
	Waits []Wait `json:"waits"`
	// Behind are the workers whose last step is not the newest, furthest behind first: rounds wait for them.
	Behind []string `json:"behind,omitempty"`
}

// Wait is one wait.
type Wait struct {
	Who     string  `json:"who"`
	At      string  `json:"at"`
	For     string  `json:"for"`
	Seconds float64 `json:"seconds"`
}

// A poll is a request for events that are still to come.
type poll struct {
	request  uint64
	after    uint64
	deadline time.Time
}

var phaseNames = [...]string{wire.PhaseForming: "forming", wire.PhaseRunning: "running", wire.PhaseFinished: "finished", wire.PhaseFailed: "failed"}

var memberStates = [...]string{wire.MemberCounts: "counts", wire.MemberJoining: "joining", wire.MemberReady: "ready", wire.MemberLeaving: "leaving"}

// control answers people and their tools.
func (c *Core) control(request uint64, m *wire.Control) {
	var r ControlRequest
	d := json.NewDecoder(strings.NewReader(m.Request))
	d.DisallowUnknownFields()
	if err := d.Decode(&r); err != nil {
		c.refuse(request, wire.CodeMalformed, "control: %v", err)
		return
	}
	switch r.Op {
	case "status":
		c.report(request, c.status())
	case "why":
		c.report(request, c.why())
	case "events":
		if wait := min(r.WaitMillis, 60_000); c.events <= r.After && wait > 0 && c.open() {
			c.polls = append(c.polls, poll{request, r.After, c.now.Add(time.Duration(wait) * time.Millisecond)})
			return
		}
		c.report(request, c.eventsAfter(r.After))
	case "lost":
		refusal := c.ended(r)
		c.report(request, Done{Error: refusal, Phase: phaseNames[c.phase]})
	case "left":
		c.report(request, Done{Error: c.ended(r)})
	case "remove-server":
		refusal, again := c.removeServer(r.Rank)
		c.report(request, Done{Error: refusal, Again: again})
	case "add-server":
		rank, refusal := c.addServer(r.Host)
		c.report(request, Done{Error: refusal, Rank: rank})
	case "server-failed":
		c.report(request, Done{Error: c.serverFailed(r.Rank, r.Reason)})
	case "stop":
		c.report(request, Done{Error: c.stop()})
	case "add", "remove", "failed":
		c.report(request, Done{Error: c.act(r)})
	default:
		c.report(request, Done{Error: fmt.Sprintf("op %q: want status, why, events, add, remove, add-server, remove-server, failed, server-failed, lost, left or stop", r.Op)})
	}
}

// act does what is asked of a host, or returns why it can not be.
func (c *Core) act(r ControlRequest) string {
	switch {
	case r.Host == "" || strings.ContainsAny(r.Host, "/ \t\r\n") || len(r.Host) > 255:
		return fmt.Sprintf("host %q: want a name of 1 to 255 bytes without spaces and slashes", r.Host)
	case r.Slots < 0 || r.Slots > 1<<16:
		return fmt.Sprintf("host %s: %d slots, want 1 to %d", r.Host, r.Slots, 1<<16)
	case !c.set.Elastic.Enabled:
		return "the job's hosts can not change: it was not started with --elastic-training-enabled"
	case !c.open():
		return "the job has " + phaseNames[c.phase] + because(c.reason)
	case c.phase == wire.PhaseForming:
		return "the job is forming: waiting for " + strings.Join(c.missing(), ", ")
	case r.Op == "add":
		return c.addHost(r.Host, r.Slots)
	case r.Op == "remove":
		return c.removeHost(r.Host)
	}
	return c.hostFailed(r.Host, r.Reason)
}

// ended takes the word of whoever started a process that it has ended: nothing more will be heard of it, so its lease need not be
// waited for. It returns why that says nothing. A worker that ended well and could not say so has done all that it had to; where others go on,
// whose division would hold all of its share for used, it is lost nevertheless, and the servers tell what it did.
func (c *Core) ended(r ControlRequest) string {
	n := c.process(r)
	switch {
	case n == nil:
		return fmt.Sprintf("no node lives on host %s whose process is %d", r.Host, r.PID)
	case !c.open():
	case r.Op == "lost":
		c.lose(n, r.Reason)
	case n.Role != wire.RoleWorker:
		return fmt.Sprintf("%v is no worker", n)
	case c.set.joins() && n.Counts() && len(c.counting(wire.RoleWorker)) > 1:
		c.lose(n, "its process ended with code 0 and could not say so")
	default:
		c.depart(n, &wire.Leave{Node: n.Node, OK: true})
	}
	return ""
}

// process finds the node that lives in a process: by its number, or by what it was started as.
func (c *Core) process(r ControlRequest) *node {
	var at *node
	for _, n := range c.nodes {
		switch {
		case n.state != living || n.Host != r.Host:
		case n.PID == r.PID && r.PID != 0:
			return n
		case n.wanted >= 0 && r.Place == fmt.Sprintf("%s/%d", roleName(n.Role), n.wanted):
			at = n
		}
	}
	return at
}

// maxReport bounds an answer's JSON, which must fit a head.
const maxReport = wire.MaxHead - 64

func (c *Core) report(request uint64, answer any) {
	b, err := json.Marshal(answer)
	if err != nil || len(b) > maxReport {
		c.refuse(request, wire.CodeInternal, "control: an answer of %d bytes, want at most %d (%v)", len(b), maxReport, err)
		return
	}
	c.answer(request, &wire.Report{Answer: string(b)})
}

func (c *Core) eventsAfter(after uint64) Events {
	e := Events{Phase: phaseNames[c.phase], Reason: c.reason, Last: c.events, Events: []HostEvent{}}
	for _, h := range c.happened {
		if h.Number > after && len(e.Events) < 1000 { // the rest comes with the next request
			e.Events = append(e.Events, h)
		}
	}
	return e
}

// tellEvents answers those who wait for events, if there are any or the job has ended.
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

func (c *Core) status() Status {
	s := Status{Job: c.set.Job, Phase: phaseNames[c.phase], Reason: c.reason, Generation: c.generation, Revision: c.revision,
		Workers: len(c.counting(wire.RoleWorker)), Elastic: c.set.Elastic.Enabled, Waiting: c.Waiting(), Division: c.division,
		Nodes: []NodeStatus{}, Hosts: []HostStatus{}, LastEvent: c.events,
		Placement: c.placement, Servers: c.serverStatus()}
	if c.phase == wire.PhaseRunning {
		s.Waiting = c.Held()
	}
	if text := c.bare(); text != "" {
		s.Warnings = append(s.Warnings, text)
	}
	if g := c.change; g.number > 0 {
		s.Change = &ChangeStatus{g.number, g.causes, c.now.Sub(g.since).Seconds(), c.obstacles(0)}
	}
	add := func(n *node, state string) {
		if len(s.Nodes) == maxStatusNodes {
			s.LeftOut++
			return
		}
		s.Nodes = append(s.Nodes, NodeStatus{n.Node, roleName(n.Role), n.Rank, n.Host, n.Addr, n.PID, state, n.step, n.epoch, c.now.Sub(n.heard).Milliseconds()})
	}
	for _, role := range []uint8{wire.RoleServer, wire.RoleWorker} {
		for _, n := range c.living(role) {
			add(n, memberStates[n.State])
		}
	}
	for _, n := range c.nodes {
		if n.state == removed {
			add(n, "removed")
		}
	}
	for _, name := range c.hostNames() {
		s.Hosts = append(s.Hosts, HostStatus{name, c.hosts[name].status, c.hosts[name].reason})
	}
	return s
}

func (c *Core) why() Why {
	w := Why{Waits: []Wait{}}
	add := func(waits []wait, what func(wait) string, whom func(wait) string) {
		for _, x := range waits {
			if len(w.Waits) < maxStatusNodes {
				w.Waits = append(w.Waits, Wait{c.who(x.node), what(x), whom(x), c.now.Sub(x.since).Seconds()})
			}
		}
	}
	add(c.barriers.waits, func(x wait) string { return fmt.Sprintf("barrier %q", x.name) }, func(x wait) string { return c.notAt(x.name) })
	add(c.signals.waits, func(x wait) string { return fmt.Sprintf("signal %q", x.name) }, func(x wait) string {
		if x.giver == 0 {
			return "whoever gives it"
		}
		if n := c.node(x.giver); n != nil {
			return c.describe(n)
		}
		return c.who(x.giver)
	})
	add(c.bounds.waits, func(x wait) string { return x.name }, func(x wait) string { return c.obstacles(x.node) })
	for _, n := range c.nodes {
		if n.state == living && n.hold != notHeld && len(w.Waits) < maxStatusNodes {
			w.Waits = append(w.Waits, Wait{"the job", "a silent node", c.heldText(n), c.now.Sub(n.heldSince).Seconds()})
		}
	}
	slices.SortStableFunc(w.Waits, func(a, b Wait) int { return int(b.Seconds*1000) - int(a.Seconds*1000) })
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
		w.Waits = append(w.Waits, Wait{"the job", "start", strings.Join(c.missing(), ", "), c.now.Sub(c.start).Seconds()})
	}
	return w
}
