package scheduler

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/paragon-train/paragon/internal/store/wire"
)

// A scheduler that is ended before any worker came ends no work of anybody: the job has not failed.
func TestAJobThatNoWorkerJoinedEndsInOrder(t *testing.T) {
	for workers, want := range map[int]uint8{0: wire.PhaseFinished, 1: wire.PhaseFailed} {
		c := NewCore(Settings{Job: "j", Workers: 2, Servers: 1, Heartbeat: time.Second, Lease: 10 * time.Second, StartTimeout: time.Minute}, time.Unix(0, 0))
		register := func(request uint64, role uint8) {
			c.Step(Event{At: time.Unix(1, 0), Request: request, Message: &wire.Register{Role: role, Rank: -1, Workers: 2, Servers: 1, Nonce: request, Job: "j", Host: "d1", Addr: "d1:1"}})
		}
		register(1, wire.RoleServer)
		for i := range workers {
			register(uint64(2+i), wire.RoleWorker)
		}
		notes := fmt.Sprint(c.Step(Event{At: time.Unix(2, 0), Stop: "the scheduler was stopped: terminated"}).Notes)
		if phase, reason := c.Phase(); phase != want || (want == wire.PhaseFinished) != (reason == "" && !strings.Contains(notes, "failed")) {
			t.Errorf("%d workers: got phase %d, reason %q, notes %q; want phase %d", workers, phase, reason, notes, want)
		}
	}
}

// The launcher hears who comes and goes while the job is forming, by what it was started as.
func TestThoseWhoComeAndGoWhileTheJobIsFormingAreToldOf(t *testing.T) {
	c := NewCore(Settings{Job: "j", Workers: 2, Servers: 1, Heartbeat: time.Second, Lease: 10 * time.Second, StartTimeout: time.Minute}, time.Unix(0, 0))
	at, request, told := time.Unix(0, 0), uint64(0), []Presence{}
	step := func(m wire.Message) {
		request++
		told = append(told, c.Step(Event{At: at, Request: request, Message: m}).Presence...)
	}
	register := func(role uint8, rank int32) {
		step(&wire.Register{Role: role, Rank: rank, Workers: 2, Servers: 1, Nonce: request + 1, Job: "j", Host: "d1", Addr: "d1:1"})
	}
	register(wire.RoleWorker, 1) // node 1
	register(wire.RoleWorker, 1) // refused
	register(wire.RoleWorker, 0) // node 2
	step(&wire.Leave{Node: 1, OK: true})
	// Node 2 is silent.
	at = at.Add(11 * time.Second)
	step(nil)
	register(wire.RoleWorker, -1)
	register(wire.RoleWorker, 1)
	register(wire.RoleServer, 0)
	step(&wire.Leave{Node: 3, OK: true}) // the job runs
	w, s := func(rank int) Place { return Place{wire.RoleWorker, rank} }, Place{wire.RoleServer, 0}
	want := []Presence{{w(1), 0, true}, {w(0), 0, true}, {w(1), 0, false}, {w(0), 0, false}, {w(-1), 0, true}, {w(1), 0, true}, {s, 0, true}}
	if fmt.Sprint(told) != fmt.Sprint(want) {
		t.Errorf("got %v, want %v", told, want)
	}
}
