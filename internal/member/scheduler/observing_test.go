package scheduler

import (
	"fmt"
	"strings"
	"testing"

	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// A trace ends when its nodes have sent their spans or are gone, and is dropped when nobody asks
// for it any more.
func TestATraceEndsWithItsNodes(t *testing.T) {
	out, r := running(2, 1)
	x := tracer{set: settingsOf(2, 1)}
	at := jobView{now: out.now, job: out.job, roster: r}
	begun := x.begin(control.Request{Op: control.OpTrace, Steps: 1}, at).(*control.Trace)
	if begun.Error != "" || begun.Workers != 2 || begun.Servers != 1 {
		t.Fatalf("begun: %+v", begun)
	}
	if again := x.begin(control.Request{Op: control.OpTrace, Steps: 1}, at).(*control.Trace); !again.Again || !strings.Contains(again.Error, "is being taken") {
		t.Errorf("a second one: %+v", again)
	}
	for id := uint64(1); id <= 2; id++ {
		if x.window(r.node(id)).ID != begun.Trace {
			t.Errorf("node %d is not told of the trace", id)
		}
	}
	x.chunk(out, 1, &wire.TraceChunk{ID: begun.Trace, Node: 1, Data: []byte("x")}, r)
	x.chunk(out, 2, &wire.TraceChunk{ID: begun.Trace, Node: 1, Data: []byte("x")}, r)
	x.chunk(out, 3, &wire.TraceChunk{ID: begun.Trace, Node: 1, Seq: 2}, r)
	out.says(t, "a chunk, once more, and one too far", fmt.Sprintf("#1 ack\n#2 ack\n#3 malformed: trace %d: got chunk 2, want 1\n", begun.Trace), "")
	r.setLife(r.node(2), lost)
	x.pass(out.now, r)
	x.chunk(out, 4, &wire.TraceChunk{ID: begun.Trace, Node: 3, Last: true}, r)
	out.take()
	p := x.parts(out.now, control.Request{Trace: begun.Trace}).(*control.TraceParts)
	if p.State != control.TraceDone || len(p.Chunks) != 1 || x.window(r.node(1)).ID != 0 {
		t.Errorf("got %d chunks in state %s, and the window %+v", len(p.Chunks), p.State, x.window(r.node(1)))
	}
	x.pass(x.next(true), r)
	if x.trace != nil || !x.next(true).IsZero() {
		t.Error("a trace that nobody asks for is kept")
	}
}

// A client that fetches a trace of a job that has ended is waited for, and no longer than it asks.
func TestATraceIsAwaitedAfterTheJob(t *testing.T) {
	out, r := running(1, 0)
	x := tracer{set: settingsOf(1, 0)}
	x.begin(control.Request{Op: control.OpTrace, Steps: 1}, jobView{now: out.now, job: out.job, roster: r})
	x.pass(out.now, r)
	if next := x.next(false); !x.awaited(out.now) || !next.Equal(out.now.Add(traceAwaited)) {
		t.Errorf("awaited %v, next %v", x.awaited(out.now), next)
	}
	later := out.now.Add(traceAwaited)
	x.pass(later, r)
	if next := x.next(false); x.awaited(later) || !next.After(later) {
		t.Errorf("after its time: awaited %v, next %v, want a later deadline or none", x.awaited(later), next)
	}
}

// A wish is handed on when it is another one, not too often, and the last one is remembered by a
// scheduler that is started again.
func TestAWishIsToldOnce(t *testing.T) {
	out, r := running(1, 0)
	set := settingsOf(1, 0)
	set.Elastic.AdaptWorkers = true
	a := adaptations{set: set}
	hear := func(text string) { a.heard(out, r.node(1), text) }
	hear(`{"local_batch":32,"wished_workers":3}`)
	hear(`{"local_batch":32,"wished_workers":3}`)
	out.says(t, "a wish, twice", "rank 0 asks for 3 workers\n", "event/000000000001")
	hear(`{"local_batch":32,"wished_workers":4}`)
	out.says(t, "another one, at once", "", "")
	out.now = out.now.Add(wishEvery)
	hear("")
	out.says(t, "later", "rank 0 asks for 4 workers\n", "event/000000000002")
	hear("no JSON")
	hear("no JSON either")
	if said, _ := out.take(); strings.Count(said, "cannot be decoded") != 1 || a.newest.WishedWorkers != 4 {
		t.Errorf("said %q of texts that cannot be read, the newest is %+v", said, a.newest)
	}
	again := adaptations{set: set}
	restored(t, &a, again.restore)
	if again.wished != 4 {
		t.Errorf("restored: %d wished", again.wished)
	}
}

// A wish that was not carried out yet is told again by a scheduler that is started again.
func TestAWishThatIsPendingIsToldAgain(t *testing.T) {
	out, r := running(1, 0)
	set := settingsOf(1, 0)
	set.Elastic.AdaptWorkers = true
	a, again := adaptations{set: set}, adaptations{set: set}
	const text = `{"local_batch":32,"wished_workers":3}`
	a.heard(out, r.node(1), text)
	a.wait(true)
	restored(t, &a, again.restore)
	if w := again.heard(out, r.node(1), text); w.workers != 3 {
		t.Errorf("pending: the wish of the restored one is %+v, want 3 workers", w)
	}
	a.wait(false)
	again = adaptations{set: set}
	restored(t, &a, again.restore)
	if w := again.heard(out, r.node(1), text); w.workers != 0 {
		t.Errorf("carried out: the wish of the restored one is %+v, want none", w)
	}
}

// The membership's changes are counted by cause, each once, and those who were there are no change.
func TestChangesAreCountedByCause(t *testing.T) {
	out, r := running(3, 0)
	m := newMeters(settingsOf(3, 0), out.now)
	m.begin(r)
	joined := r.add(&wire.Register{Role: wire.RoleWorker, Rank: 3, Host: "w3"})
	for n, s := range map[*node]life{r.node(1): left, r.node(2): lost, r.node(3): removed, joined: living} {
		r.setLife(n, s)
		m.account(out, n)
		m.account(out, n)
	}
	for _, cause := range []string{control.ChangeJoined, control.ChangeLeft, control.ChangeLost, control.ChangeRemoved} {
		if m.causes[cause] != 1 {
			t.Errorf("%s: %d, want 1", cause, m.causes[cause])
		}
	}
	if r.node(1).gone.IsZero() || !r.node(3).gone.IsZero() || len(m.members) != 1 {
		t.Errorf("gone: %v and %v, %d members", r.node(1).gone, r.node(3).gone, len(m.members))
	}
	if isNew, ok := m.measured(out, joined, []byte{9}); isNew || ok {
		t.Error("a record that cannot be read is taken")
	}
	m.measured(out, joined, []byte{9})
	if said, _ := out.take(); strings.Count(said, "warning") != 1 {
		t.Errorf("said %q", said)
	}
}
