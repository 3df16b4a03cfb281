package scheduler

import "github.com/paragon-train/paragon/internal/store/wire"

// handle hands a request to who answers it. One of a node is refused here if the node is not there;
// one that belongs to the running job also if that does not run, or its generation is another one.
func (c *Core) handle(request uint64, message wire.Message) {
	m, out := &c.members, &c.out
	// A Barrier and a Declare belong to the generation that they carry, and set it. The others may
	// come in any, even an Arrive, which carries one: it is of a change.
	generation := m.job.generation
	of := func(id uint64, do func(n *node)) {
		if n := m.find(out, request, id); n != nil {
			do(n)
		}
	}
	current := func(id uint64, do func(n *node)) {
		if n := m.current(out, request, id, generation); n != nil {
			do(n)
		}
	}
	switch x := message.(type) {
	case *wire.Register:
		m.register(out, request, x)
	case *wire.Leave:
		c.leave(request, x)
	case *wire.Control:
		c.control(request, x)

	// Requests that a node may make whatever the job does. Each renews its lease.
	case *wire.Watch:
		of(x.Node, func(n *node) {
			m.watches.add(out, request, n, x, func() *wire.Membership { return m.message(out.now) })
		})
	case *wire.Heartbeat:
		of(x.Node, func(n *node) { c.heartbeat(request, n, x) })
	case *wire.TraceChunk:
		of(x.Node, func(*node) { c.trace.chunk(out, request, x, &m.roster) })
	case *wire.LostExamples:
		of(x.Node, func(n *node) { m.lostExamples(out, request, n, x) })
	case *wire.Stopped:
		of(x.Node, func(n *node) { m.job.workerStopped(out, request, n, x) })

	// Requests of the running job. A barrier and a declaration belong to a generation: the
	// workers must agree on whom they wait for, and on the servers of a plan. The others are
	// the same in each.
	case *wire.Barrier:
		generation = x.Generation
		current(x.Node, func(n *node) { m.barriers.call(out, request, n, x, m.roster.workers()) })
	case *wire.Signal:
		current(x.Node, func(*node) { m.signals.send(out, request, x) })
	case *wire.Await:
		current(x.Node, func(*node) { m.signals.await(out, request, x, m.roster.workers()) })
	case *wire.Declare:
		generation = x.Generation
		current(x.Node, func(n *node) { m.places.declare(out, request, n, x, m.servers.ranks) })
	case *wire.Ready:
		current(x.Node, func(n *node) { m.ready(out, request, n, x) })
	case *wire.Arrive:
		current(x.Node, func(n *node) { m.arrive(out, request, n, x) })
	case *wire.AskLeave:
		current(x.Node, func(n *node) { m.askLeave(out, request, n, x) })
	case *wire.ReadPlaces:
		current(x.Node, func(*node) { m.places.readPlaces(out, request, x) })
	case *wire.Filled:
		current(x.Node, func(n *node) { m.filled(out, request, n, x) })
	default:
		out.refuse(request, wire.CodeUnsupported, "the scheduler does not answer a %v", message.Kind())
	}
}

// heartbeat takes what a node says of itself, and tells it what it may have missed. Nothing of it
// is recorded, so that heartbeats do not wait for the journal's disk.
func (c *Core) heartbeat(request uint64, n *node, b *wire.Heartbeat) {
	job := &c.members.job
	n.said = progressOf(b)
	if n.Role == wire.RoleWorker && n.Rank == 0 {
		if w := c.adapts.heard(&c.out, n, b.Adaptation); w.workers > 0 {
			c.members.wish = w
		}
	}
	c.measured(n, b.Record)
	c.out.answer(request, &wire.Beat{Generation: job.generation, Revision: job.revision, Incarnation: job.incarnation(), At: job.clock(c.out.now), Window: c.trace.window(n)})
}

// leave takes the Leave of a node that is there, or that has left and had no answer. The answer
// comes before what follows from the leave: the node has done its part whatever becomes of the job.
func (c *Core) leave(request uint64, l *wire.Leave) {
	if n := c.members.roster.node(l.Node); n != nil && n.life == left {
		c.out.ack(request)
		return
	}
	n := c.members.find(&c.out, request, l.Node)
	if n == nil {
		return
	}
	c.measured(n, l.Record)
	c.out.ack(request)
	c.members.takeLeave(&c.out, n, l)
}

// measured takes the record of what a node has measured.
func (c *Core) measured(n *node, record []byte) {
	if isNew, ok := c.meters.measured(&c.out, n, record); ok {
		c.slow.heard(&c.out, &c.members.roster, isNew, c.members.change.workers())
	}
}
