package cpu

import "github.com/paragon-train/paragon/internal/compute/plan"

// An examples says how many examples the next runs have. Kernels ask it in each run; what they
// prepared is for the whole batch.
type examples struct {
	plan *plan.Plan

	// n is the number of examples. It says nothing of a plan without Batch.
	n int

	// none is true if there are no examples, also where Batch is not known: gradients are zero.
	none bool
}

func (e *examples) set(n int) { e.n, e.none = n, n == 0 }

// rows is how many of some rows belong to examples of this run.
func (e *examples) rows(rows int) int {
	if e.none {
		return 0
	}
	return e.plan.Rows(rows, e.n)
}
