package cuda

import (
	"github.com/paragon-train/paragon/internal/compute/cuda/drv"
	"github.com/paragon-train/paragon/internal/compute/op"
	"github.com/paragon-train/paragon/internal/compute/plan"
)

// An examples says how many examples the next runs have. Launches ask it in each run; what they
// prepared is for the whole batch.
type examples struct {
	plan *plan.Plan

	// n is the number of examples. It says nothing of a plan without Batch.
	n int

	// none is true if there are no examples, also where Batch is not known: gradients are zero.
	none bool
}

func (e *examples) set(n int) { e.n, e.none = n, n == 0 }

// short reports whether the batch has fewer examples than room.
func (e *examples) short() bool { return e.none || e.n < e.plan.Batch }

// rows is how many of some rows belong to examples of this run.
func (e *examples) rows(rows int) int {
	if e.none {
		return 0
	}
	return e.plan.Rows(rows, e.n)
}

// numbers is how many of the numbers of an MSE's argument belong to examples of this run.
func (e *examples) numbers(v *plan.Value, mode *op.Mode) int64 {
	n := int64(v.Len())
	if mode == nil || len(v.Shape) == 0 {
		return n
	}
	return n / int64(v.Shape[0]) * int64(e.rows(v.Shape[0]))
}

// zero writes zeros to an array's bytes from a place on.
func (g *GPU) zero(s drv.Stream, at drv.Ptr, from, bytes int64) error {
	if at == 0 || from == bytes {
		return nil
	}
	return g.context.Memset8(at+drv.Ptr(from), 0, bytes-from, s)
}
