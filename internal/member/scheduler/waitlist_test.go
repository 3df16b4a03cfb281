package scheduler

import (
	"fmt"
	"testing"
	"time"

	"github.com/paragon-train/paragon/internal/store/wire"
)

// A barrier opens for all when the last one that counts has come, and stays open.
func TestABarrierOpensWithTheLastWorker(t *testing.T) {
	out, r := running(3, 0)
	b := newBarriers()
	call := func(id uint64) {
		b.call(out, id, r.node(id), &wire.Barrier{Node: id, Name: "a", WaitMillis: 1000}, r.workers())
	}
	call(1)
	call(2)
	out.says(t, "two of three", "", "")
	call(3)
	out.says(t, "all three", "#1 ack\n#2 ack\n#3 ack\n", "barrier/000000000000")
	call(1)
	out.says(t, "once more", "#1 ack\n", "")
	if !b.waits.next(true).IsZero() || len(b.at) > 0 {
		t.Errorf("an open barrier keeps %d waits and %d names", len(b.waits), len(b.at))
	}
}

// Those who wait at a barrier do not wait for a worker that is lost, and one whose connection is
// gone is still there.
func TestABarrierWaitsForThoseThatCount(t *testing.T) {
	out, r := running(3, 0)
	b := newBarriers()
	for _, id := range []uint64{1, 2} {
		b.call(out, id, r.node(id), &wire.Barrier{Node: id, Name: "a", WaitMillis: 1000}, r.workers())
	}
	b.waits.forget(1)
	r.setLife(r.node(3), lost)
	b.check(out, r.workers())
	out.says(t, "without the lost one", "#2 ack\n", "barrier/000000000000")
}

func TestABarrierNamesThoseThatAreLate(t *testing.T) {
	out, r := running(2, 0)
	b := newBarriers()
	b.call(out, 7, r.node(1), &wire.Barrier{Node: 1, Name: "a", WaitMillis: 1000}, r.workers())
	if next := b.waits.next(true); !next.Equal(out.now.Add(time.Second)) {
		t.Errorf("next is %v", next)
	}
	out.now = out.now.Add(time.Second)
	b.pass(out, r.workers)
	out.says(t, "after its time", "#7 timed out: barrier \"a\": waited 1 s for worker 1 on w1 (last step 0, heard from 1 s ago)\n", "")
	b.call(out, 8, r.node(2), &wire.Barrier{Node: 2, Name: "a", WaitMillis: 1000}, r.workers())
	out.says(t, "the other one comes when it has given up", "", "")
}

// A signal is heard by who waits for it and by who comes later, and its first value stays.
func TestASignalIsHeardWheneverOneAsks(t *testing.T) {
	out, r := running(2, 0)
	s := newSignals()
	s.await(out, 1, &wire.Await{Node: 2, Name: "a", WaitMillis: 1000}, r.workers())
	out.says(t, "before it is sent", "", "")
	s.send(out, 2, &wire.Signal{Node: 1, Name: "a", Value: "x"})
	out.says(t, "sent", "#1 signalled \"x\"\n#2 ack\n", "signal/000000000000")
	s.send(out, 3, &wire.Signal{Node: 1, Name: "a", Value: "y"})
	s.await(out, 4, &wire.Await{Node: 2, Name: "a"}, r.workers())
	out.says(t, "sent again", "#3 ack\n#4 signalled \"x\"\n", "")
}

// Who waits for a worker that is lost is told at once, and the next sender is told to send.
func TestASignalOfALostSenderIsRefused(t *testing.T) {
	out, r := running(3, 0)
	s := newSignals()
	s.await(out, 1, &wire.Await{Node: 2, Name: "a", WaitMillis: 1000}, r.workers())
	r.setLife(r.node(1), lost)
	s.senderLost(out, r.node(1), "worker 0 on w0 lost")
	out.says(t, "its sender is lost", "#1 unavailable: signal \"a\": its sender is gone: worker 0 on w0 lost\n", "")
	s.await(out, 2, &wire.Await{Node: 2, Name: "a", WaitMillis: 1000}, r.workers())
	out.says(t, "the next sender waits", "#2 unavailable: signal \"a\": its sender is gone; worker 1 on w1 waits for the signal, but must now send it itself\n", "")
	s.await(out, 3, &wire.Await{Node: 3, Name: "a", WaitMillis: 1000}, r.workers())
	out.now = out.now.Add(time.Second)
	s.pass(out)
	out.says(t, "nobody sends", "#3 timed out: signal \"a\": waited 1 s, nobody has sent it\n", "")
}

