package scheduler

import (
	"fmt"
	"testing"

	"github.com/paragon-train/paragon/internal/member/control"
)

// A host that was taken away is there again when it is connected anew, and not before.
func TestAHostThatWasTakenAwayIsBackWithAnotherConnection(t *testing.T) {
	var s sites
	p, err := s.add("w0")
	if err != nil {
		t.Fatal(err)
	}
	p.Away, p.AwayFrom = true, 7
	for _, x := range []struct {
		connection int
		away       bool
	}{{7, true}, {0, true}, {8, false}} {
		if s.observe(control.ObservedHost{Host: "w0", Connection: x.connection}); p.Away != x.away {
			t.Errorf("connection %d in place of 7: away is %t", x.connection, p.Away)
		}
	}
}

// Workers beyond the slots of all hosts are spread over those without a number of slots.
func TestWorkersWithoutSlotsAreSpreadEvenly(t *testing.T) {
	var s sites
	for _, name := range []string{"w0", "w1"} {
		s.observe(control.ObservedHost{Host: name, Listed: true})
	}
	plan, placed := s.room(6, func(string) int { return 0 }, nil)
	if got, want := fmt.Sprint(plan, placed), "[{w0 3} {w1 3}] 6"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// No server is started on a host that was removed by name.
func TestARemovedHostGetsNoServer(t *testing.T) {
	var s sites
	s.observe(control.ObservedHost{Host: "w0", Listed: true, Servers: true})
	none := func(string) int { return 0 }
	if got := s.server(none); got != "w0" {
		t.Errorf("a server runs on %q, want w0", got)
	}
	s.withdraw("w0")
	if got := s.server(none); got != "" {
		t.Errorf("a server runs on %q, which was removed", got)
	}
}

// A host that is added again keeps the slots that it had, and may get more.
func TestAddingAHostAgainTakesNoSlotsAway(t *testing.T) {
	var s sites
	for _, x := range []struct{ slots, want int }{{3, 3}, {2, 3}, {4, 4}} {
		if p, err := s.enrol("w0", x.slots, 0, 0); err != nil || p.Slots != x.want {
			t.Errorf("added with %d slots: %d slots, %v, want %d", x.slots, p.Slots, err, x.want)
		}
	}
}
