package kvstore

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/paragon-train/paragon/internal/files/vfs"
	"github.com/paragon-train/paragon/internal/observe/trace"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// read fetches the spans of a server, which has stopped recording, chunk by chunk. Each answer says
// how far it goes; one that does not go on, or says more than a profile may have, is an error,
// since the bytes are a peer's.
func (p *profiling) read(ctx context.Context, verb string, x *profile, server int) (trace.Node, error) {
	n := x.servers[server]
	for from := uint64(0); ; {
		head, answer := &wire.ReadProfile{ID: x.id, From: from}, &wire.ProfilePart{}
		err := p.ask(ctx, verb, &n, &answer.Generation, func(c *call) { c.request, c.origin, c.answer = head, &head.Origin, answer })
		if err != nil {
			return n, err
		}
		if answer.Next > answer.Total || answer.Total > MaxProfilerSpans || answer.Next <= from && from < answer.Total {
			return n, fmt.Errorf("kvstore: %s: %v: got spans up to %d of %d, want more than %d, of at most %d", verb, &n, answer.Next, answer.Total, from, MaxProfilerSpans)
		}
		if err := n.SetClock(time.Duration(answer.ClockOffset), time.Duration(answer.ClockBound)); err != nil {
			return n, fmt.Errorf("kvstore: %s: %w", verb, err)
		}
		if len(answer.Data) > 0 {
			if err := n.AddChunk(answer.Data); err != nil {
				return n, fmt.Errorf("kvstore: %s: %v: %w", verb, &n, err)
			}
		}
		if n.Dropped = answer.Dropped; answer.Overdue {
			n.Missing = fmt.Sprintf("its recording stopped after the limit of %v", wire.MaxProfileSeconds*time.Second)
		}
		if from = answer.Next; from == answer.Total {
			return n, nil
		}
	}
}

// writeOwn writes what this process has recorded.
func (p *profiling) writeOwn(verb string, x *profile) error {
	if x.capture == nil {
		return nil
	}
	r := x.capture.Take()
	n := trace.Node{ID: uint64(p.member.node.ID()), Role: trace.Worker, Rank: p.member.Rank(), PID: uint32(os.Getpid()), Names: r.Names, Dropped: r.Dropped}
	m := p.member.node.Membership()
	for i := range m.Nodes {
		if m.Nodes[i].Node == n.ID {
			n.Host = m.Nodes[i].Host
		}
	}
	if !p.requests.inline {
		offset, bound, _ := p.requests.trace.Clock().Offset()
		n.Offset, n.Bound, n.Spans = offset, bound, r.Spans
		return p.write(verb, x.cfg.path(trace.Worker, n.Rank), n)
	}
	if name, err := os.Hostname(); err == nil {
		n.Host = name
	}
	server := n
	// The worker's node tells what was dropped.
	server.ID, server.Role, server.Dropped = n.ID+1, trace.Server, 0
	for _, x := range r.Spans {
		if x.Kind.OfServer() {
			server.Spans = append(server.Spans, x)
		} else {
			n.Spans = append(n.Spans, x)
		}
	}
	return p.write(verb, x.cfg.path(trace.Worker, n.Rank), n, server)
}

// write writes a file with the spans of some processes.
func (p *profiling) write(verb, path string, nodes ...trace.Node) error {
	t := &trace.Timeline{Whole: true, Generator: "paragon kvstore.Profiler", Nodes: nodes, Workers: map[uint64]int{}}
	m := p.member.node.Membership()
	for i := range m.Nodes {
		if n := &m.Nodes[i]; n.Role == wire.RoleWorker && n.Rank >= 0 {
			t.Workers[n.Node] = int(n.Rank)
		}
	}
	if _, err := t.WriteFile(vfs.OS{}, path); err != nil {
		return fmt.Errorf("kvstore: %s: %w", verb, err)
	}
	return nil
}
