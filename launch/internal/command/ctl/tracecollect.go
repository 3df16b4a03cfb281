package ctl

import (
	"context"
	"errors"
	"fmt"
	"io"
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
	line := &trace.Timeline{Job: begun.Job}
	nodes := map[uint64]*trace.Node{}

	// after is the number of the newest chunk that has come. The scheduler drops chunks up to
	// it, and sends the ones behind it again if this answer is lost.
	state, after := "", uint64(0)
	for {
		var p control.TraceParts
		if _, err := k.ask(ctx, control.Request{Op: control.OpTraceParts, Trace: begun.Trace, After: after}, &p); err != nil {
			return nil, fmt.Errorf("launch: trace %d: %w", begun.Trace, err)
		}
		for _, x := range p.Nodes {
			n := nodes[x.Node]
			if n == nil {
				n = &trace.Node{ID: x.Node, Role: x.Role, Rank: int(x.Rank), Host: x.Host, PID: x.PID}
				nodes[x.Node] = n
			}

			// Each answer has the newest state of a node: its clock is known better as
			// heartbeats come.
			n.Dropped, n.Missing = x.Dropped, x.Missing
			if err := n.SetClock(time.Duration(x.OffsetNS), time.Duration(x.BoundNS)); err != nil {
				return nil, err
			}
		}
		for _, x := range p.Chunks {
			n := nodes[x.Node]
			if n == nil {
				return nil, fmt.Errorf("launch: trace %d: got a chunk of node %d, which is not in the trace", begun.Trace, x.Node)
			}
			if err := n.AddChunk(x.Data); err != nil {
				return nil, fmt.Errorf("launch: trace %d: %v: %w", begun.Trace, n, err)
			}
			after = x.Number
		}
		if p.State != state && p.State == control.TraceCollecting {
			fmt.Fprintln(stderr, "launch: recording has ended; fetching the spans")
		}
		state = p.State
		if state == control.TraceDone && after == p.Last {
			break
		}
		if len(p.Chunks) > 0 {
			continue // there may be more
		}
		select {
		case <-time.After(tracePause):
		case <-ctx.Done():
			return nil, fmt.Errorf("launch: trace %d: %w", begun.Trace, context.Cause(ctx))
		}
	}
	spans := 0
	for _, n := range nodes {
		line.Nodes = append(line.Nodes, *n)
		spans += len(n.Spans)
	}

	// Map order reaches no file.
	slices.SortFunc(line.Nodes, func(a, b trace.Node) int { return int(int64(a.ID) - int64(b.ID)) })
	if spans == 0 {
		return nil, fmt.Errorf("launch: trace %d: %w", begun.Trace, errors.Join(errors.New("no process has recorded a span"), missingOf(line)))
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
