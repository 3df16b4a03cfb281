package scheduler

import (
	"testing"
	"time"

	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// Of several nodes the one that alone is silent is lost when its lease has run out.
func TestANodeThatAloneIsSilentIsLost(t *testing.T) {
	out, r := running(3, 1)
	l := leases{set: settingsOf(3, 1)}
	out.now = l.next(r)
	for _, id := range []uint64{1, 2, 4} {
		l.renew(out, r.node(id), r)
	}
	cause, isLost := l.expired(out, r.node(3), r)
	if !isLost || cause.Kind != control.CauseSilence || cause.SilenceNS != int64(10*time.Second) {
		t.Errorf("lost %v: %v", isLost, cause)
	}
}

// While nobody is heard, the scheduler may be the one that is cut off: it waits, but not for ever.
func TestNobodyIsLostWhileAllAreSilent(t *testing.T) {
	out, r := running(2, 0)
	l := leases{set: settingsOf(2, 0)}
	out.now = l.next(r)
	if _, isLost := l.expired(out, r.node(1), r); isLost {
		t.Error("lost although all are silent")
	}
	out.says(t, "its lease has run out", "warning: worker 0 on w0 (last step 0, heard from 10 s ago): no node has been heard from since, this scheduler may be cut off: waiting for up to 20 s\n", "")
	if list := l.inGrace(r, 10); len(list) != 1 || list[0] != r.node(1) {
		t.Errorf("in grace: %v", list)
	}
	out.now = r.node(1).lease.deadline
	if _, isLost := l.expired(out, r.node(1), r); !isLost {
		t.Error("still waited for after its grace")
	}
}

// A node that is back after all were silent gives the others a moment to come back, too.
func TestWhoIsBackGivesTheOthersAMoment(t *testing.T) {
	out, r := running(2, 0)
	l := leases{set: settingsOf(2, 0)}
	out.now = l.next(r)
	l.expired(out, r.node(1), r)
	l.expired(out, r.node(2), r)
	out.take()
	out.now = out.now.Add(3 * time.Second)
	l.renew(out, r.node(1), r)
	out.says(t, "back", "warning: worker 0 on w0 is back after 13 s of silence\n", "")
	if got := r.node(2).lease.deadline.Sub(out.now); got != 10*time.Second {
		t.Errorf("the other one has %v, want a lease", got)
	}
}

// A node whose connection broke has the time for a new one, and no more.
func TestACutShortensALease(t *testing.T) {
	out, r := running(1, 0)
	l := leases{set: settingsOf(1, 0)}
	l.cut(r.node(1), out.now)
	if got := r.node(1).lease.deadline.Sub(out.now); got != 1500*time.Millisecond {
		t.Errorf("a cut node has %v, want 1.5 s", got)
	}
	l.prolong(r, out.now.Add(time.Second), time.Second)
	if got := r.node(1).lease.deadline.Sub(out.now); got != 2500*time.Millisecond {
		t.Errorf("after a stall of a second it has %v, want 2.5 s", got)
	}
	l.renewAll(r, out.now)
	if x := r.node(1).lease; !x.cut.IsZero() || x.deadline.Sub(out.now) != 10*time.Second {
		t.Errorf("after a pause its lease is %+v", x)
	}
}

// A worker that the least number needs is waited for, until another one is ready in its place.
func TestTheLeastNumberIsWaitedFor(t *testing.T) {
	out, r := running(3, 0)
	set := settingsOf(3, 0)
	set.Elastic.OnWorkerLoss, set.Elastic.MinWorkers = "shrink", 3
	l := leases{set: set}
	out.now = l.next(r)
	l.renew(out, r.node(2), r)
	l.renew(out, r.node(3), r)
	if _, isLost := l.expired(out, r.node(1), r); isLost || r.node(1).lease.grace != graceMinimum {
		t.Fatalf("lost %v with grace %d, want it waited for", isLost, r.node(1).lease.grace)
	}
	ready := r.add(&wire.Register{Role: wire.RoleWorker, Rank: -1, Host: "w9"})
	l.begin(ready, out.now)
	ready.Rank, ready.State = -1, wire.MemberReady
	l.endMinimum(out, r)
	if got := r.node(1).lease.deadline; !got.Equal(out.now) {
		t.Errorf("it is waited for until %v, want now, %v", got, out.now)
	}
}
