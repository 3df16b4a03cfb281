package shardserver

import (
	"sync"
	"time"

	"github.com/paragon-train/paragon/internal/observe/trace"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// profiles has the profile of a server. There is one at a time, so that workers cannot make a
// server hold more than its spans.
type profiles struct {
	// mu guards the rest.
	mu sync.Mutex
	// current is nil if there is none.
	current *profile
	// ended is the last one: a late repetition of its run does not begin it again.
	ended profileID
}

// A profileID names a profile.
type profileID struct{ node, id uint64 }

// A profile is what a server records because a worker asked.
type profile struct {
	profileID
	r *trace.Recorder
	// capture is nil once the profile no longer records.
	capture *trace.Capture
	// limit ends the recording of a worker that does not, and then sets overdue.
	limit   *time.Timer
	overdue bool

	// recorded is what was recorded, once capture is nil. It does not change.
	recorded trace.Recording
}

// stop ends the recording.
func (p *profile) stop() {
	if p.capture == nil {
		return
	}
	p.limit.Stop()
	p.recorded, p.capture = p.capture.Take(), nil
}

// end drops the current profile. The caller holds mu.
func (x *profiles) end() {
	if p := x.current; p != nil {
		p.limit.Stop()
		if p.capture != nil {
			p.capture.Close()
		}
		x.ended, x.current = p.profileID, nil
	}
}

// endAll drops the current profile at the end of the job.
func (x *profiles) endAll() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.end()
}

// keepOf drops the profile of a worker that is no longer a member.
func (x *profiles) keepOf(v *membership) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if p := x.current; p != nil && v.workers[p.node] == nil {
		x.end()
	}
}

// run begins a profile. The caller holds mu, and has read v under it.
func (x *profiles) run(v *membership, r *trace.Recorder, id profileID, room int) error {
	// The worker may have left since it was admitted; keepOf comes before or after this call.
	if v.workers[id.node] == nil {
		return refuse(wire.CodeUnknownNode, "profile: node %d is no longer a worker", id.node)
	}
	if id.node == x.ended.node && id.id <= x.ended.id {
		return refuse(wire.CodeConflict, "profile %d of %s has ended already", id.id, v.describe(id.node))
	}
	if p := x.current; p != nil {
		switch {
		case p.profileID == id:
			return nil
		case p.node == id.node && p.id > id.id:
			return refuse(wire.CodeConflict, "profile %d of %s: a newer one, %d, has taken its place", id.id, v.describe(id.node), p.id)
		case p.node != id.node && p.capture != nil:
			return refuse(wire.CodeConflict, "%s profiles this server already, want one worker at a time, such as rank 0", v.describe(p.node))
		}
		x.end()
	}
	p := &profile{profileID: id, r: r, capture: r.Open(trace.Config{Spans: room})}
	p.limit = time.AfterFunc(wire.MaxProfileSeconds*time.Second, func() {
		x.mu.Lock()
		defer x.mu.Unlock()
		if p.capture != nil && x.current == p {
			p.overdue = true
			p.stop()
		}
	})
	x.current = p
	return nil
}

// find returns a profile. The caller holds mu.
func (x *profiles) find(v *membership, id profileID) (*profile, error) {
	if x.current == nil || x.current.profileID != id {
		return nil, refuse(wire.CodeNoTrace, "no profile %d of %s here: it has ended, or the server was started again since", id.id, v.describe(id.node))
	}
	return x.current, nil
}

// command does what a worker asks: it runs, stops or ends its profile.
func (x *profiles) command(v func() *membership, r *trace.Recorder, m *wire.Profile) error {
	id := profileID{m.Node, m.ID}
	if m.Command == wire.ProfileRun {
		if r == nil {
			return refuse(wire.CodeUnsupported, "profile: this server records no spans")
		}
		if m.Spans < 1 || m.Spans > wire.MaxProfileSpans {
			return refuse(wire.CodeSize, "profile: got room for %d spans, want 1 to %d", m.Spans, wire.MaxProfileSpans)
		}
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	switch m.Command {
	case wire.ProfileRun:
		return x.run(v(), r, id, int(m.Spans))
	case wire.ProfileStop:
		p, err := x.find(v(), id)
		if err != nil {
			return err
		}
		p.stop()
	case wire.ProfileEnd:
		if p := x.current; p != nil && p.profileID == id {
			x.end()
		} else if x.ended.node != id.node || x.ended.id < id.id {
			// Its run may come yet.
			x.ended = id
		}
	default:
		return refuse(wire.CodeMalformed, "profile: got the command %d, want %d (run), %d (stop) or %d (end)", m.Command, wire.ProfileRun, wire.ProfileStop, wire.ProfileEnd)
	}
	return nil
}

// spansInPart bounds the spans that are looked at for one part: more do not fit its bytes.
const spansInPart = wire.MaxTraceChunk / 9

// read returns some of the spans of a profile that was stopped.
func (x *profiles) read(v *membership, m *wire.ReadProfile) (part wire.ProfilePart, err error) {
	x.mu.Lock()
	p, err := x.find(v, profileID{m.Node, m.ID})
	running := err == nil && p.capture != nil
	x.mu.Unlock()
	switch {
	case err != nil:
		return part, err
	case running:
		return part, refuse(wire.CodeConflict, "read profile %d: it still runs, want it stopped first", m.ID)
	case m.From > uint64(len(p.recorded.Spans)):
		return part, refuse(wire.CodeSize, "read profile %d: got span %d, want at most %d", m.ID, m.From, len(p.recorded.Spans))
	}
	offset, bound, _ := p.r.Clock().Offset()
	total := uint64(len(p.recorded.Spans))
	part = wire.ProfilePart{Generation: v.generation, Next: m.From, Total: total, Dropped: p.recorded.Dropped,
		ClockOffset: int64(offset), ClockBound: int64(bound), Overdue: p.overdue}
	if spans := p.recorded.Spans[m.From:min(total, m.From+spansInPart)]; len(spans) > 0 {
		data, rest := trace.EncodeChunk(spans, p.recorded.Names, wire.MaxTraceChunk)
		part.Data = data
		part.Next += uint64(len(spans) - len(rest))
	}
	return part, nil
}
