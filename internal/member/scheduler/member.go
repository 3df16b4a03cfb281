package scheduler

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/paragon-train/paragon/internal/member/cluster"
	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/internal/observe/joblog"
	"github.com/paragon-train/paragon/internal/store/wire"
)

func (c *Core) register(request uint64, m *wire.Register) {
	if m.Node != 0 {
		if n := c.member(request, m.Node); n != nil {
			c.registerAgain(request, n, m)
		}
		return
	}
	for _, n := range c.nodes {
		if n.state == living && n.nonce == m.Nonce && n.Role == m.Role {
			c.member(request, n.Node)
			c.registerAgain(request, n, m)
			return
		}
	}
	if !c.open() {
		c.refuse(request, wire.CodeUnavailable, "the job has ended: %s", cmp.Or(c.reason, "all workers left"))
		return
	}
	who := fmt.Sprintf("%s on %s", roleName(m.Role), m.Host)
	if m.Rank >= 0 {
		who = fmt.Sprintf("%s %d on %s", roleName(m.Role), m.Rank, m.Host)
	}
	count := c.count(m.Role)
	joins := m.Joining && m.Role == wire.RoleWorker && c.phase == wire.PhaseRunning
	switch {
	case m.Role != wire.RoleServer && m.Role != wire.RoleWorker:
		c.refuse(request, wire.CodeMalformed, "role %d cannot register", m.Role)
		return
	case m.Job != c.set.Job:
		c.refuse(request, wire.CodeConflict, "%s belongs to job %q, this is job %q", who, m.Job, c.set.Job)
		return
	case joins:
		c.join(request, m)
		return
	case int(m.Workers) != c.set.Workers || int(m.Servers) != c.set.Servers:
		c.refuse(request, wire.CodeConflict, "%s was started for %d workers and %d servers, the scheduler for %d and %d",
			who, m.Workers, m.Servers, c.set.Workers, c.set.Servers)
		return
	case m.Role == wire.RoleServer && m.Addr == "":
		c.refuse(request, wire.CodeMalformed, "%s gave no address", who)
		return
	case m.Rank < -1 || int(m.Rank) >= count && !(m.Role == wire.RoleServer && c.comes(m.Rank)):
		c.refuse(request, wire.CodeConflict, "%s: ranks go from 0 to %d", who, count-1)
		return
	}
	c.makeRoom(m)
	here := c.living(m.Role)
	for _, n := range here {
		if n.wanted >= 0 && n.wanted == m.Rank {
			c.refuse(request, wire.CodeConflict, "%s: rank %d is taken by node %d on %s", who, m.Rank, n.Node, n.Host)
			return
		}
	}
	if m.Role == wire.RoleServer && c.phase == wire.PhaseRunning && c.plan.backups {
		if c.comes(m.Rank) {
			c.growTo(int(m.Rank) + 1)
		}
		if rank, ok := c.vacantServer(m.Rank); ok {
			c.enterServer(request, m, rank)
			return
		}
	}
	if c.phase == wire.PhaseRunning || len(here) == count {
		c.refuse(request, wire.CodeConflict, "%s: all %d %ss have registered", who, count, roleName(m.Role))
		return
	}
	n := c.newNode(m)
	c.note("node %d registered: %s", n.Node, who).Event = joblog.NodeRegistered.Of(n.logged(), "node", n.Node)
	c.presence(n, true)
	c.registered(request, n)
	if len(c.living(wire.RoleWorker)) == c.set.Workers && len(c.living(wire.RoleServer)) == c.set.Servers {
		c.form()
	}
}

// makeRoom drops a node of a forming job whose connection is gone when another process registers in
// its place.
func (c *Core) makeRoom(m *wire.Register) {
	if c.phase != wire.PhaseForming {
		return
	}
	here := c.living(m.Role)
	for _, n := range here {
		if !n.cut.IsZero() && n.wanted == m.Rank && (m.Rank >= 0 || len(here) == c.count(m.Role) && n.Host == m.Host) {
			c.lose(n, control.Cause{Kind: control.CauseOther})
			return
		}
	}
}

