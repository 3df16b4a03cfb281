package outcomes

import (
	"fmt"
	"slices"
	"syscall"
	"time"

	"github.com/paragon-train/paragon/internal/hosts/process"
	"github.com/paragon-train/paragon/internal/observe/exitreport"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// A node is a worker or a server as the scheduler knows it: it registers, follows the membership,
// and does what that asks for.
type node struct {
	p     *proc
	id    uint64
	nonce uint64
	calls []*nodeCall

	// m is the newest membership that it knows; nil: none.
	m *wire.Membership
	// joined says that it has been told that the job runs.
	joined bool
	// counts says that it is a member.
	counts bool
	// arriving is the change at whose boundary the worker stands, or is about to; 0: none.
	arriving uint64
	// ending says that the node does nothing more but to leave.
	ending bool
	// stops says that the worker is about to stop with a checkpoint.
	stops bool
	// placed and keys are what a server read last of where the shards are.
	placed, keys uint64
}

// A nodeCall is a request of a node that has no answer yet. It is sent again to a scheduler that
// was started again.
type nodeCall struct {
	message  func() wire.Message
	answered func(m wire.Message)
	request  uint64
	over     bool
}

func (n *node) link() *link { return &n.p.w.link }

// call asks the scheduler until it answers.
func (n *node) call(message func() wire.Message, answered func(m wire.Message)) *nodeCall {
	c := &nodeCall{message: message}
	c.answered = func(m wire.Message) {
		n.p.do(func() {
			if c.over {
				return
			}
			n.end(c)
			answered(m)
		})
	}
	n.calls = append(n.calls, c)
	n.send(c)
	return c
}

func (n *node) end(c *nodeCall) {
	c.over = true
	n.calls = slices.DeleteFunc(n.calls, func(o *nodeCall) bool { return o == c })
}

func (n *node) send(c *nodeCall) {
	if c.over || c.request != 0 {
		return
	}
	c.request = n.link().send(c.message(), c.answered)
}

// unreachable says that the scheduler is gone.
func (n *node) unreachable() {
	for _, c := range n.calls {
		c.request = 0
	}
}

// again asks a scheduler that was started again.
func (n *node) again() {
	if n.id != 0 && !n.ending {
		n.link().send(n.registration(), func(wire.Message) {})
	}
	for _, c := range slices.Clone(n.calls) {
		n.send(c)
	}
}

// vanish drops the connection to the scheduler, or leaves it open and silent.
func (n *node) vanish(silently bool) {
	for _, c := range slices.Clone(n.calls) {
		n.end(c)
		if !silently {
			n.link().drop(c.request)
		}
	}
}

func (n *node) registration() wire.Message {
	p := n.p
	m := &wire.Register{Node: n.id, Role: wire.RoleWorker, Rank: p.rank, Workers: uint32(len(p.w.job.Workers)), Servers: uint32(len(p.w.job.Servers)),
		PID: 100 + p.number, Process: p.number, Nonce: n.nonce, Joining: p.joins, Job: "j", Host: p.host}
	if p.role == server {
		m.Role, m.Addr = wire.RoleServer, fmt.Sprintf("%s:%d", p.host, 1000+p.ordinal)
	}
	return m
}

// run is the life of a node.
func (n *node) run() {
	p := n.p
	r := p.chance
	n.nonce = r.Uint64()
	h := p.machine.host
	delay := between(r, 200*time.Millisecond, 900*time.Millisecond) + h.slow
	crashes := p.seldom(40)
	if p.role == worker && h.crashes > 0 {
		h.crashes--
		crashes = true
	}
	if crashes {
		x := process.Exit{Code: 1 + r.IntN(2)}
		if p.role == worker && r.IntN(6) == 0 {
			x = final()
		}
		p.after(delay/2, func() { p.end(x) })
		return
	}
	if p.role == worker && (p.w.job.Alone || p.w.job.Stray && !p.joins && p.rank == 0) {
		n.trainAlone(delay)
		return
	}
	p.after(delay, func() {
		if n.ending {
			return
		}
		n.call(n.registration, n.registered)
	})
}

// trainAlone is a worker that does not join the job.
func (n *node) trainAlone(delay time.Duration) {
	p := n.p
	x := process.Exit{}
	switch p.chance.IntN(10) {
	case 0:
		x.Code = 1
	case 1:
		x = final()
	}
	p.after(delay+between(p.chance, time.Second, 25*time.Second), func() { p.end(x) })
}

func (n *node) registered(m wire.Message) {
	reg, ok := m.(*wire.Registered)
	if !ok {
		n.fail(m)
		return
	}
	n.id = reg.Node
	n.p.w.happened("%v is node %d", n.p, n.id)
	n.beat()
	n.watch()
}

// fail ends the process for an answer that it cannot go on with.
func (n *node) fail(m wire.Message) {
	x, ok := m.(*wire.Nack)
	code := 1
	switch {
	case n.ending:
		return
	case ok && x.Code == wire.CodeRemoved:
		n.quit(true, "", process.Exit{})
		return
	case ok && x.Code == wire.CodeUnavailable && n.m != nil && n.m.Phase == wire.PhaseFinished:
		code = 0
	}
	n.ending = true
	n.p.w.say("%v fails: %v", n.p, m)
	n.p.after(between(n.p.chance, 5*time.Millisecond, 30*time.Millisecond), func() { n.p.end(process.Exit{Code: code}) })
}

// beat sends heartbeats.
func (n *node) beat() {
	m := &wire.Heartbeat{Node: n.id}
	if n.m != nil {
		m.Generation, m.Step = n.m.Generation, 1
		if n.p.role == worker && n.counts && n.rank() == 0 {
			m.Adaptation = n.p.w.wish
		}
	}
	n.link().send(m, func(m wire.Message) {
		n.p.do(func() {
			if _, refused := m.(*wire.Nack); refused {
				n.fail(m)
			}
		})
	})
	n.p.beside(n.p.w.job.Heartbeat, n.beat)
}

// self is the node in the newest membership; nil: it is not there.
func (n *node) self() *wire.Member {
	for i := range n.m.Nodes {
		if n.m.Nodes[i].Node == n.id {
			return &n.m.Nodes[i]
		}
	}
	return nil
}

func (n *node) rank() int32 {
	if x := n.self(); x != nil {
		return x.Rank
	}
	return -1
}

// watch follows the membership.
func (n *node) watch() {
	n.call(func() wire.Message {
		m := &wire.Watch{Node: n.id, WaitMillis: 20_000}
		if n.m != nil {
			m.Revision = n.m.Revision
		}
		return m
	}, func(m wire.Message) {
		now, ok := m.(*wire.Membership)
		if !ok {
			n.fail(m)
			return
		}
		news := n.m == nil || now.Revision != n.m.Revision
		n.m = now
		if n.watch(); news && !n.ending {
			n.follow()
		}
	})
}

// follow does what a new membership asks for.
func (n *node) follow() {
	p, x := n.p, n.self()
	switch {
	case n.m.Phase == wire.PhaseForming:
		return
	case n.m.Phase == wire.PhaseFinished:
		n.ending = true
		p.after(between(p.chance, 100*time.Millisecond, 300*time.Millisecond), func() { p.end(process.Exit{}) })
		return
	case n.m.Phase == wire.PhaseFailed:
		n.ending = true
		p.after(between(p.chance, 10*time.Millisecond, 80*time.Millisecond), func() { p.end(process.Exit{Code: 1}) })
		return
	case p.role == server:
		n.serve(x)
		return
	}
	if !n.joined {
		n.joined = true
		n.begin(x)
	}
	if x != nil && x.Counts() && !n.counts {
		n.counts = true
		p.w.happened("%v counts", p)
		n.train()
	}
	switch {
	case n.m.Stopping:
		n.stopWithCheckpoint()
	case n.counts && n.m.Change != 0 && n.m.Change != n.arriving:
		n.arrive(n.m.Change)
	}
}

// begin is a worker that was told that the job runs. One that joins it prepares itself and says
// that it is ready.
func (n *node) begin(x *wire.Member) {
	p := n.p
	if x != nil && x.Counts() {
		return
	}
	p.after(between(p.chance, 300*time.Millisecond, 2*time.Second)+2*p.machine.host.slow, n.ready)
}

func (n *node) ready() {
	if n.ending || n.counts {
		return
	}
	n.call(func() wire.Message { return &wire.Ready{Node: n.id, WaitMillis: 8000} }, func(m wire.Message) {
		x, refused := m.(*wire.Nack)
		switch {
		case !refused || n.ending:
		case x.Code == wire.CodeTimeout:
			n.ready()
		case x.Code == wire.CodeStaleGeneration:
			n.p.after(20*time.Millisecond, n.ready)
		default:
			n.fail(m)
		}
	})
}

// train is a worker that counts: it declares the job's keys, and trains until training is over.
func (n *node) train() {
	n.declare(0)
	if n.p.w.finishing {
		n.finish()
	}
}

func (n *node) declare(key int) {
	switch {
	case n.ending:
		return
	case key == n.p.w.job.Keys:
		// The servers get the first values, and with them something to give to backups.
		for _, p := range n.p.w.processes {
			if p.role == server && p.node != nil && p.node.joined {
				p.after(between(p.chance, 5*time.Millisecond, 50*time.Millisecond), p.node.read)
			}
		}
		return
	}
	n.call(func() wire.Message {
		return &wire.Declare{Generation: n.m.Generation, Node: n.id, Form: wire.FormDense, Rule: wire.RuleOptimizer, Size: 1000 << (6 * key), Name: fmt.Sprint("key", key)}
	}, func(m wire.Message) {
		switch x, refused := m.(*wire.Nack); {
		case refused && x.Code == wire.CodeStaleGeneration:
			n.p.after(20*time.Millisecond, func() { n.declare(key) })
		case refused:
			// The next membership says why.
		default:
			n.declare(key + 1)
		}
	})
}

// arrive goes to the boundary of a change.
func (n *node) arrive(change uint64) {
	n.arriving = change
	p := n.p
	p.after(between(p.chance, 20*time.Millisecond, 250*time.Millisecond), func() { n.atBoundary(change) })
}

func (n *node) atBoundary(change uint64) {
	if n.ending || n.arriving != change {
		return
	}
	n.call(func() wire.Message {
		return &wire.Arrive{Generation: n.m.Generation, Node: n.id, Change: change, Steps: 1, WaitMillis: 8000}
	}, func(m wire.Message) {
		x, refused := m.(*wire.Nack)
		switch {
		case n.ending:
		case !refused, x.Code == wire.CodeConflict:
			n.arriving = 0
			if n.m.Change != 0 && n.m.Change != change {
				n.arrive(n.m.Change)
			}
		case x.Code == wire.CodeTimeout:
			n.atBoundary(change)
		case x.Code == wire.CodeStaleGeneration:
			n.p.after(20*time.Millisecond, func() { n.atBoundary(change) })
		default:
			n.fail(m)
		}
	})
}

// quit leaves the job and ends the process.
func (n *node) quit(ok bool, reason string, x process.Exit) {
	if n.ending {
		return
	}
	n.ending = true
	p := n.p
	over := func() { p.after(between(p.chance, 5*time.Millisecond, 40*time.Millisecond), func() { p.end(x) }) }
	n.call(func() wire.Message { return &wire.Leave{Node: n.id, OK: ok, Reason: reason} }, func(wire.Message) { over() })
	// A scheduler that does not answer is not waited for any longer.
	p.after(5*time.Second, func() { p.end(x) })
}

// steps reports whether the next step can end: all who take part are alive.
func (n *node) steps() bool {
	for i := range n.m.Nodes {
		x := &n.m.Nodes[i]
		if x.Role != wire.RoleWorker || !x.Counts() {
			continue
		}
		o := n.p.w.nodeOf(x.Node)
		if o == nil || o.p.frozen {
			return false
		}
	}
	return true
}

// nodeOf is the living worker of a node; nil: it is gone. Those that leave are done with all steps.
func (w *world) nodeOf(id uint64) *node {
	for _, p := range w.processes {
		if p.node != nil && p.node.id == id && p.state == running {
			return p.node
		}
	}
	return nil
}

// finish ends a worker with the end of training.
func (n *node) finish() {
	p := n.p
	p.beside(between(p.chance, 100*time.Millisecond, 400*time.Millisecond), func() {
		switch {
		case n.ending:
		case n.arriving != 0 || !n.steps():
			n.finish()
		default:
			p.w.happened("%v is done", p)
			n.quit(true, "", process.Exit{})
		}
	})
}

// stopTogether ends all workers after a step, since one of them was told to end and is needed.
func (w *world) stopTogether() {
	for _, p := range w.processes {
		if n := p.node; n != nil && p.role == worker && n.counts {
			n.stopWithOthers()
		}
	}
}

func (n *node) stopWithOthers() {
	p := n.p
	p.beside(between(p.chance, 100*time.Millisecond, 400*time.Millisecond), func() {
		switch {
		case n.ending:
		case n.arriving != 0 || !n.steps():
			n.stopWithOthers()
		default:
			n.quit(true, "", process.Exit{Code: 128 + int(syscall.SIGTERM)})
		}
	})
}

// stopWithCheckpoint is a worker that is told that all stop with a checkpoint.
func (n *node) stopWithCheckpoint() {
	if n.stops {
		return
	}
	n.stops = true
	n.checkpoint()
}

// checkpoint ends a worker that is to stop with a checkpoint, once it takes steps. Without a folder
// it says that there is none.
func (n *node) checkpoint() {
	p := n.p
	p.beside(between(p.chance, 100*time.Millisecond, 400*time.Millisecond), func() {
		switch {
		case n.ending:
		case !n.counts:
			n.quit(true, "", process.Exit{})
		case n.arriving != 0 || !n.steps():
			n.checkpoint()
		default:
			m := &wire.Stopped{Node: n.id, Steps: 5}
			x := process.Exit{Report: exitreport.Report{Cause: exitreport.Checkpointed, Steps: 5}}
			if !p.w.job.Checkpoints {
				m.Steps, m.Reason = 0, "there is no folder"
				x = process.Exit{}
			}
			n.call(func() wire.Message { return m }, func(wire.Message) { n.quit(true, "", x) })
		}
	})
}

// terminate is a node that gets SIGTERM.
func (n *node) terminate() {
	p := n.p
	switch {
	case n.ending:
	case p.role == server:
		if n.id == 0 {
			p.after(between(p.chance, 5*time.Millisecond, 40*time.Millisecond), func() { p.end(exitOf(syscall.SIGTERM)) })
			return
		}
		n.quit(false, "it was told to end", process.Exit{Code: 128 + int(syscall.SIGTERM)})
	case !n.joined:
		p.after(between(p.chance, 5*time.Millisecond, 40*time.Millisecond), func() { p.end(exitOf(syscall.SIGTERM)) })
	default:
		n.askLeave()
	}
}

// askLeave asks to leave while the others go on.
func (n *node) askLeave() {
	p := n.p
	n.call(func() wire.Message { return &wire.AskLeave{Node: n.id, Reason: "it was told to end"} }, func(m wire.Message) {
		x, refused := m.(*wire.Nack)
		switch {
		case n.ending:
		case !refused || x.Code == wire.CodeRemoved:
			if !n.counts {
				n.quit(true, "", process.Exit{})
			}
		case x.Code == wire.CodeStaleGeneration:
			p.after(20*time.Millisecond, n.askLeave)
		case x.Code == wire.CodeConflict && n.counts:
			p.w.stopTogether()
		case x.Code == wire.CodeConflict:
			n.quit(true, "", process.Exit{Code: 128 + int(syscall.SIGTERM)})
		default:
			n.fail(m)
		}
	})
}

// serve is a server that follows the membership.
func (n *node) serve(x *wire.Member) {
	p := n.p
	if x == nil {
		p.w.happened("%v is removed", p)
		n.quit(true, "removed", process.Exit{})
		return
	}
	if !n.joined {
		n.joined = true
	}
	for _, lost := range n.m.LostToCount {
		placement := n.m.Placement
		p.after(between(p.chance, 5*time.Millisecond, 50*time.Millisecond), func() {
			if !n.ending {
				n.call(func() wire.Message { return &wire.LostExamples{Node: n.id, Placement: placement, Lost: lost} }, func(wire.Message) {})
			}
		})
	}
	if n.m.Backups > 0 {
		n.read()
	}
}

// read finds out for which shards the server is the primary, and gives their backups all that they
// have.
func (n *node) read() {
	if n.ending || n.m.Backups == 0 || n.m.Phase != wire.PhaseRunning {
		return
	}
	n.call(func() wire.Message { return &wire.ReadPlaces{Node: n.id} }, func(m wire.Message) {
		places, ok := m.(*wire.Places)
		if !ok || n.ending || places.Placement == n.placed && places.Keys == n.keys {
			return
		}
		n.placed, n.keys = places.Placement, places.Keys
		if shards := n.fills(places); len(shards) > 0 {
			n.p.after(between(n.p.chance, 50*time.Millisecond, 300*time.Millisecond), func() {
				n.filled(&wire.Filled{Node: n.id, Placement: places.Placement, OK: true, Shards: shards})
			})
		}
	})
}

// fills are the shards of which the server is the primary, with the nodes of their backups.
func (n *node) fills(places *wire.Places) (shards []wire.FilledShard) {
	for _, x := range places.Places {
		if int32(x.Server) != n.rank() || x.Backup == wire.NoServer {
			continue
		}
		for i := range n.m.Nodes {
			if o := &n.m.Nodes[i]; o.Role == wire.RoleServer && o.Rank == int32(x.Backup) {
				shards = append(shards, wire.FilledShard{Key: x.Key, Shard: x.Shard, Backup: o.Node})
			}
		}
	}
	return shards
}

// filled tells that the backups have all. If shards have moved meanwhile, the server reads the
// places once more.
func (n *node) filled(done *wire.Filled) {
	if n.ending {
		return
	}
	n.call(func() wire.Message { return done }, func(m wire.Message) {
		if x, refused := m.(*wire.Nack); refused && x.Code == wire.CodeMoved {
			n.placed = 0
			n.p.after(20*time.Millisecond, n.read)
		}
	})
}
