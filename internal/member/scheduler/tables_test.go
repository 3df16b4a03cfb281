package scheduler

import (
	"fmt"
	"testing"
	"time"

	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// Events are numbered, kept within a bound, and answer who waits for them.
func TestEventsAnswerThoseWhoWaitForThem(t *testing.T) {
	out, _ := running(1, 0)
	l := out.events
	out.event(control.Event{Action: control.AddQueued, Host: "a"})
	out.says(t, "an event", "host a: ADD_QUEUED\n", "event/000000000001")
	l.read(out, 1, control.Request{After: 1, WaitMillis: 1000})
	l.read(out, 2, control.Request{After: 1, WaitMillis: 2000})
	l.forget(2)
	out.says(t, "two wait, one is gone", "", "")
	out.event(control.Event{Action: control.HostFailed, Host: "a", Reason: "x"})
	out.says(t, "the next event", "host a: FAILED: x\n#1 "+fmt.Sprintf(`{"phase":"running","last":2,"events":[{"number":2,"time_ns":%d,"action":"FAILED","host":"a","reason":"x"}]}`, out.now.UnixNano())+"\n", "event/000000000002")
	l.read(out, 3, control.Request{After: 2, WaitMillis: 1000})
	out.now = l.next(true)
	l.pass(out)
	out.says(t, "none comes", `#3 {"phase":"running","last":2,"events":[]}`+"\n", "")
	for range maxEvents {
		out.event(control.Event{Action: control.Ranks})
	}
	out.take()
	if len(l.list) != maxEvents || l.last != maxEvents+2 {
		t.Errorf("%d events up to %d are kept", len(l.list), l.last)
	}
}

// A host that is being added has its time until a worker comes, and the worker's time counts then.
func TestAHostFailsIfNobodyComesFromIt(t *testing.T) {
	out, r := running(1, 0)
	h := newHostTable(20 * time.Second)
	h.expect(out, "a")
	h.expect(out, "b")
	h.joins(out, "b")
	out.take()
	if next := h.next(true); !next.Equal(out.now.Add(20*time.Second)) || !h.next(false).IsZero() {
		t.Errorf("next is %v", next)
	}
	if late := h.late(out.now.Add(20 * time.Second)); len(late) != 1 || late[0] != "a" {
		t.Errorf("late: %v, want the one from which nobody came", late)
	}
	if n := h.awaited(func(name string) bool { return name == "b" }); n != 1 {
		t.Errorf("%d are awaited, want one", n)
	}
	h.entered(out, "b")
	out.says(t, "a worker of it counts", "", "host/b")
	h.lost(out, r.node(1), "worker 0 on w0 lost", r)
	out.says(t, "one of several is lost", "", "")
	if got := []string{h.cannotAdd("b"), h.cannotRemove("c"), h.cannotFail("b")}; got[0] != "host b is in the job already" || got[1] != "host c has no worker" || got[2] != "host b is ADDED: only a host that is being added can fail" {
		t.Errorf("got %q", got)
	}
}

// A host that is being removed is removed when its last worker is gone, whatever became of it.
func TestAHostIsRemovedWithItsLastWorker(t *testing.T) {
	out, r := running(2, 0)
	h := newHostTable(time.Second)
	r.node(2).Host = "w0"
	h.tell(out, "w0", control.RemovalQueued, "")
	r.setLife(r.node(1), removed)
	h.left(out, r.node(1), r)
	out.says(t, "one of two has left", "host w0: REMOVAL_QUEUED\n", "host/w0 event/000000000001")
	r.setLife(r.node(2), lost)
	h.lost(out, r.node(2), "x", r)
	out.says(t, "the other one is lost", "host w0: REMOVED\n", "host/w0 event/000000000002")
}

// A number of workers is under way, reached when so many count, and too few again when one is lost.
func TestAScaleIsReachedAndLost(t *testing.T) {
	out, r := running(2, 0)
	s := scaler{set: settingsOf(2, 0), newest: scaling{Number: 1, Workers: 3}}
	n := r.add(&wire.Register{Role: wire.RoleWorker, Rank: 2, Host: "w2"})
	if s.state(3) != control.ScaleUnderWay || !s.underWay() {
		t.Errorf("state %s before the worker counts", s.state(3))
	}
	s.check(out, r.workers())
	out.says(t, "reached", "scale 1: SCALED\n", "event/000000000001")
	r.setLife(n, lost)
	s.lost("worker 2 lost")
	if x := s.status(2); x.State != control.ScaleTooFew || x.Reason != "worker 2 lost" {
		t.Errorf("after a loss the status is %+v", x)
	}
	again := scaler{set: s.set}
	restored(t, &s, again.restore)
	if again.newest.Number != 1 || !again.newest.Reached || again.newest.Lost == "" {
		t.Errorf("restored: %+v", again.newest)
	}
}

// A server gets the rank of one that was removed, and none that one is coming for.
func TestAServerGetsTheRankOfARemovedOne(t *testing.T) {
	out, r := running(1, 3)
	set := settingsOf(1, 3)
	set.Elastic.Backups = 1
	s, p := newServerTable(set), newShardPlacement(set)
	if rank := s.free(r, &p); rank != 3 {
		t.Errorf("beside three servers one more gets rank %d", rank)
	}
	r.setLife(r.server(1), removed)
	if _, err := p.lose(1); err != nil {
		t.Fatal(err)
	}
	if rank := s.free(r, &p); rank != 1 {
		t.Errorf("in place of a removed server one gets rank %d", rank)
	}
	s.expect(out, 1, "h")
	out.says(t, "asked for", "server 1 on h: SERVER_QUEUED\n", "event/000000000001")
	if rank := s.free(r, &p); rank != 3 {
		t.Errorf("the next one gets rank %d", rank)
	}
	if late := s.late(s.next(true)); len(late) != 1 || late[0] != 1 {
		t.Errorf("ranks %d are late, want 1", late)
	}
}

// Shards have their backups on other servers, move to a server that enters, and are gone only with
// their last copy.
func TestAPlacementLosesNoShardThatHasACopy(t *testing.T) {
	out, r := running(1, 2)
	set := settingsOf(1, 2)
	set.Elastic.Backups = 1
	p := newShardPlacement(set)
	p.declare(out, 1, r.node(1), &wire.Declare{Name: "k", Form: wire.FormDense, Rule: wire.RuleOptimizer, Size: 10}, 2)
	out.says(t, "declared", "#1 key 0\n   server 0: 10 values at 0\n", "placement/key/00000000")
	if why := p.plan.depends(0); why != "" {
		t.Errorf("a shard without a value depends on server 0: %s", why)
	}
	p.filled(out, 2, r.server(0), &wire.Filled{OK: true, Shards: []wire.FilledShard{{Backup: r.server(1).Node}}}, r)
	out.says(t, "filled", "#2 ack\n", "")
	if keys, err := p.lose(0); keys != 1 || err != nil || p.number != 2 || !p.isVacant(0) {
		t.Errorf("%d keys moved, placement %d: %v", keys, p.number, err)
	}
	if got := p.plan.list[0].plan.Shards[0].Server; got != 1 {
		t.Errorf("the shard is at server %d", got)
	}
	if want := "server 1 is the only one"; p.bare(out.job)[:len(want)] != want {
		t.Errorf("bare: %q", p.bare(out.job))
	}
	if rank, ok := p.vacant(-1); !ok || rank != 0 || p.enter(rank) != 1 {
		t.Errorf("rank %d is vacant: %v", rank, ok)
	}
	if _, err := p.lose(1); err == nil {
		t.Error("the only complete copy is lost without an error")
	}
}

// Nodes get ranks as they want them, then by their hosts, then by the order of their IDs.
func TestRanksAreGivenByWishThenHostThenOrder(t *testing.T) {
	set := settingsOf(4, 0)
	set.Hosts = Hosts{{wire.RoleWorker, 0}: "d0", {wire.RoleWorker, 1}: "d1"}
	r := &roster{}
	for _, x := range []struct {
		rank int32
		host string
	}{{-1, "d9"}, {-1, "d1"}, {0, "d8"}} {
		r.add(&wire.Register{Role: wire.RoleWorker, Rank: x.rank, Host: x.host})
	}
	if names := r.missing(set, 2*time.Second); len(names) != 1 || names[0] != "worker 3 (2 s)" {
		t.Errorf("missing: %v", names)
	}
	for id, want := range []int32{2, 1, 0} {
		if got := r.node(uint64(id) + 1).Rank; got != want {
			t.Errorf("node %d has rank %d, want %d", id+1, got, want)
		}
	}
}

// The job is stopped in one way, and a later notice that it stops changes nothing.
func TestAStopWithACheckpointStays(t *testing.T) {
	out, r := running(1, 1)
	j := out.job
	j.stopAll(out)
	if !j.stopWithCheckpoint(out, "x") || j.stopWithCheckpoint(out, "y") {
		t.Error("it is news once")
	}
	j.stopAll(out)
	out.says(t, "stopped", "the whole job is being stopped\nthe job stops with a checkpoint: x\n", "")
	j.workerStopped(out, 1, r.node(1), &wire.Stopped{Reason: "no folder"})
	j.workerStopped(out, 2, r.node(1), &wire.Stopped{Steps: 7})
	j.workerStopped(out, 3, r.node(1), &wire.Stopped{Reason: "late"})
	j.workerStopped(out, 4, r.node(2), &wire.Stopped{})
	out.says(t, "three workers tell, and a server", "#1 ack\n#2 ack\n#3 ack\n#4 unsupported: stopped: server 0 on s0 is not a worker\n", "")
	again := newJobState(j.set, out.now)
	restored(t, j, again.restore)
	if again.stop != stoppingWithCheckpoint || again.stopped.Steps != 7 || again.stopsFor != "x" {
		t.Errorf("restored: %+v", again)
	}
}
