package cpu

import (
	"fmt"
	"slices"

	"github.com/paragon-train/paragon/internal/compute/plan"
)

// A common is what executors that share have in common: memory that holds nothing between two runs,
// as large as the largest of them needs, and what counts over all of their runs.
type common struct {
	arena []float32

	// doubles are for sums within one op.
	doubles []float64

	users []*Executor

	step      uint64 // counts runs with gradients, for dropout
	gradScale float32
}

// checkRoom is an error if a plan, together with those of the executors that it shares with, needs
// more memory than there is. The plan's Memory.Arena becomes the part of the arena that it needs
// beyond what there is already.
func (c *common) checkRoom(p *plan.Plan, room int64) error {
	have := 4 * int64(len(c.arena))
	need := max(have, p.Memory.Arena) + p.Memory.Total() - p.Memory.Arena
	for _, e := range c.users {
		need += e.plan.Memory.Total() - e.plan.Memory.Arena
	}
	if p.Memory.Arena = max(p.Memory.Arena-have, 0); room == 0 || need <= room {
		return nil
	}
	what := "the program needs"
	if len(c.users) > 0 {
		what = "the program and those that it shares with need"
	}
	return fmt.Errorf("cpu: %s %.1f GB of memory, this machine has %.1f; take a smaller batch", what, float64(need)/1e9, float64(room)/1e9)
}

// join adds an executor. Where it needs more memory than there is, the others move to larger memory
// with it.
func (c *common) join(e *Executor, doubles int) {
	moved := false
	if more := e.plan.Memory.Arena / 4; more > 0 {
		c.arena, moved = make([]float32, int64(len(c.arena))+more), true
		adviseHugePages(c.arena)
	}
	if doubles > len(c.doubles) {
		c.doubles, moved = make([]float64, doubles), true
	}
	if moved {
		for _, other := range c.users {
			other.bind()
		}
	}
	c.users = append(c.users, e)
	e.bind()
}

// Close takes the executor out of those that share; the memory stays as it is until the last of
// them has gone.
func (e *Executor) Close() error {
	e.users = slices.DeleteFunc(e.users, func(other *Executor) bool { return other == e })
	return nil
}