// presence reports a node that has registered or disconnected while the job is forming.
func (c *Core) presence(n *node, here bool) {
	c.out.Presence = append(c.out.Presence, Presence{Place{n.Role, int(n.wanted)}, n.process, here})
}

func (c *Core) newNode(m *wire.Register) *node {
	n := &node{
		Member: wire.Member{Node: c.lastNode() + 1, Role: m.Role, Rank: m.Rank, PID: m.PID, Host: m.Host, Addr: m.Addr},
		wanted: m.Rank, process: m.Process, nonce: m.Nonce, heard: c.now, deadline: c.now.Add(c.set.Lease),
	}
	c.nodes = append(c.nodes, n)
	c.keep(n)
	c.forgetNodes()
	return n
}

// registerAgain handles the registration of a known node: after a lost answer, or from a new
// address.
func (c *Core) registerAgain(request uint64, n *node, m *wire.Register) {
	if m.Role != n.Role {
		c.refuse(request, wire.CodeConflict, "node %d is a %s, not a %s", n.Node, roleName(n.Role), roleName(m.Role))
		return
	}
	if n.Addr != m.Addr || n.Host != m.Host || n.PID != m.PID {
		n.Addr, n.Host, n.PID = m.Addr, m.Host, m.PID
		c.keep(n)
		c.changed()
	}
	c.registered(request, n)
}

func (c *Core) registered(request uint64, n *node) {
	c.answer(request, &wire.Registered{
		Node:            n.Node,
		HeartbeatMillis: uint32(c.set.Heartbeat / time.Millisecond),
		LeaseMillis:     uint32(c.set.Lease / time.Millisecond),
	})
}

// form begins the run: the living nodes get their ranks in the first generation.
func (c *Core) form() {
	c.phase = wire.PhaseRunning
	c.assign()
	c.generation++
	for _, n := range c.living(wire.RoleWorker) {
		c.shares, c.before = append(c.shares, n.Node), append(c.before, 0)
		c.setHost(n.Host, control.Added, "")
	}
	for _, n := range c.nodes {
		n.member = n.counts()
		c.keep(n)
	}
	c.noteRanks()
	c.changed()
}

func (c *Core) noteRanks() {
	for _, role := range []uint8{wire.RoleServer, wire.RoleWorker} {
		var b strings.Builder
		for _, n := range c.counting(role) {
			fmt.Fprintf(&b, ", %d is node %d on %s", n.Rank, n.Node, n.Host)
		}
		note := c.note("generation %d: %ss:%s", c.generation, roleName(role), strings.TrimPrefix(b.String(), ","))
		if role == wire.RoleWorker { // once for each generation
			note.Event = joblog.Generation.With("generation", c.generation, "workers", len(c.counting(wire.RoleWorker)), "servers", len(c.counting(wire.RoleServer)))
		}
	}
}

// assign gives every living node a rank: the one it wants; else the lowest free one that is
// expected on its host; else the lowest free one. Nodes of lower ID choose first.
func (c *Core) assign() {
	for _, role := range []uint8{wire.RoleServer, wire.RoleWorker} {
		free := make([]bool, c.count(role))
		for i := range free {
			free[i] = true
		}
		nodes := c.living(role)
		slices.SortFunc(nodes, func(a, b *node) int { return cmp.Compare(a.Node, b.Node) })
		pick := func(n *node, ok func(rank int) bool) bool {
			for rank := range free {
				if free[rank] && ok(rank) {
					free[rank], n.Rank = false, int32(rank)
					return true
				}
			}
			return false
		}
		rest := slices.DeleteFunc(nodes, func(n *node) bool {
			return n.wanted >= 0 && pick(n, func(rank int) bool { return rank == int(n.wanted) })
		})
		rest = slices.DeleteFunc(rest, func(n *node) bool {
			return pick(n, func(rank int) bool { return c.set.Hosts[Place{role, rank}] == n.Host })
		})
		for _, n := range rest {
			pick(n, func(int) bool { return true })
		}
	}
}

// maxNamed is how many missing nodes are named; of the others only the number is given.
const maxNamed = 100

