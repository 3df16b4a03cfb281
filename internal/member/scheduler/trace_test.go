package scheduler

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// A tracedJob asks the scheduler of a measuredJob for traces. Servers are nodes 1 and 2, workers 3
// and 4.
type tracedJob struct {
	*measuredJob
	trace control.Trace
}

func newTracedJob(t *testing.T) *tracedJob { return &tracedJob{measuredJob: newMeasuredJob(t, 2, 2)} }

// control puts a request, and returns why it was refused.
func (j *tracedJob) control(q control.Request, answer control.Answer) string {
	j.t.Helper()
	_, err := control.Ask(context.Background(), func(_ context.Context, request []byte) ([]byte, error) {
		return []byte(j.ask(&wire.Control{Request: string(request)}).(*wire.Report).Answer), nil
	}, q, answer)
	if err != nil {
		return err.Error()
	}
	return ""
}

func (j *tracedJob) begin(q control.Request) {
	j.t.Helper()
	q.Op = control.OpTrace
	if why := j.control(q, &j.trace); why != "" {
		j.t.Fatal(why)
	}
}

// window is what a node's heartbeat is told.
func (j *tracedJob) window(node uint64) wire.TraceWindow {
	j.t.Helper()
	return j.ask(&wire.Heartbeat{Node: node}).(*wire.Beat).Window
}

// beats lets time pass, in which all nodes but some send heartbeats.
func (j *tracedJob) beats(d time.Duration, but ...uint64) {
	for end := j.now.Add(d); j.now.Before(end); {
		j.now = j.now.Add(time.Second / 2)
		for node := uint64(1); node <= 4; node++ {
			if len(but) == 0 || but[0] != node {
				j.ask(&wire.Heartbeat{Node: node})
			}
		}
	}
}

// send sends a chunk, and returns the refusal's code; 0: none.
func (j *tracedJob) send(node uint64, seq uint32, last bool, data string) wire.Code {
	j.t.Helper()
	switch a := j.ask(&wire.TraceChunk{ID: j.trace.Trace, Node: node, Seq: seq, Last: last, ClockOffset: int64(node), ClockBound: 10 * int64(node), Data: []byte(data)}).(type) {
	case *wire.Nack:
		return a.Code
	default:
		return 0
	}
}

func (j *tracedJob) parts(after uint64) (p control.TraceParts) {
	j.t.Helper()
	if why := j.control(control.Request{Op: control.OpTraceParts, Trace: j.trace.Trace, After: after}, &p); why != "" {
		j.t.Fatal(why)
	}
	return p
}

func (j *tracedJob) wantState(want string) (p control.TraceParts) {
	j.t.Helper()
	if p = j.parts(0); p.State != want {
		j.t.Fatalf("the trace is %s, want %s: %+v", p.State, want, p.Nodes)
	}
	return p
}

// Workers record and send, then servers are told that the window is over, and send; then the trace
// is done.
func TestTraceIsTakenOfWorkersThenOfServers(t *testing.T) {
	j := newTracedJob(t)
	if w := j.window(3); w != (wire.TraceWindow{}) {
		t.Errorf("before anybody asks: window %+v", w)
	}
	j.begin(control.Request{Steps: 20})
	if j.trace.Workers != 2 || j.trace.Servers != 2 || j.trace.LeftOut != 0 || j.trace.StartMillis != 2500 {
		t.Errorf("got %+v", j.trace)
	}
	for node := uint64(1); node <= 4; node++ {
		want := wire.TraceWindow{ID: j.trace.Trace, StartAt: j.now.Add(2500 * time.Millisecond).UnixNano(), Steps: 20, LimitMillis: control.MaxTraceMillis}
		if w := j.window(node); w != want {
			t.Errorf("node %d is told %+v, want %+v", node, w, want)
		}
	}
	if why := j.control(control.Request{Op: control.OpTrace, Steps: 1}, &control.Trace{}); !strings.Contains(why, "is being taken") || !strings.Contains(why, control.ErrLater.Error()) {
		t.Errorf("a second one: %q", why)
	}
	j.beats(5 * time.Second)
	// The second one is a repetition.
	if code := j.send(3, 0, false, "a") + j.send(3, 0, false, "a") + j.send(3, 1, true, "b"); code != 0 {
		t.Fatal(code)
	}
	if p := j.wantState(control.TraceRecording); len(p.Chunks) != 2 || string(p.Chunks[1].Data) != "b" || !p.Nodes[2].Done || p.Nodes[2].OffsetNS != 3 || p.Nodes[2].BoundNS != 30 {
		t.Errorf("got %+v", p)
	}
	if j.window(1).ID == 0 {
		t.Error("servers are told to end before worker 1 is done")
	}
	if code := j.send(4, 0, true, ""); code != 0 {
		t.Fatal(code)
	}
	if j.wantState(control.TraceCollecting); j.window(1).ID != 0 {
		t.Error("servers are not told that the window is over")
	}
	if code := j.send(1, 0, true, "c") + j.send(2, 0, true, "d"); code != 0 {
		t.Fatal(code)
	}
	j.wantState(control.TraceDone)
	if p := j.parts(3); len(p.Chunks) != 1 || p.Chunks[0].Number != 4 || p.Last != 4 || j.core.trace.trace.bytes != 1 {
		t.Errorf("behind chunk 3 there are %+v of %d, and %d bytes are kept, want the fourth alone", p.Chunks, p.Last, j.core.trace.trace.bytes)
	}
	if why := j.control(control.Request{Op: control.OpTraceEnd, Trace: j.trace.Trace}, &control.Done{}); why != "" || j.core.trace.trace != nil {
		t.Errorf("after its end it is kept: %q", why)
	}
	j.begin(control.Request{Steps: 1})
}

