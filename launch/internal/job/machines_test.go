package job

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/paragon-train/paragon/internal/hosts/hosts"
	"github.com/paragon-train/paragon/internal/member/control"
)

// connectedTo is a machine of a host as a part's test needs it.
func connectedTo(m *machines, name, address string) (*machine, bool, error) {
	id := m.call(name, at(name), nil)
	return m.connected(m.answered(id), connected{id: id, address: address, launcher: "10.0.0.9"}, "10.0.0.9", true)
}

// Of each host one machine is in use. The older connection stays if it is not lost, and what is left
// over is closed.
func TestOfEachHostOneMachineIsInUse(t *testing.T) {
	o := newOutput()
	m := newMachines(o, true)
	first, fresh, err := connectedTo(&m, "d1", "10.0.0.1")
	if err != nil || !fresh || m.at(at("d1")) != first {
		t.Fatalf("got %+v, %t, %v", first, fresh, err)
	}
	wantDid(t, o, "first connection")
	if again, _, _ := connectedTo(&m, "d1", "10.0.0.1"); again != first {
		t.Errorf("the second connection gave %+v, want the first one's machine", again)
	}
	wantDid(t, o, "second connection", "closeMachine {2 false}")
	if m.lost(first.id); !o.changed || first.usable() {
		t.Error("the loss was not noticed")
	}
	if next, _, _ := connectedTo(&m, "d1", "10.0.0.1"); next == first || m.at(at("d1")) != next {
		t.Errorf("after a loss the machine is %+v, want another one", next)
	}
	wantDid(t, o, "connection after a loss", "closeMachine {1 false}")
	if !m.busy() {
		t.Error("it is not busy while machines are being closed")
	}
	m.closed(machineClosed{1, errors.New("gone")})
	m.closed(machineClosed{2, errors.New("still there")})
	wantDid(t, o, "closed", "warn: still there")
	if m.busy() {
		t.Error("it is busy when all is closed")
	}
}

// A host on a loopback address cannot take part in a job whose scheduler is elsewhere.
func TestAHostOnLoopbackCannotJoin(t *testing.T) {
	o := newOutput()
	m := newMachines(o, true)
	if x, _, err := connectedTo(&m, "d1", "127.0.0.1"); x != nil || err == nil || !strings.Contains(err.Error(), "loopback") {
		t.Errorf("got %+v, %v", x, err)
	}
	wantDid(t, o, "connection", "closeMachine {1 false}")
	if m.at(at("d1")) != nil {
		t.Error("the machine is in use")
	}
}

// Hosts are reported with their slots, their connection and their notice. The launching machine is a
// host only where it is about to be taken away.
func TestWhatIsReportedOfHosts(t *testing.T) {
	o := newOutput()
	m := newMachines(o, true)
	m.begin(&connection{key: ""}, connected{id: 7})
	x, _, _ := connectedTo(&m, "d1", "10.0.0.1")
	x.notice = &hostNotice{by: o.now.Add(time.Second), checkpointBy: o.now.Add(-time.Second), text: "spot"}
	set := &settings{Places: Places{Hosts: []hosts.Host{{Name: "d1", Slots: 2}, {Name: "d2"}}, ServerHosts: []hosts.Host{at("d3")}, Servers: []hosts.Host{at("d3"), at("d3")}}}
	got := m.observed(set, x)
	notice := control.HostNotice{LeftMillis: 1000, Text: "spot"}
	want := []control.ObservedHost{
		{Host: "d1", Listed: true, Slots: 2, Connection: 1, Notice: &notice, Runs: control.Scheduler},
		{Host: "d2", Listed: true}, {Host: "d3", Servers: true, First: 2},
	}
	same := func(a, b control.ObservedHost) bool {
		if (a.Notice == nil) != (b.Notice == nil) || a.Notice != nil && *a.Notice != *b.Notice {
			return false
		}
		a.Notice, b.Notice = nil, nil
		return a == b
	}
	if !slices.EqualFunc(got, want, same) {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
	m.used[""].notice = &hostNotice{}
	if got := m.observed(set, x); len(got) != 4 || got[3].Host != "localhost" || got[3].Runs != "launch" {
		t.Errorf("with a notice for the launching machine: got %+v", got)
	}
	if !m.departing(at("d1")) || m.departing(at("d2")) || len(m.noticed()) != 2 {
		t.Error("which hosts are being taken away is not known")
	}
}
