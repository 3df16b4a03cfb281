package cpu

import (
	"github.com/paragon-train/paragon/internal/compute/f32"
	"github.com/paragon-train/paragon/internal/compute/plan"
)

// accumulators are float32 numbers in which ops sum what they store as bfloat16: one room of some
// numbers for each thread.
type accumulators struct {
	size int

	// free has the rooms that no thread uses.
	free chan int

	// memory is that of all rooms. It is set when the op is bound.
	memory []float32
}

// newAccumulators has no rooms, and needs no scratch memory, for a result v that is float32.
func newAccumulators(v *plan.Value, size, threads int) *accumulators {
	if !v.BFloat16() {
		return &accumulators{}
	}
	a := &accumulators{size: size, free: make(chan int, threads)}
	for i := range threads {
		a.free <- i
	}
	return a
}

// scratch is the number of bytes of all rooms.
func (a *accumulators) scratch() int64 { return 4 * int64(a.size) * int64(cap(a.free)) }

// sum calls f with memory for the numbers of y, which is y's own if that is float32, and then
// stores them in y.
func (a *accumulators) sum(y f32.Array, f func(y []float32)) {
	if y.BF16 == nil {
		f(y.F32)
		return
	}
	i := <-a.free
	room := a.memory[i*a.size : (i+1)*a.size][:len(y.BF16)]
	f(room)
	f32.ToBFloat16(y.BF16, room)
	a.free <- i
}
