package scheduler

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// begun is a changer of a running job.
func begun(workers, servers int) (*output, *roster, *changer) {
	out, r := running(workers, servers)
	c := newChanger(settingsOf(workers, servers))
	c.begins(r.workers())
	return out, r, &c
}

// A change waits for all that count, and for what the servers have counted of a lost worker, for
// which it asks once all have arrived.
func TestAChangeIsCompleteWhenAllHaveArrivedAndReported(t *testing.T) {
	out, r, c := begun(3, 1)
	loss := r.node(3).loss(control.Cause{Kind: control.CauseSilence})
	r.setLife(r.node(3), lost)
	c.workerLost(out, r.node(3), &loss, 0)
	for id := uint64(1); id <= 2; id++ {
		if c.ask(out, r) || c.complete(out, r) {
			t.Errorf("asked or complete before node %d has arrived", id)
		}
		if !c.arrive(out, id, r.node(id), &wire.Arrive{Change: 1, Steps: 5, Used: 10 * id}) {
			t.Errorf("node %d need not wait", id)
		}
	}
	if !c.ask(out, r) || c.complete(out, r) {
		t.Error("not asked, or complete without the server's report")
	}
	if got, want := c.obstacles(0, r, out.now), "server 0 on s0 to report the examples it counted of worker 2 on w2"; got != want {
		t.Errorf("it waits for %q, want %q", got, want)
	}
	c.takeReport(r.node(4), &wire.LostExamples{Lost: 3, Examples: 7}, 1, r)
	if c.complete(out, r) {
		t.Error("complete with a report of an older placement")
	}
	c.takeReport(r.node(4), &wire.LostExamples{Lost: 3, Examples: 7}, 0, r)
	if !c.complete(out, r) || !c.next(true).IsZero() {
		t.Errorf("not complete, or it has a deadline, %v", c.next(true))
	}
	used, failure := c.divide(out, r)
	if d := cmp.Diff(map[uint64]uint64{1: 10, 2: 20, 3: 7}, used); d != "" || failure != nil {
		t.Errorf("used (-want +got), failure %v:\n%s", failure, d)
	}
	made := c.commit(r.workers(), used)
	if d := cmp.Diff([]share{{1, 10}, {2, 20}}, c.parts.shares); d != "" || made.number != 1 || c.isPending() || len(c.reports) > 0 {
		t.Errorf("change %d made, pending %v, shares (-want +got):\n%s", made.number, c.isPending(), d)
	}
	if c.arrive(out, 9, r.node(1), &wire.Arrive{Change: 1}) {
		t.Error("an Arrive whose answer was lost waits for another commit")
	}
}

// A change that nobody completes fails the job with what it waited for.
func TestAChangeThatNobodyCompletesFails(t *testing.T) {
	out, r, c := begun(3, 0)
	loss := r.node(3).loss(control.Cause{Kind: control.CauseSilence})
	r.setLife(r.node(3), lost)
	c.workerLost(out, r.node(3), &loss, 3)
	if f := c.late(r, out.now); f != nil {
		t.Errorf("late at once: %v", f)
	}
	out.now = c.next(true)
	if f := c.late(r, out.now); f == nil || f.Code != control.NotReplaced || f.Rank != 2 {
		t.Errorf("got %+v, want worker 2 not replaced", f)
	}
	if !c.next(false).IsZero() {
		t.Error("a job that has ended has the change's deadline")
	}
	c.oneFewerMustCount()
	if got := c.pending.mustCount; got != 2 {
		t.Errorf("want %d, want 2", got)
	}
	c.anyNumberMayCount()
	if f := c.late(r, out.now); f != nil {
		t.Errorf("late although nobody is wanted: %v", f)
	}
}

// Shards that move take with them what was counted of a lost worker: the servers count again.
func TestReportsAreAskedForAgainWhenShardsMove(t *testing.T) {
	out, r, c := begun(2, 1)
	loss := r.node(2).loss(control.Cause{})
	r.setLife(r.node(2), lost)
	c.workerLost(out, r.node(2), &loss, 0)
	c.arrive(out, 1, r.node(1), &wire.Arrive{Change: 1})
	c.ask(out, r)
	c.takeReport(r.node(3), &wire.LostExamples{Lost: 2}, 0, r)
	c.placedAnew(out.now)
	if !c.reportsMissing(r) || c.next(true).IsZero() {
		t.Errorf("the report counts still, or has no deadline, %v", c.next(true))
	}
}

// A changer is restored with all but the arrivals.
func TestAChangeGoesOnAfterARestart(t *testing.T) {
	out, r, c := begun(2, 1)
	loss := r.node(2).loss(control.Cause{})
	r.setLife(r.node(2), lost)
	c.workerLost(out, r.node(2), &loss, 2)
	c.arrive(out, 1, r.node(1), &wire.Arrive{Change: 1})
	c.ask(out, r)
	again := newChanger(settingsOf(2, 1))
	restored(t, c, func(_ string, value []byte) error { return again.restore(value, out.now) })
	if err := again.restored(r, out.now); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(c.kept(), again.kept()); d != "" || len(again.pending.arrived) > 0 {
		t.Errorf("%d have arrived, (-was +is):\n%s", len(again.pending.arrived), d)
	}
	if again.next(true).IsZero() {
		t.Error("neither the replacement nor the reports have a deadline")
	}
}
