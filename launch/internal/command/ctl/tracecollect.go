package ctl

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/internal/observe/trace"
)

// tracePause is the time between two requests for the parts of a trace.
const tracePause = 500 * time.Millisecond

// collect fetches the parts of a trace until the scheduler has no more. Notes on progress go to
// stderr. A trace without any span is an error.
func (k *controller) collect(ctx context.Context, stderr io.Writer, begun control.Trace) (*trace.Timeline, error) {
	t := tracePieces{trace: begun.Trace, nodes: map[uint64]*trace.Node{}}
	for state := ""; ; {
		var p control.TraceParts
		if _, err := k.ask(ctx, control.Request{Op: control.OpTraceParts, Trace: t.trace, After: t.after}, &p); err != nil {
			return nil, fmt.Errorf("launch: trace %d: %w", t.trace, err)
		}
		if err := t.take(&p); err != nil {
			return nil, err
		}
		if p.State != state && p.State == control.TraceCollecting {
			fmt.Fprintln(stderr, "launch: recording has ended; fetching the spans")
		}
		state = p.State
		if state == control.TraceDone && t.after == p.Last {
			return t.timeline(begun.Job)
		}
		if len(p.Chunks) > 0 {
			// There may be more.
			continue
		}
		select {
		case <-time.After(tracePause):
		case <-ctx.Done():
			return nil, fmt.Errorf("launch: trace %d: %w", t.trace, context.Cause(ctx))
		}
	}
}

// tracePieces are the pieces of a trace that have come so far.
type tracePieces struct {
	// trace is the number of the trace, for messages.
	trace uint64

	// nodes has each process of the trace by its node ID. A node comes before its first chunk.
	nodes map[uint64]*trace.Node

	// after is the number of the newest chunk that has come. The scheduler drops chunks up to it, and
	// sends the ones behind it again if an answer is lost.
	after uint64
}

// take takes the pieces of an answer.
func (t *tracePieces) take(p *control.TraceParts) error {
	for _, x := range p.Nodes {
		n := t.nodes[x.Node]
		if n == nil {
			n = &trace.Node{ID: x.Node, Role: x.Role, Rank: int(x.Rank), Host: x.Host, PID: x.PID}
			t.nodes[x.Node] = n
		}

		// Each answer has the newest state of a node: its clock is known better as heartbeats come.
		n.Dropped, n.Missing = x.Dropped, x.Missing
		if err := n.SetClock(time.Duration(x.OffsetNS), time.Duration(x.BoundNS)); err != nil {
			return err
		}
	}
	for _, x := range p.Chunks {
		n := t.nodes[x.Node]
		if n == nil {
			return fmt.Errorf("launch: trace %d: got a chunk of node %d, which is not in the trace", t.trace, x.Node)
		}
		if err := n.AddChunk(x.Data); err != nil {
			return fmt.Errorf("launch: trace %d: %v: %w", t.trace, n, err)
		}
		t.after = x.Number
	}
	return nil
}

// timeline joins the pieces, the nodes by their IDs.
func (t *tracePieces) timeline(job string) (*trace.Timeline, error) {
	line := &trace.Timeline{Job: job}
	spans := 0
	for _, id := range slices.Sorted(maps.Keys(t.nodes)) {
		line.Nodes = append(line.Nodes, *t.nodes[id])
		spans += len(t.nodes[id].Spans)
	}
	if spans == 0 {
		return nil, fmt.Errorf("launch: trace %d: %w", t.trace, errors.Join(errors.New("no process has recorded a span"), missingOf(line)))
	}
	return line, nil
}

// missingOf joins the reasons why nodes' spans are missing; nil if no node has one.
func missingOf(line *trace.Timeline) (err error) {
	for i := range line.Nodes {
		if n := &line.Nodes[i]; n.Missing != "" {
			err = errors.Join(err, fmt.Errorf("%v: %s", n, n.Missing))
		}
	}
	return err
}
