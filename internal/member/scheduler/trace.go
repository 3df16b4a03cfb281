package scheduler

import (
	"fmt"
	"slices"
	"time"

	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// A tracer takes traces, one at a time. It opens a window, of which the nodes hear with their next
// heartbeats; they record, and send their spans in chunks, while the client that asked for the
// trace fetches them. A node that is gone, or too slow, is given up with a reason, so that the
// trace ends in any case. The client that asked for a trace fetches its chunks while they come. A
// trace is not in the journal: who asks a scheduler that was started again is told so.
type tracer struct {
	set *Settings
	// trace is nil if none is taken.
	trace *tracing
	// begun is how many were.
	begun uint64
	// passed is the time up to which deadlines were acted on.
	passed time.Time
}

// A tracing is the trace that is being taken. The scheduler keeps at most mostTraceBytes of chunks
// that were not fetched.
type tracing struct {
	id uint64
	// told is what heartbeats tell the nodes.
	told  wire.TraceWindow
	begun time.Time
	// until is the window's end at the latest, and ended when it was closed; zero: it is open.
	until time.Time
	ended time.Time
	// asked is when the client asked last.
	asked time.Time
	nodes []*tracedNode
	// chunks are those that were not fetched, and bytes is their length; last is the number of
	// the newest one.
	chunks []control.TraceChunk
	last   uint64
	bytes  int
}

type tracedNode struct {
	control.TraceNode
	// next is the sequence number of its next chunk.
	next uint32
}

const (
	mostTraceBytes = 64 << 20
	// traceAsked is how long a trace is kept without a request for it.
	traceAsked = 20 * time.Second
	// traceAwaited is the same once the job has ended: launch asks twice a second.
	traceAwaited = 2 * time.Second
	// traceSent is how long nodes may take to send what they have recorded: a heartbeat to hear
	// that the window is over, and the rest on a slow link.
	traceSent = 30 * time.Second
)

// begin opens a window, which nodes learn with their next heartbeats. The job runs.
func (x *tracer) begin(r control.Request, at jobView) control.Answer {
	if t := x.trace; t != nil && t.state() != control.TraceDone {
		return &control.Trace{Error: fmt.Sprintf("trace %d is being taken (started %s ago); try again when it is done", t.id, control.Seconds(at.now.Sub(t.begun))), Again: true}
	}
	workers, refusal := tracedWorkers(r.Ranks, at)
	if refusal != "" {
		return &control.Trace{Error: refusal}
	}
	servers := at.roster.living(wire.RoleServer)
	all := len(at.roster.workers()) + len(servers)
	servers = servers[:min(len(servers), control.MaxTraced)]
	limit := time.Duration(r.WindowMillis) * time.Millisecond
	if limit == 0 {
		limit = control.MaxTraceMillis * time.Millisecond
	}
	// By then all nodes know of the window: a heartbeat may just have left, and the next one
	// may be slow.
	wait := x.set.Heartbeat * 5 / 2
	x.begun++
	t := &tracing{id: at.job.incarnation() + x.begun, begun: at.now, until: at.now.Add(wait + limit), asked: at.now}
	t.told = wire.TraceWindow{ID: t.id, StartAt: at.job.clock(at.now) + int64(wait), Steps: uint32(r.Steps), LimitMillis: uint32(limit.Milliseconds())}
	for _, n := range slices.Concat(servers, workers) {
		t.nodes = append(t.nodes, &tracedNode{TraceNode: control.TraceNode{Node: n.Node, Role: roleName(n.Role), Rank: n.Rank, Host: n.Host, PID: n.PID}})
	}
	x.trace = t
	return &control.Trace{Trace: t.id, StartMillis: wait.Milliseconds(), Job: x.set.Job, Workers: len(workers), Servers: len(servers), LeftOut: all - len(workers) - len(servers)}
}

// tracedWorkers are the workers of some ranks; of none: those that the others wait for first, then
// by rank.
func tracedWorkers(ranks []int32, at jobView) (list []*node, refusal string) {
	workers := at.roster.workers()
	if len(workers) == 0 {
		return nil, "the job has no workers"
	}
	if len(ranks) > 0 {
		for _, rank := range ranks {
			i := slices.IndexFunc(workers, func(n *node) bool { return n.Rank == rank })
			if i < 0 {
				return nil, fmt.Sprintf("there is no worker %d: the job has workers 0 to %d", rank, workers[len(workers)-1].Rank)
			}
			if !slices.Contains(list, workers[i]) {
				list = append(list, workers[i])
			}
		}
		return list, ""
	}
	first := func(n *node) bool {
		return slices.ContainsFunc(at.slow, func(s control.Slow) bool { return s.Rank == n.Rank })
	}
	if len(workers) > control.MaxTraced {
		slices.SortStableFunc(workers, func(a, b *node) int {
			switch x, y := first(a), first(b); {
			case x && !y:
				return -1
			case y && !x:
				return 1
			}
			return 0
		})
		workers = workers[:control.MaxTraced]
		slices.SortFunc(workers, func(a, b *node) int { return int(a.Rank) - int(b.Rank) })
	}
	return workers, ""
}

// window is what a node is told of the trace: the zero window if there is no trace, it has ended,
// or the node is not in it.
func (x *tracer) window(n *node) wire.TraceWindow {
	t := x.trace
	if t == nil || !t.ended.IsZero() || t.node(n.Node) == nil {
		return wire.TraceWindow{}
	}
	return t.told
}

// node finds a node of the trace; nil: it is not in it. t may be nil.
func (t *tracing) node(id uint64) *tracedNode {
	if t == nil {
		return nil
	}
	for _, n := range t.nodes {
		if n.Node == id {
			return n
		}
	}
	return nil
}

// over reports whether nothing more comes from the nodes of a role; empty: of all roles.
func (t *tracing) over(role string) bool {
	return !slices.ContainsFunc(t.nodes, func(n *tracedNode) bool { return (role == "" || n.Role == role) && !n.Done && n.Missing == "" })
}

// state is what the client is told: whether nodes record, send, or are done.
func (t *tracing) state() string {
	switch {
	case t.over(""):
		return control.TraceDone
	case t.ended.IsZero():
		return control.TraceRecording
	}
	return control.TraceCollecting
}

// next is when time alone changes the trace.
func (x *tracer) next(open bool) time.Time {
	t := x.trace
	if t == nil {
		return time.Time{}
	}
	if !open && x.awaited(x.passed) {
		return sooner(t.next(), t.asked.Add(traceAwaited))
	}
	return t.next()
}

// next is when the window closes, when nodes are given up, or when the trace is dropped since
// nobody asks for it.
func (t *tracing) next() time.Time {
	next := t.asked.Add(traceAsked)
	if t.state() == control.TraceDone {
		return next
	}
	due := t.until
	if !t.ended.IsZero() {
		due = t.ended.Add(traceSent)
	}
	if due.Before(next) {
		return due
	}
	return next
}

// awaited reports whether a client still fetches the trace.
func (x *tracer) awaited(now time.Time) bool {
	return x.trace != nil && now.Sub(x.trace.asked) < traceAwaited
}

// pass advances the trace: it closes the window, gives up nodes that are gone or too slow, and
// drops a trace that no client asks for.
func (x *tracer) pass(now time.Time, r *roster) {
	x.passed = now
	t := x.trace
	if t == nil {
		return
	}
	if !now.Before(t.asked.Add(traceAsked)) {
		// The client may have been killed.
		x.trace = nil
		return
	}
	t.giveUp(r)
	if t.ended.IsZero() && (t.over(control.Worker) || !now.Before(t.until)) {
		t.ended = now
	}
	if !t.ended.IsZero() && !now.Before(t.ended.Add(traceSent)) {
		for _, n := range t.nodes {
			if !n.Done && n.Missing == "" {
				n.Missing = fmt.Sprintf("it did not send its spans within %v", traceSent)
			}
		}
	}
}

// giveUp gives up the nodes that are gone.
func (t *tracing) giveUp(r *roster) {
	for _, x := range t.nodes {
		n := r.node(x.Node)
		if x.Done || x.Missing != "" || n != nil && n.listens() {
			continue
		}
		x.Missing = "it has left the job"
		if n != nil && n.life == lost {
			x.Missing = "it was declared lost" + because(n.why)
		}
	}
}

// chunk takes a chunk of spans from a node. A repeated chunk is acknowledged and counts once.
func (x *tracer) chunk(out *output, request uint64, m *wire.TraceChunk, r *roster) {
	t := x.trace
	n := t.node(m.Node)
	switch {
	case t == nil || t.id != m.ID || n == nil || n.Missing != "":
		out.refuse(request, wire.CodeNoTrace, "trace %d is not being taken, or is over", m.ID)
	case m.Seq+1 == n.next || n.Done:
		// It was sent again.
		out.ack(request)
	case m.Seq != n.next:
		n.Missing = fmt.Sprintf("got its chunk %d, want %d", m.Seq, n.next)
		out.refuse(request, wire.CodeMalformed, "trace %d: got chunk %d, want %d", m.ID, m.Seq, n.next)
	case m.ClockBound < 0:
		n.Missing = fmt.Sprintf("its clock is known to ±%d ns", m.ClockBound)
		out.refuse(request, wire.CodeMalformed, "trace %d: clock bound %d ns, want none below 0", m.ID, m.ClockBound)
	case t.bytes+len(m.Data) > mostTraceBytes:
		n.Missing = fmt.Sprintf("the scheduler's buffer for this trace was full (%d MB)", t.bytes>>20)
		out.refuse(request, wire.CodeFull, "trace %d: the buffer is full (%d MB)", m.ID, t.bytes>>20)
	default:
		t.add(n, m)
		x.pass(out.now, r)
		out.ack(request)
	}
}

// add adds a node's next chunk.
func (t *tracing) add(n *tracedNode, m *wire.TraceChunk) {
	n.next++
	n.Dropped, n.OffsetNS, n.BoundNS, n.Done = m.Dropped, m.ClockOffset, m.ClockBound, m.Last
	if len(m.Data) > 0 {
		t.last++
		t.bytes += len(m.Data)
		t.chunks = append(t.chunks, control.TraceChunk{Number: t.last, Node: m.Node, Data: slices.Clone(m.Data)})
	}
}

// parts answers OpTraceParts.
func (x *tracer) parts(now time.Time, r control.Request) control.Answer {
	t := x.trace
	if t == nil || t.id != r.Trace {
		return &control.TraceParts{Error: fmt.Sprintf("trace %d is not known: the scheduler was started again, or nobody asked for it for %v", r.Trace, traceAsked)}
	}
	t.asked = now
	for len(t.chunks) > 0 && t.chunks[0].Number <= r.After {
		t.bytes -= len(t.chunks[0].Data)
		t.chunks = slices.Delete(t.chunks, 0, 1)
	}
	p := &control.TraceParts{State: t.state(), Nodes: []control.TraceNode{}, Chunks: []control.TraceChunk{}, Last: t.last}
	for _, n := range t.nodes {
		p.Nodes = append(p.Nodes, n.TraceNode)
	}
	room := room(p)
	for _, c := range t.chunks {
		if room -= len(c.Data)/3*4 + 128; room < 0 {
			break
		}
		p.Chunks = append(p.Chunks, c)
	}
	return p
}

// end drops a trace. It returns why it cannot; empty: it did.
func (x *tracer) end(id uint64) string {
	if x.trace == nil || x.trace.id != id {
		return fmt.Sprintf("trace %d is not known", id)
	}
	x.trace = nil
	return ""
}