// missing names the nodes that the job waits for while it is forming.
func (c *Core) missing() (names []string) {
	c.assign()
	more := 0
	for _, role := range []uint8{wire.RoleServer, wire.RoleWorker} {
		here := make(map[int32]bool)
		for _, n := range c.living(role) {
			here[n.Rank] = true
		}
		for rank := range c.count(role) {
			if here[int32(rank)] {
				continue
			}
			name := fmt.Sprintf("%s %d", roleName(role), rank)
			if host := c.set.Hosts[Place{role, rank}]; host != "" {
				name += " on " + host
			}
			if len(names) == maxNamed {
				more++
				continue
			}
			names = append(names, fmt.Sprintf("%s (%s)", name, control.Seconds(c.now.Sub(c.start))))
		}
	}
	if more > 0 {
		names = append(names, fmt.Sprintf("%d more", more))
	}
	return names
}

func (c *Core) count(role uint8) int {
	if role == wire.RoleServer {
		return c.ranks
	}
	return c.set.Workers
}

// counting lists the nodes of a role that count, in order of rank.
func (c *Core) counting(role uint8) []*node {
	return slices.DeleteFunc(c.living(role), func(n *node) bool { return !n.Counts() })
}

// living lists the living nodes of a role: those that count in order of rank, then the others.
func (c *Core) living(role uint8) (nodes []*node) {
	for _, n := range c.nodes {
		if n.state == living && n.Role == role {
			nodes = append(nodes, n)
		}
	}
	slices.SortStableFunc(nodes, func(a, b *node) int { return cmp.Compare(uint32(a.Rank), uint32(b.Rank)) })
	return nodes
}

func (c *Core) leave(request uint64, m *wire.Leave) {
	if n := c.node(m.Node); n != nil && n.state == left {
		c.ack(request) // the answer was lost
		return
	}
	n := c.member(request, m.Node)
	if n == nil {
		return
	}
	c.measured(n, m.Record)
	c.ack(request)
	c.depart(n, m)
}

// depart handles a Leave.
func (c *Core) depart(n *node, m *wire.Leave) {
	was := n.state
	n.state = left
	c.keep(n)
	switch {
	case !c.open():
	case was == removed:
		c.note("removed node %d on %s left", n.Node, n.Host).Event = joblog.NodeLeft.Of(n.logged(), "node", n.Node)
	case c.phase == wire.PhaseForming:
		if !m.OK {
			c.fail(c.nodeError(n, m.Reason))
			return
		}
		c.note("node %d left while the job was forming", n.Node).Event = joblog.NodeLeft.Of(n.logged(), "node", n.Node)
		c.presence(n, false)
	case !n.Counts():
		c.drop(n, cmp.Or(m.Reason, "it left before it was a member"))
		n.state = left
	case !m.OK && n.Role == wire.RoleWorker && c.set.Elastic.OnWorkerLoss != cluster.LossFail:
		c.loseWorker(n, control.Cause{Kind: control.CauseError, Text: m.Reason})
		n.state = left
	case n.Role == wire.RoleServer && c.plan.backups:
		c.replaceServer(n, control.Cause{Kind: control.CauseLeft, Text: m.Reason})
	case !m.OK:
		c.fail(c.nodeError(n, m.Reason))
	case n.Role == wire.RoleServer:
		f := c.loss(n, control.Cause{Kind: control.CauseLeft})
		f.Code = control.NodeLeft
		c.fail(f)
	case len(c.counting(wire.RoleWorker)) == 0:
		c.note("%v left: the job has finished", n).Event = joblog.JobFinished.With()
		c.end(wire.PhaseFinished, "")
	default:
		c.note("%v left", n).Event = joblog.NodeLeft.Of(n.logged(), "node", n.Node)
		if n.State == wire.MemberLeaving {
			c.noteLeft(n)
		}
		if c.change.want > 0 {
			c.change.want--
		}
		c.changed()
		c.checkBarriers()
		c.admitReady()
		c.tryCommit()
	}
}

