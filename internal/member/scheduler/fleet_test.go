package scheduler

import (
	"testing"
	"time"

	"github.com/paragon-train/paragon/internal/member/control"
)

// A process that left the fleet is not wanted, the newest one either; one with a higher number is
// not known yet, and one that was started by hand has none.
func TestAProcessThatLeftTheFleetIsUnwanted(t *testing.T) {
	f := fleet{keptFleet: keptFleet{Adopted: true, Last: 3}}
	stays, dropped := f.want(control.WantedProcess{Role: control.Worker}), f.want(control.WantedProcess{Role: control.Worker})
	f.drop(dropped)
	for process, want := range map[uint32]bool{0: false, 3: true, stays.Process: false, dropped.Process: true, f.Last + 1: false} {
		if got := f.unwanted(process); got != want {
			t.Errorf("process %d of %d: unwanted is %t", process, f.Last, got)
		}
	}
}

// A process that is to be killed is not asked to leave after that, and of one that has ended nothing
// more is wanted.
func TestAGoalOnlyGoesFurther(t *testing.T) {
	var f fleet
	p := f.want(control.WantedProcess{Role: control.Worker})
	f.aim(p, control.GoalKill, time.Second)
	f.aim(p, control.GoalLeave, time.Minute)
	if p.Goal != control.GoalKill || p.Grace() != time.Second {
		t.Errorf("the goal is %s after %s, want %s after 1s", p.Goal, p.Grace(), control.GoalKill)
	}
	p.Seen = control.StateEnded
	if f.aim(p, control.GoalKill, time.Minute); p.Goal != control.GoalOver || p.GraceMillis != 0 {
		t.Errorf("once it has ended the goal is %s, want %s", p.Goal, control.GoalOver)
	}
}

// A worker that was lost before it counted has not joined, although it is still in the roster.
func TestALostWorkerHasNotJoined(t *testing.T) {
	_, r := running(2, 0)
	f, _ := wantedOf(&output{}, r)
	for _, p := range f.list {
		p.Joined = false
	}
	r.setLife(r.node(2), lost)
	revision := f.revision
	if f.takeRanks(r, true); !f.of(1).Joined || f.of(2).Joined || f.revision != revision+1 {
		t.Errorf("joined: worker 0 %t, worker 1, which is lost, %t, in %d revisions; want worker 0 alone, in one", f.of(1).Joined, f.of(2).Joined, f.revision-revision)
	}
}

// A server that is not wanted any more ends by itself if it was started; else it leaves the fleet.
func TestAServerThatWasNotStartedIsForgotten(t *testing.T) {
	var f fleet
	server := func(rank int, state string) *wantedProcess {
		p := f.want(control.WantedProcess{Role: control.Server, Rank: rank, Number: rank})
		p.Seen = state
		return p
	}
	waits, runs := server(0, control.StateWaiting), server(1, control.StateRunning)
	for rank := range uint32(2) {
		f.endServer(rank, control.FateRemoved, "")
	}
	if f.of(waits.Process) != nil || f.of(runs.Process) == nil || runs.Goal != control.GoalEnd || runs.Grace() != leaveTime {
		t.Errorf("%d processes are left, the one that runs is to %s after %s; want it alone, and %s after %s", len(f.list), runs.Goal, runs.Grace(), control.GoalEnd, leaveTime)
	}
}
