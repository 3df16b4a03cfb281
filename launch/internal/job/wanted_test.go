package job

import (
	"slices"
	"testing"

	"github.com/paragon-train/paragon/internal/member/control"
)

// Events that come again are no news.
func TestNewsComeOnce(t *testing.T) {
	var w wantedState
	events := []control.Event{{Number: 1}, {Number: 2}}
	if got := w.news(events); len(got) != 2 {
		t.Errorf("got %d events, want 2", len(got))
	}
	if got := w.news(append(events, control.Event{Number: 3})); len(got) != 1 || got[0].Number != 3 {
		t.Errorf("got %+v, want event 3", got)
	}
}

// The first list of hosts is that of the file; later ones change it. A host that is no longer listed
// was left.
func TestTheFileFollowsTheListOfHosts(t *testing.T) {
	var w wantedState
	o := newOutput()
	w.list(o, []control.WantedHost{{Host: "d1"}, {Host: "d2"}})
	wantDid(t, o, "first list")
	w.list(o, []control.WantedHost{{Host: "d1", Slots: 2}, {Host: "d3"}})
	wantDid(t, o, "second list", "list d1: true", "list d3: true", "list d2: false")
	if w.left("d1") || !w.left("d2") || w.left("d9") {
		t.Errorf("left: d1 %t, d2 %t, d9 %t; want d2 alone", w.left("d1"), w.left("d2"), w.left("d9"))
	}
}

// Before the scheduler has said anything all processes are wanted; then those that it names. What it
// named before is returned, so that what ends can be seen.
func TestWhichProcessesAreWanted(t *testing.T) {
	var w wantedState
	if !w.names(4) {
		t.Error("process 4 is not wanted before the scheduler has said anything")
	}
	w.revision = 1
	w.take(&control.Wanted{Processes: []control.WantedProcess{{Process: 4}}})
	before := w.take(&control.Wanted{Processes: []control.WantedProcess{{Process: 5}}})
	if w.names(4) || !w.names(5) || !slices.Equal(sortedKeys(before), []uint32{4}) {
		t.Errorf("4 is wanted %t, 5 %t, before %v", w.names(4), w.names(5), before)
	}
}

// In the place of a process comes the first later one of its role and number that is to start early.
func TestWhoReplacesAProcess(t *testing.T) {
	n := worker(4, "d1")
	n.number = 1
	var w wantedState
	early := control.WantedProcess{Process: 8, Role: roleWorker, Number: 1, Early: true}
	joins, other, older := early, early, early
	joins.Process, joins.Early = 5, false
	other.Process, other.Number = 6, 0
	older.Process = 3
	w.take(&control.Wanted{Processes: []control.WantedProcess{joins, other, older}})
	if by, ok := w.replacement(n); ok {
		t.Errorf("got %+v, want none", by)
	}
	w.processes[8] = early
	if by, ok := w.replacement(n); !ok || by.Process != 8 {
		t.Errorf("got %+v, %t, want process 8", by, ok)
	}
}