// lose declares a node lost. While the job is forming another process may take its place.
func (c *Core) lose(n *node, cause control.Cause) {
	why := cause.String()
	n.why = why
	switch {
	case c.phase == wire.PhaseForming:
		n.state = lost
		c.keep(n)
		c.presence(n, false)
		c.note("node %d (%s on %s) lost while the job was forming: %s", n.Node, roleName(n.Role), n.Host, why).Event = c.lossEvent(n, why)
	case n.Role == wire.RoleServer:
		c.loseServer(n, cause)
	case n.Counts():
		c.loseWorker(n, cause)
	default:
		c.drop(n, why)
	}
}

// loseServer handles the loss of a server of a running job. Without backups its shards are lost,
// and the job fails.
func (c *Core) loseServer(n *node, cause control.Cause) {
	n.state = lost
	c.keep(n)
	if c.plan.backups {
		c.replaceServer(n, cause)
		return
	}
	c.fail(c.loss(n, cause))
}

// loss is the failure of a job that does not survive the loss of a node.
func (c *Core) loss(n *node, cause control.Cause) control.Failure {
	return control.Failure{Code: control.NodeLost, Role: roleName(n.Role), Rank: int(n.Rank), Host: n.Host, Process: n.process, Step: n.step, Cause: cause}
}

// nodeError is the failure of a job that a node reported.
func (c *Core) nodeError(n *node, text string) control.Failure {
	f := c.loss(n, control.Cause{Kind: control.CauseError, Text: text})
	f.Code = control.NodeError
	return f
}

func (c *Core) fail(f control.Failure) {
	c.failure = &f
	reason := f.String()
	c.note("the job failed: %s", reason).Event = joblog.JobFailed.Of(joblog.Node{Role: f.Role, Rank: f.Rank, Host: f.Host, Process: f.Process}, "failure", f.Code, "reason", reason)
	c.end(wire.PhaseFailed, reason)
}

// end ends the job and with it every wait.
func (c *Core) end(phase uint8, reason string) {
	c.phase, c.reason = phase, reason
	c.changed()
	if reason == "" {
		reason = "the job has finished"
	} else {
		reason = "the job failed: " + reason
	}
	for _, w := range c.barriers.all() {
		c.refuse(w.request, wire.CodeUnavailable, "barrier %s: %s", wire.Shown(w.name), reason)
	}
	for _, w := range c.signals.all() {
		c.refuse(w.request, wire.CodeUnavailable, "signal %s: %s", wire.Shown(w.name), reason)
	}
	for _, w := range c.bounds.all() {
		c.refuse(w.request, wire.CodeUnavailable, "%s: %s", w.name, reason)
	}
	c.endAsked(reason)
	c.tellEvents()
}

// changed makes a new revision and answers the watches.
func (c *Core) changed() {
	c.revision++
	c.dirty.job = true
	watches := c.watches
	c.watches = nil
	for _, w := range watches {
		c.tell(w.request, w.node)
	}
}

func (c *Core) watch(request uint64, m *wire.Watch) {
	n := c.member(request, m.Node)
	if n == nil {
		return
	}
	if m.Revision < c.revision {
		c.tell(request, n)
		return
	}
	wait := min(time.Duration(m.WaitMillis)*time.Millisecond, time.Minute)
	c.watches = append(c.watches, watch{request, n, m.Revision, c.now.Add(wait)})
}

// tell answers a watch with the membership.
func (c *Core) tell(request uint64, n *node) {
	n.told = n.told || !c.open()
	c.answer(request, c.membership())
}

func (c *Core) membership() *wire.Membership {
	m := &wire.Membership{
		Generation: c.generation, Revision: c.revision, Phase: c.phase,
		Workers: uint32(c.workers), Servers: uint32(c.ranks), Reason: c.reason,
		Change: c.change.number, Placement: c.placement, Backups: uint32(c.set.Elastic.Backups), Division: c.division,
		Stopping: c.stopsFor != "",
	}
	if c.change.asked {
		m.Settle = c.lostToReport()
	}
	if c.phase == wire.PhaseForming {
		m.Waiting = c.missing()
	}
	for _, role := range []uint8{wire.RoleServer, wire.RoleWorker} {
		for _, n := range c.living(role) {
			m.Nodes = append(m.Nodes, n.Member)
		}
	}
	return m
}