// Nothing that nodes do or do not do keeps a trace from its end.
func TestTraceEndsWithoutNodes(t *testing.T) {
	t.Run("a worker is lost", func(t *testing.T) {
		j := newTracedJob(t)
		j.begin(control.Request{Steps: 20})
		for range 15 {
			j.beats(time.Second, 4)
			j.parts(0)
		}
		j.send(3, 0, true, "a")
		if p := j.wantState(control.TraceCollecting); !strings.HasPrefix(p.Nodes[3].Missing, "it was declared lost") {
			t.Errorf("got %+v", p.Nodes[3])
		}
	})
	t.Run("nobody sends", func(t *testing.T) {
		j := newTracedJob(t)
		j.begin(control.Request{WindowMillis: 3000})
		for range 40 {
			j.beats(time.Second)
			j.parts(0)
		}
		for _, n := range j.wantState(control.TraceDone).Nodes {
			if !strings.Contains(n.Missing, "did not send") {
				t.Errorf("got %+v", n)
			}
		}
		if code := j.send(3, 0, true, "late"); code != wire.CodeNoTrace {
			t.Errorf("a late chunk: code %v, want %v", code, wire.CodeNoTrace)
		}
	})
	t.Run("the asker is gone", func(t *testing.T) {
		j := newTracedJob(t)
		j.begin(control.Request{WindowMillis: 100_000})
		j.beats(traceAsked + time.Second)
		if j.window(3).ID != 0 || j.core.trace.trace != nil {
			t.Error("it is still recorded")
		}
		if code := j.send(3, 0, true, "a"); code != wire.CodeNoTrace {
			t.Errorf("a chunk: code %v, want %v", code, wire.CodeNoTrace)
		}
		if why := j.control(control.Request{Op: control.OpTraceParts, Trace: j.trace.Trace}, &control.TraceParts{}); !strings.Contains(why, "is not known: the scheduler was started again, or nobody asked") {
			t.Errorf("got %q", why)
		}
	})
}

func TestTraceTakesNoMoreThanItCanKeep(t *testing.T) {
	j := newTracedJob(t)
	j.begin(control.Request{Steps: 20})
	data := strings.Repeat("x", wire.MaxTraceChunk)
	// They make several answers. The rest of the buffer is taken to be full.
	const chunks = 4 << 20 / wire.MaxTraceChunk
	for seq := range uint32(chunks) {
		if code := j.send(3, seq, false, data); code != 0 {
			t.Fatalf("chunk %d: %v", seq, code)
		}
	}
	j.core.trace.trace.bytes = mostTraceBytes
	if code := j.send(3, chunks, false, "x"); code != wire.CodeFull {
		t.Errorf("got code %v, want %v", code, wire.CodeFull)
	}
	if got := j.parts(0).Nodes[2].Missing; !strings.Contains(got, "was full (64 MB)") {
		t.Errorf("the node whose chunk did not fit misses spans since %q, want the buffer's size", got)
	}
	if code := j.send(4, 7, false, "x"); code != wire.CodeMalformed {
		t.Errorf("chunk 7 in place of 0: got code %v, want %v", code, wire.CodeMalformed)
	}
	// An answer has what fits.
	p := j.wantState(control.TraceCollecting)
	if len(p.Chunks) == 0 || p.Nodes[2].Missing == "" || p.Nodes[3].Missing == "" {
		t.Errorf("%d chunks, nodes %+v, want some, and two nodes of which spans are missing", len(p.Chunks), p.Nodes)
	}
	for after := uint64(0); after < p.Last; {
		parts := j.parts(after).Chunks
		if len(parts) == 0 {
			t.Fatalf("behind chunk %d of %d there is none", after, p.Last)
		}
		after = parts[len(parts)-1].Number
	}
}

