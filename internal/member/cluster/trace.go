package cluster

import (
	"context"
	"errors"
	"time"

	"github.com/paragon-train/paragon/internal/observe/trace"
	"github.com/paragon-train/paragon/internal/store/transport"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// trace records the windows that the scheduler asks for and sends the spans, until the node ends;
// then it sends those of an open window. It is a goroutine of its own, so heartbeats go on.
func (n *Node) trace() {
	defer close(n.traced)
	f := trace.NewFollower(n.cfg.Trace, n.cfg.Role == Worker)
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		wait := time.Hour
		if until, ok := f.Until(); ok {
			wait = time.Duration(until - n.clock.Now())
		}
		timer.Reset(max(0, wait))
		end := false
		select {
		case <-n.windows.other:
			offset, _, _ := n.clock.Offset()
			f.Follow(n.windows.get(), offset)
		case <-f.Done():
		case <-timer.C:
		case <-n.life.ctx.Done():
			end = true
		}
		if r, ok := f.Take(n.clock.Now(), end); ok {
			n.sendTrace(r)
		}
		if end {
			return
		}
	}
}

// traceTries bounds the attempts to send a chunk, chunkTimeout the time of one attempt, and
// traceLeave the time of all sending once the node ends.
const (
	traceTries   = 4
	chunkTimeout = 5 * time.Second
	traceLeave   = 2 * time.Second
)

// sendTrace sends a recording in chunks. If the scheduler refuses a chunk or cannot be reached, the
// rest of the recording is dropped.
func (n *Node) sendTrace(r trace.Recording) {
	chunks := trace.Encode(r.Spans, r.Names, wire.MaxTraceChunk)
	if len(chunks) == 0 {
		chunks = [][]byte{nil}
	}
	offset, bound, _ := n.clock.Offset()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	defer context.AfterFunc(n.life.ctx, func() {
		late, stop := context.WithTimeout(ctx, traceLeave)
		defer stop()
		<-late.Done()
		cancel()
	})()
	for i, data := range chunks {
		m := &wire.TraceChunk{ID: r.Window, Node: uint64(n.id), Seq: uint32(i), Last: i == len(chunks)-1, Dropped: r.Dropped, ClockOffset: int64(offset), ClockBound: int64(bound), Data: data}
		if err := n.sendChunk(ctx, m); err != nil {
			if n.life.ctx.Err() == nil {
				n.cfg.Logger.Warn("the spans of a trace could not be sent to the scheduler", "trace", r.Window, "err", err)
			}
			return
		}
	}
}

// sendChunk sends one chunk, a few times if it must. The scheduler counts a chunk that comes again
// once.
func (n *Node) sendChunk(ctx context.Context, m *wire.TraceChunk) (err error) {
	pause := firstPause
	for range traceTries {
		attempt, cancel := context.WithTimeout(ctx, chunkTimeout)
		_, err = n.sched.Call(attempt, m, &wire.Ack{}, nil)
		cancel()
		var refusal *transport.Refusal
		if err == nil || errors.As(err, &refusal) || errors.Is(err, transport.ErrClosed) || ctx.Err() != nil {
			return err
		}
		n.pause(&pause)
	}
	return err
}
