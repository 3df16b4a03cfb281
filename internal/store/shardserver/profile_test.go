package shardserver

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paragon-train/paragon/internal/observe/telemetry"
	"github.com/paragon-train/paragon/internal/observe/trace"
	"github.com/paragon-train/paragon/internal/store/wire"
)

func newTracedRig(t *testing.T, workers int) (*rig, *trace.Recorder) {
	spans := trace.NewRecorder(telemetry.NewClock())
	r := newRigConfig(t, workers, Config{Trace: spans})
	return r, spans
}

func profileOf(rank int, id uint64, command uint8) *wire.Profile {
	return &wire.Profile{Origin: origin(rank, 0, 0), ID: id, Command: command, Spans: 100_000}
}

// readProfile reads all spans of a profile.
func (r *rig) readProfile(rank int, id uint64) (n trace.Node, parts int, last *wire.ProfilePart) {
	r.t.Helper()
	for from := uint64(0); ; {
		answer, _ := r.must(&wire.ReadProfile{Origin: origin(rank, 0, 0), ID: id, From: from}, nil)
		last = answer.(*wire.ProfilePart)
		parts++
		if len(last.Data) > 0 {
			if err := n.AddChunk(last.Data); err != nil {
				r.t.Fatal(err)
			}
		}
		if last.Next == last.Total {
			return n, parts, last
		}
		if last.Next <= from || parts > 1000 {
			r.t.Fatalf("the part from %d has the next one at %d of %d", from, last.Next, last.Total)
		}
		from = last.Next
	}
}

func TestAProfileHasTheSpansFromRunToStop(t *testing.T) {
	r, spans := newTracedRig(t, 1)
	r.init(0, 1, 1)
	add := func(n int) {
		for i := range n {
			spans.Add(trace.Span{Kind: trace.Round, Begin: spans.Now(), End: spans.Now(), Round: uint64(i), Key: spans.Name("w"), Bytes: 1 << 50, Peer: 1 << 50, Step: 1 << 50})
		}
	}
	add(10)
	r.must(profileOf(0, 1, wire.ProfileRun), nil)
	add(20_000) // more than one part has
	r.must(profileOf(0, 1, wire.ProfileRun), nil)
	if text := r.refused(&wire.ReadProfile{Origin: origin(0, 0, 0), ID: 1}, nil, wire.CodeConflict); !strings.Contains(text, "still runs") {
		t.Errorf("a profile that runs is read: %s", text)
	}
	r.must(push(0, 0, 0, 1, 1))
	r.must(profileOf(0, 1, wire.ProfileStop), nil)
	r.must(profileOf(0, 1, wire.ProfileStop), nil)
	if spans.On() {
		t.Error("a stopped profile records")
	}
	add(10)
	n, parts, last := r.readProfile(0, 1)
	kinds := map[trace.Kind]int{}
	for i, s := range n.Spans {
		if kinds[s.Kind]++; i < 20_000 && s.Round != uint64(i) {
			t.Fatalf("span %d is of round %d", i, s.Round)
		}
	}
	if kinds[trace.Round] != 20_001 || kinds[trace.Receive] != 1 || kinds[trace.Apply] != 1 || parts < 3 || last.Dropped != 0 || last.Overdue {
		t.Errorf("got %v in %d parts, %+v: want 20001 rounds, and a push received and applied, in several parts", kinds, parts, last)
	}
	if text := r.refused(&wire.ReadProfile{Origin: origin(0, 0, 0), ID: 1, From: last.Total + 1}, nil, wire.CodeSize); !strings.Contains(text, "want at most 20003") {
		t.Errorf("beyond its end: %s", text)
	}
	r.must(profileOf(0, 1, wire.ProfileEnd), nil)
	r.refused(&wire.ReadProfile{Origin: origin(0, 0, 0), ID: 1}, nil, wire.CodeNoTrace)
	r.refused(profileOf(0, 1, wire.ProfileStop), nil, wire.CodeNoTrace)
	if text := r.refused(profileOf(0, 1, wire.ProfileRun), nil, wire.CodeConflict); !strings.Contains(text, "has ended already") {
		t.Errorf("run again: %s", text)
	}
	r.must(profileOf(0, 3, wire.ProfileEnd), nil) // comes before its run
	r.refused(profileOf(0, 3, wire.ProfileRun), nil, wire.CodeConflict)
	if spans.On() {
		t.Error("a profile that has ended records")
	}
}

