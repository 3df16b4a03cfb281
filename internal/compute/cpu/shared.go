package cpu

import (
	"fmt"
	"slices"

	"github.com/paragon-train/paragon/internal/compute/plan"
)

// A shared is what executors that share have in common: memory that holds nothing between two runs,
// as large as the largest of them needs, and what counts over all of their runs.
type shared struct {
	arena []float32

	// sums is the memory that memory.doubles gives out.
	sums []float64

	// users share the memory, in the order in which they joined.
	users []user

	counts counts
}

// A counts is what counts over the runs of all executors that share.
type counts struct {
	// step is the number of runs with gradients.
	step uint64

	// gradScale multiplies the gradients of later runs.
	gradScale float32

	// forward says that the run under way is forward only.
	forward bool
}

// A user works in shared memory.
type user interface {
	// bind is called when the memory has moved: slices of what was there before are void.
	bind()

	// ownMemory is the bytes that the user needs beyond what is shared.
	ownMemory() int64
}

// checkRoom is an error if a plan, together with the users that there are already, needs more
// memory than there is. The plan's Memory.Arena becomes the part of the arena that it needs beyond
// what there is already.
func (s *shared) checkRoom(p *plan.Plan, room int64) error {
	have := 4 * int64(len(s.arena))
	need := max(have, p.Memory.Arena) + p.Memory.Total() - p.Memory.Arena
	for _, u := range s.users {
		need += u.ownMemory()
	}
	if p.Memory.Arena = max(p.Memory.Arena-have, 0); room == 0 || need <= room {
		return nil
	}
	what := "the program needs"
	if len(s.users) > 0 {
		what = "the program and those that it shares with need"
	}
	return fmt.Errorf("cpu: %s %.1f GB of memory, this machine has %.1f; take a smaller batch", what, float64(need)/1e9, float64(room)/1e9)
}

// join adds a user that needs more bytes of arena than there are, and so many doubles in all. Where
// that is more memory than there is, the others move to larger memory with it.
func (s *shared) join(u user, more int64, doubles int) {
	moved := false
	if more /= 4; more > 0 {
		s.arena, moved = make([]float32, int64(len(s.arena))+more), true
		adviseHugePages(s.arena)
	}
	if doubles > len(s.sums) {
		s.sums, moved = make([]float64, doubles), true
	}
	if moved {
		for _, other := range s.users {
			other.bind()
		}
	}
	s.users = append(s.users, u)
	u.bind()
}

// leave takes a user out. The memory stays as it is until the last user has gone.
func (s *shared) leave(u user) {
	s.users = slices.DeleteFunc(s.users, func(other user) bool { return other == u })
}
