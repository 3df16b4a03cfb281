package job

import (
	"testing"

	"github.com/paragon-train/paragon/internal/hosts/hosts"
	"github.com/paragon-train/paragon/internal/member/control"
)

// The log of hosts has a line for each host that comes or goes, and none for what it says already.
func TestTheLogOfHosts(t *testing.T) {
	o := newOutput()
	h := history{out: o, members: map[string]bool{"d1": true}}
	var p processes
	take := func(action, host string) { h.take(control.Event{Action: action, Host: host}, &p, false) }
	take(control.Added, "d1")
	wantDid(t, o, "d1 again", "info: host d1 joined the job")
	take(control.Added, "d2")
	wantDid(t, o, "d2", "info: host d2 joined the job", "logHost {ADDED d2 0}")
	take(control.Removed, "d2")
	wantDid(t, o, "d2 leaves", "info: host d2 has left the job", "logHost {REMOVED d2 0}")
	take(control.Removed, "d3")
	wantDid(t, o, "d3 never came", "info: host d3 was removed; it had no worker in the job")
}

// A host has left with its last worker that is lost. In a job that ends losses are no news.
func TestAHostIsLostWithItsLastWorker(t *testing.T) {
	o := newOutput()
	h := history{out: o, members: map[string]bool{"d1": true}}
	p := processes{nodes: []*Node{worker(2, "d1"), worker(3, "d1")}}
	lost := func(process uint32, ending bool) {
		h.take(control.Event{Action: control.Lost, Host: "d1", Role: control.Worker, Process: process, Reason: "silence"}, &p, ending)
		afterExit(p.find(process), 1)
	}
	lost(2, false)
	wantDid(t, o, "one of two", "info: silence")
	lost(3, false)
	wantDid(t, o, "the last one", "info: silence", "logHost {REMOVED d1 0}")
	h.members["d1"] = true
	lost(3, true)
	wantDid(t, o, "the job is ending")
}

// Of several numbers of workers that were asked for the newest one is told of; each that was reached
// counts.
func TestScalesAreTold(t *testing.T) {
	o := newOutput()
	h := history{out: o}
	h.take(control.Event{Number: 7, Action: control.Scaling, Workers: 3, Reason: "asked"}, nil, false)
	h.take(control.Event{Number: 8, Action: control.Scaling, Workers: 4, Reason: "asked"}, nil, false)
	h.take(control.Event{Number: 9, Action: control.ScaleShort, Scale: 7, Reason: "no host"}, nil, false)
	h.take(control.Event{Number: 10, Action: control.Scaled, Scale: 7}, nil, false)
	h.take(control.Event{Number: 11, Action: control.Scaled, Scale: 8}, nil, false)
	wantDid(t, o, "two scales", "info: the job scales to 3 workers: asked", "info: the job scales to 4 workers: asked", "info: the job has 4 workers, as asked")
	if h.scales != 2 || len(h.changes) != 5 {
		t.Errorf("%d scales, %d changes are kept, want 2 and 5", h.scales, len(h.changes))
	}
}

// A host that left just before the end is logged, unless one of its workers stays.
func TestHostsThatLeaveLastAreLogged(t *testing.T) {
	o := newOutput()
	h := history{out: o, members: map[string]bool{"d1": true, "d2": true}}
	gone := func(process uint32, host string) *Node {
		n := afterExit(worker(process, host), 0)
		n.fate = fate{code: control.FateRemoved}
		return n
	}
	h.departed(&processes{nodes: []*Node{gone(2, "d1"), gone(3, "d2"), worker(4, "d2")}})
	wantDid(t, o, "the end", "logHost {REMOVED d1 1000000000000}")
	h.forget([]*Node{{host: hosts.Host{Name: "d2"}}})
	if _, known := h.members["d1"]; known || !h.members["d2"] {
		t.Errorf("members are %v, want d2 alone", h.members)
	}
}
