package cpu

import (
	"strings"
	"testing"

	"github.com/paragon-train/paragon/internal/compute/plan"
)

// A countingUser counts how often it was told that the memory has moved.
type countingUser struct {
	binds int
	own   int64
}

func (u *countingUser) bind()            { u.binds++ }
func (u *countingUser) ownMemory() int64 { return u.own }

func TestUsersAreToldWhenSharedMemoryMoves(t *testing.T) {
	s := &shared{}
	first, second, third := &countingUser{}, &countingUser{}, &countingUser{}
	s.join(first, 400, 3)
	s.join(second, 0, 3)
	if first.binds != 1 || second.binds != 1 {
		t.Errorf("memory that suffices: got %d and %d binds, want 1 and 1", first.binds, second.binds)
	}
	s.leave(second)
	s.join(third, 40, 2)
	if first.binds != 2 || second.binds != 1 || third.binds != 1 {
		t.Errorf("larger memory: got %d, %d and %d binds, want 2, 1 (it has left) and 1", first.binds, second.binds, third.binds)
	}
	if len(s.arena) != 110 || len(s.sums) != 3 {
		t.Errorf("got %d numbers and %d doubles, want 110 and 3", len(s.arena), len(s.sums))
	}
}

func TestRoomCountsWhatUsersHaveOfTheirOwn(t *testing.T) {
	s := &shared{arena: make([]float32, 100), users: []user{&countingUser{own: 70}}}
	need := func(room int64) error {
		p := &plan.Plan{Memory: plan.Memory{Arena: 600}}
		err := s.checkRoom(p, room)
		if p.Memory.Arena != 200 {
			t.Errorf("the plan needs %d bytes beyond the arena, want 200", p.Memory.Arena)
		}
		return err
	}
	if err := need(670); err != nil {
		t.Errorf("670 bytes of room: %v", err)
	}
	if err := need(669); err == nil || !strings.Contains(err.Error(), "those that it shares with") {
		t.Errorf("669 bytes of room: got error %v, want one that names those that share", err)
	}
}