// The memory for names is bounded: the oldest are forgotten, also in the journal, and numbers go
// on.
func TestNamesThatHappenedAreBounded(t *testing.T) {
	out, _ := running(1, 0)
	l := nameLog{kind: "signal"}
	for i := range maxNames {
		l.add(out, fmt.Sprint(i), "v")
	}
	out.take()
	l.add(out, "one more", "v")
	out.says(t, "one more", "", fmt.Sprintf("signal/%012d signal/%012d", maxNames, 0))
	if _, ok := l.happened("0"); ok || len(l.values) != maxNames || l.bytes != maxNames {
		t.Errorf("%d names with %d bytes are kept, the first of them %v", len(l.values), l.bytes, ok)
	}
}

// A commit answers those that it concerns, and whoever is ready without a place waits on.
func TestACommitAnswersThoseItConcerns(t *testing.T) {
	out, r := running(3, 0)
	var c changeWaits
	for id := range uint64(3) {
		c.waits.add(newWait(out.now, id+1, id+1, "change 1", 1000))
	}
	r.setLife(r.node(2), removed)
	r.node(3).State = wire.MemberReady
	c.committed(out, r)
	out.says(t, "committed", "#1 ack\n#2 removed: worker 1 on w1 was removed from the job\n", "")
	out.now = out.now.Add(time.Second)
	c.pass(out, func(asker uint64) string { return fmt.Sprintf("a place for node %d", asker) })
	out.says(t, "its time is over", "#3 timed out: change 1: waited 1 s for a place for node 3\n", "")
}

// A watch is answered with what is newer, or when there is something newer, or when its time is
// over; its end is noticed unless the node has another one.
func TestAWatchIsAnsweredOnce(t *testing.T) {
	out, r := running(2, 0)
	w := newWatches()
	made := 0
	membership := func() *wire.Membership {
		made++
		return &wire.Membership{Phase: wire.PhaseRunning, Generation: 1, Revision: out.job.revision}
	}
	add := func(request, node, revision uint64) {
		w.add(out, request, r.node(node), &wire.Watch{Node: node, Revision: revision, WaitMillis: 1000}, membership)
	}
	add(1, 1, 0)
	out.says(t, "of an older revision", "#1 running, generation 1, revision 1\n", "")
	add(2, 1, 1)
	add(3, 2, 1)
	add(4, 2, 1)
	if n := w.cut(3); n != nil {
		t.Errorf("the end of one of two watches cuts %v", n)
	}
	if n := w.cut(4); n != r.node(2) {
		t.Errorf("the end of the last watch cuts %v", n)
	}
	out.job.revise()
	made = 0
	w.wake(out, membership)
	out.says(t, "changed", "#2 running, generation 1, revision 2\n", "")
	w.wake(out, membership)
	if made != 1 {
		t.Errorf("made %d memberships, want one for all watches, and none without", made)
	}
	add(5, 1, 2)
	out.now = w.next(true)
	w.pass(out, membership)
	out.says(t, "after its time", "#5 running, generation 1, revision 2\n", "")
}

// A node is known to have heard of the job's end when it was told.
func TestWatchesKnowWhoWasToldOfTheEnd(t *testing.T) {
	out, r := running(2, 0)
	w := newWatches()
	membership := func() *wire.Membership { return &wire.Membership{Phase: out.job.phase} }
	w.add(out, 1, r.node(1), &wire.Watch{Node: 1, Revision: out.job.revision, WaitMillis: 1000}, membership)
	out.job.finish(out, nil)
	w.wake(out, membership)
	if !w.told[1] || w.told[2] {
		t.Errorf("told: %v, want the first node alone", w.told)
	}
}
