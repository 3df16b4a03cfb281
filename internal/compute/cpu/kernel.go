package cpu

import (
	"fmt"

	"github.com/paragon-train/paragon/internal/compute/plan"
)

// A kernel is an op that is ready but for its memory: bind is called when all memory has its place,
// and gives the function that a run calls. bind is called again whenever the memory moves, so it
// alone may ask a memory for slices.
type kernel struct {
	// scratch is the bytes of memory for this op alone (see memory.scratch).
	scratch int64

	// doubles is the float64 numbers for this op alone (see memory.doubles).
	doubles int

	bind func() func() error
}

// A builder prepares one op.
type builder func(o *plan.Op) (kernel, error)

// A builders has the builder of each kind of op that a family of kernels knows.
type builders map[plan.Kind]builder

// kernel prepares one op.
func (b builders) kernel(o *plan.Op) (kernel, error) {
	build, ok := b[o.Kind]
	if !ok {
		return kernel{}, fmt.Errorf("there is no kernel for this op")
	}
	return build(o)
}