// A clock that is known exactly is one; a bound below zero is none.
func TestBoundsOfClocksAreChecked(t *testing.T) {
	j := newTracedJob(t)
	j.begin(control.Request{Steps: 20})
	chunk := &wire.TraceChunk{ID: j.trace.Trace, Node: 3, Data: []byte("a")}
	if got, ok := j.ask(chunk).(*wire.Ack); !ok {
		t.Errorf("a bound of 0 ns: got %+v, want it taken", got)
	}
	chunk.Seq, chunk.ClockBound = 1, -1
	if got, ok := j.ask(chunk).(*wire.Nack); !ok || got.Code != wire.CodeMalformed {
		t.Errorf("a bound of -1 ns: got %+v, want it refused", got)
	}
}

func TestTraceOfSomeWorkers(t *testing.T) {
	j := &tracedJob{measuredJob: newMeasuredJob(t, 40, 1)}
	j.begin(control.Request{Steps: 20, Ranks: []int32{5, 5, 39}})
	if j.trace.Workers != 2 || j.trace.LeftOut != 38 || j.window(1+1+5).ID == 0 || j.window(1+1+6).ID != 0 {
		t.Errorf("got %+v", j.trace)
	}
	j.control(control.Request{Op: control.OpTraceEnd, Trace: j.trace.Trace}, &control.Done{})
	if why := j.control(control.Request{Op: control.OpTrace, Steps: 1, Ranks: []int32{40}}, &control.Trace{}); !strings.Contains(why, "there is no worker 40: the job has workers 0 to 39") {
		t.Errorf("got %q", why)
	}
	j.begin(control.Request{Steps: 20})
	if j.trace.Workers != control.MaxTraced || j.trace.LeftOut != 8 {
		t.Errorf("got %+v", j.trace)
	}
	forming := &tracedJob{measuredJob: &measuredJob{t: t, now: time.Unix(1000, 0), kept: journalRecords{}}}
	forming.core = NewCore(Settings{Job: "j", Workers: 1, Servers: 1, Heartbeat: time.Second, Lease: 10 * time.Second, StartTimeout: time.Minute}, forming.now)
	if why := forming.control(control.Request{Op: control.OpTrace, Steps: 1}, &control.Trace{}); !strings.Contains(why, "the job is forming") {
		t.Errorf("got %q", why)
	}
}

// A job that ends while a trace is fetched is settled when it was, or when nobody goes on to ask.
func TestJobThatEndsWaitsForItsTrace(t *testing.T) {
	for _, fetched := range []bool{true, false} {
		j := newTracedJob(t)
		j.begin(control.Request{Steps: 20})
		j.beats(5 * time.Second)
		j.parts(0)
		for node := uint64(3); node <= 4; node++ {
			j.send(node, 0, true, "a")
			j.ask(&wire.Leave{Node: node, OK: true})
		}
		for node := uint64(1); node <= 2; node++ {
			j.ask(&wire.Watch{Node: node})
			if j.core.Settled() {
				t.Fatal("the job is settled before servers have sent their spans")
			}
			j.send(node, 0, true, "b")
		}
		if fetched {
			if p := j.wantState(control.TraceDone); len(p.Chunks) != 4 || p.Nodes[2].Missing != "" {
				t.Errorf("got %+v", p)
			}
			j.control(control.Request{Op: control.OpTraceEnd, Trace: j.trace.Trace}, &control.Done{})
		} else {
			if want := j.now.Add(traceAwaited); !j.core.Next().Equal(want) {
				t.Errorf("the core wants to be woken at %v, want %v", j.core.Next(), want)
			}
			j.now = j.now.Add(traceAwaited)
			j.step(Event{At: j.now})
		}
		if !j.core.Settled() {
			t.Errorf("fetched %t: the job is not settled", fetched)
		}
	}
}
