package scheduler

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// A tracing is the trace that is being taken. There is one at a time. The client that asked for it
// fetches the chunks while they come. The scheduler keeps at most mostTraceBytes of chunks that
// were not fetched.
type tracing struct {
	id     uint64
	told   wire.TraceWindow // what heartbeats tell the nodes
	begun  time.Time
	until  time.Time // the window's end at the latest
	nodes  []*tracedNode
	ended  time.Time // when the window was closed; zero: it is open
	asked  time.Time // last request of the client
	chunks []control.TraceChunk
	last   uint64 // number of the newest chunk
	bytes  int    // of chunks
}

type tracedNode struct {
	control.TraceNode
	next uint32 // sequence number of the next chunk
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

// beginTrace opens a window, which nodes learn with their next heartbeats.
func (c *Core) beginTrace(r control.Request) control.Answer {
	switch {
	case c.phase == wire.PhaseForming:
		return &control.Trace{Error: "no steps to record yet: the job is forming and waits for " + strings.Join(c.missing(), ", "), Again: true}
	case !c.open():
		return &control.Trace{Error: "the job has " + phaseNames[c.phase] + because(c.reason)}
	case c.tracing != nil && c.tracing.state() != control.TraceDone:
		return &control.Trace{Error: fmt.Sprintf("trace %d is being taken (started %s ago); try again when it is done", c.tracing.id, control.Seconds(c.now.Sub(c.tracing.begun))), Again: true}
	}
	workers, refusal := c.tracedWorkers(r.Ranks)
	if refusal != "" {
		return &control.Trace{Error: refusal}
	}
	servers := c.living(wire.RoleServer)
	all := len(c.counting(wire.RoleWorker)) + len(servers)
	servers = servers[:min(len(servers), control.MaxTraced)]
	limit := time.Duration(r.WindowMillis) * time.Millisecond
	if limit == 0 {
		limit = control.MaxTraceMillis * time.Millisecond
	}
	// By then all nodes know of the window: a heartbeat may just have left, and the next one
	// may be slow.
	wait := c.set.Heartbeat * 5 / 2
	c.traces++
	t := &tracing{id: c.incarnation() + c.traces, begun: c.now, until: c.now.Add(wait + limit), asked: c.now}
	t.told = wire.TraceWindow{ID: t.id, StartAt: c.clock() + int64(wait), Steps: uint32(r.Steps), LimitMillis: uint32(limit.Milliseconds())}
	for _, n := range slices.Concat(servers, workers) {
		t.nodes = append(t.nodes, &tracedNode{TraceNode: control.TraceNode{Node: n.Node, Role: roleName(n.Role), Rank: n.Rank, Host: n.Host, PID: n.PID}})
	}
	c.tracing = t
	return &control.Trace{Trace: t.id, StartMillis: wait.Milliseconds(), Job: c.set.Job, Workers: len(workers), Servers: len(servers), LeftOut: all - len(workers) - len(servers)}
}

// tracedWorkers are the workers of some ranks; of none: those that the others wait for first, then
// by rank.
func (c *Core) tracedWorkers(ranks []int32) (list []*node, refusal string) {
	workers := c.counting(wire.RoleWorker)
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
	slow := c.slowest()
	first := func(n *node) bool {
		return slices.ContainsFunc(slow, func(s control.Slow) bool { return s.Rank == n.Rank })
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
// or the node is not in it. t may be nil.
func (t *tracing) window(n *node) wire.TraceWindow {
	if t == nil || !t.ended.IsZero() || t.node(n.Node) == nil {
		return wire.TraceWindow{}
	}
	return t.told
}

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
func (t *tracing) next() time.Time {
	if t == nil {
		return time.Time{}
	}
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
func (t *tracing) awaited(now time.Time) bool { return t != nil && now.Sub(t.asked) < traceAwaited }

// passTrace advances the trace: it closes the window, gives up nodes that are gone or too slow, and
// drops a trace that no client asks for.
func (c *Core) passTrace() {
	t := c.tracing
	if t == nil {
		return
	}
	if !c.now.Before(t.asked.Add(traceAsked)) { // also if the asker was killed
		c.tracing = nil
		return
	}
	for _, x := range t.nodes {
		if n := c.node(x.Node); !x.Done && x.Missing == "" && (n == nil || n.state != living && n.state != removed) {
			x.Missing = "it has left the job"
			if n != nil && n.state == lost {
				x.Missing = "it was declared lost"
				if n.why != "" {
					x.Missing += ": " + n.why
				}
			}
		}
	}
	if t.ended.IsZero() && (t.over(control.Worker) || !c.now.Before(t.until)) {
		t.ended = c.now
	}
	if !t.ended.IsZero() && !c.now.Before(t.ended.Add(traceSent)) {
		for _, x := range t.nodes {
			if !x.Done && x.Missing == "" {
				x.Missing = fmt.Sprintf("it did not send its spans within %v", traceSent)
			}
		}
	}
}

// traceChunk takes a chunk of spans from a node. A repeated chunk is acknowledged and counts once.
func (c *Core) traceChunk(request uint64, m *wire.TraceChunk) {
	n := c.member(request, m.Node)
	if n == nil {
		return
	}
	t := c.tracing
	x := t.node(m.Node)
	switch {
	case t == nil || t.id != m.ID || x == nil || x.Missing != "":
		c.refuse(request, wire.CodeNoTrace, "trace %d is not being taken, or is over", m.ID)
	case m.Seq+1 == x.next || x.Done: // again
		c.ack(request)
	case m.Seq != x.next:
		x.Missing = fmt.Sprintf("got its chunk %d, want %d", m.Seq, x.next)
		c.refuse(request, wire.CodeMalformed, "trace %d: got chunk %d, want %d", m.ID, m.Seq, x.next)
	case m.ClockBound < 0:
		x.Missing = fmt.Sprintf("its clock is known to ±%d ns", m.ClockBound)
		c.refuse(request, wire.CodeMalformed, "trace %d: clock bound %d ns, want none below 0", m.ID, m.ClockBound)
	case t.bytes+len(m.Data) > mostTraceBytes:
		x.Missing = fmt.Sprintf("the scheduler's buffer for this trace was full (%d MB)", t.bytes>>20)
		c.refuse(request, wire.CodeFull, "trace %d: the buffer is full (%d MB)", m.ID, t.bytes>>20)
	default:
		x.next++
		x.Dropped, x.OffsetNS, x.BoundNS, x.Done = m.Dropped, m.ClockOffset, m.ClockBound, m.Last
		if len(m.Data) > 0 {
			t.last++
			t.bytes += len(m.Data)
			t.chunks = append(t.chunks, control.TraceChunk{Number: t.last, Node: m.Node, Data: slices.Clone(m.Data)})
		}
		c.passTrace()
		c.ack(request)
	}
}

// traceParts answers OpTraceParts.
func (c *Core) traceParts(r control.Request) control.Answer {
	t := c.tracing
	if t == nil || t.id != r.Trace {
		return &control.TraceParts{Error: fmt.Sprintf("trace %d is not known: the scheduler was started again, or nobody asked for it for %v", r.Trace, traceAsked)}
	}
	t.asked = c.now
	for len(t.chunks) > 0 && t.chunks[0].Number <= r.After {
		t.bytes -= len(t.chunks[0].Data)
		t.chunks = slices.Delete(t.chunks, 0, 1)
	}
	p := &control.TraceParts{State: t.state(), Nodes: []control.TraceNode{}, Chunks: []control.TraceChunk{}, Last: t.last}
	for _, n := range t.nodes {
		p.Nodes = append(p.Nodes, n.TraceNode)
	}
	room := room(p)
	for _, x := range t.chunks {
		if room -= len(x.Data)/3*4 + 128; room < 0 {
			break
		}
		p.Chunks = append(p.Chunks, x)
	}
	return p
}

// endTrace drops a trace. It returns why it cannot; empty: it did.
func (c *Core) endTrace(id uint64) string {
	if c.tracing == nil || c.tracing.id != id {
		return fmt.Sprintf("trace %d is not known", id)
	}
	c.tracing = nil
	return ""
}