func TestAServerHasOneProfile(t *testing.T) {
	r, spans := newTracedRig(t, 2)
	for _, m := range []*wire.Profile{{Spans: 0}, {Spans: wire.MaxProfileSpans + 1}} {
		m.Origin, m.ID, m.Command = origin(0, 0, 0), 1, wire.ProfileRun
		if text := r.refused(m, nil, wire.CodeSize); !strings.Contains(text, "want 1 to 262144") {
			t.Error(text)
		}
	}
	if text := r.refused(profileOf(0, 1, 4), nil, wire.CodeMalformed); !strings.Contains(text, "got the command 4, want 1 (run), 2 (stop) or 3 (end)") {
		t.Error(text)
	}
	r.must(profileOf(0, 1, wire.ProfileRun), nil)
	if text := r.refused(profileOf(1, 1, wire.ProfileRun), nil, wire.CodeConflict); !strings.Contains(text, "worker 0 on a (node 10, pid 100) profiles this server already") {
		t.Error(text)
	}
	r.refused(profileOf(1, 1, wire.ProfileStop), nil, wire.CodeNoTrace)
	r.must(profileOf(1, 1, wire.ProfileEnd), nil) // of its own alone
	r.must(profileOf(0, 1, wire.ProfileStop), nil)
	r.must(profileOf(0, 2, wire.ProfileRun), nil)
	r.refused(profileOf(0, 1, wire.ProfileRun), nil, wire.CodeConflict)
	r.members(2, 2)
	if !spans.On() {
		t.Error("a change of the membership ended the profile of a worker that stayed")
	}
	r.members(3, 0)
	if spans.On() || r.s.profiles.current != nil {
		t.Error("the profile of a worker that is gone goes on")
	}
	r.members(4, 1)
	m := profileOf(0, 3, wire.ProfileRun)
	m.Generation = 4
	r.must(m, nil)
	r.s.Fail("the job has ended")
	if spans.On() {
		t.Error("the profile goes on after the job")
	}
	plain := newRig(t, 1)
	plain.refused(profileOf(0, 1, wire.ProfileRun), nil, wire.CodeUnsupported)
}

// A worker that never stops its profile does not keep a server recording, nor others from theirs.
func TestAProfileEndsByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, spans := newTracedRig(t, 2)
		r.must(profileOf(0, 1, wire.ProfileRun), nil)
		spans.Add(trace.Span{Kind: trace.Round, Begin: spans.Now(), End: spans.Now()})
		time.Sleep(wire.MaxProfileSeconds*time.Second - time.Millisecond)
		if !spans.On() {
			t.Fatal("it ended too early")
		}
		time.Sleep(2 * time.Millisecond)
		synctest.Wait()
		if spans.On() {
			t.Fatal("it records after an hour")
		}
		r.must(profileOf(0, 1, wire.ProfileStop), nil)
		if n, _, last := r.readProfile(0, 1); len(n.Spans) != 1 || !last.Overdue {
			t.Errorf("got %d spans, %+v, want one, overdue", len(n.Spans), last)
		}
		r.must(profileOf(1, 1, wire.ProfileRun), nil)
		r.refused(profileOf(0, 1, wire.ProfileStop), nil, wire.CodeNoTrace)
		r.must(profileOf(1, 1, wire.ProfileEnd), nil)
	})
}
