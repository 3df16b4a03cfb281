package cuda

import (
	"errors"

	"github.com/paragon-train/paragon/internal/compute/cuda/drv"
	"github.com/paragon-train/paragon/internal/compute/cuda/kernels"
)

// A schedule is a run cut into segments: of the whole step, or of the ops that loss and outputs
// need.
type schedule struct {
	segments []*segment

	// outputs says that loss, outputs and running statistics are final after this segment.
	outputs int

	// update is what is launched behind the last one; nil: there is nothing.
	update *segment
}

// A schedules has both schedules of an executor. full is nil for a plan without gradients.
type schedules struct{ full, forward *schedule }

// close closes both schedules and forgets them.
func (s *schedules) close(gpu *GPU) error {
	err := errors.Join(s.full.close(gpu), s.forward.close(gpu))
	s.full, s.forward = nil, nil
	return err
}

// A segment is ops that are launched together, with the copies before and after.
type segment struct {
	// waits are parameters that it is the first to read, in order.
	waits []int

	// up is the memory of those, and packs brings them to their second form.
	up    []span
	packs *kernels.Table

	// ops are those of the plan, in order.
	ops []int

	// work is that of its ops, and what brings its gradients to the host's form.
	work []launch

	// ends is where in work its ops end.
	ends int

	unpacks *kernels.Table

	// runs is how many it made, or 2 for more.
	runs int

	exec drv.GraphExec

	// eager is true if it cannot be captured.
	eager bool

	// ready are parameters whose gradients are final and that are not read any more after it, in
	// order.
	ready []int

	down []span

	// arrived is for its parameters, computed for its work, and left for its gradients and all of
	// earlier segments.
	arrived, computed, left drv.Event
}

// close gives graphs, tables and events back. s may be nil.
func (s *schedule) close(gpu *GPU) error {
	if s == nil {
		return nil
	}
	var errs []error
	all := s.segments
	if s.update != nil {
		all = append(all[:len(all):len(all)], s.update)
	}
	for _, g := range all {
		if g.exec != 0 {
			errs = append(errs, gpu.context.DestroyGraphExec(g.exec))
		}
		for _, t := range []*kernels.Table{g.packs, g.unpacks} {
			if t != nil {
				errs = append(errs, gpu.kernels.FreeTable(t))
			}
		}
		for _, event := range []drv.Event{g.arrived, g.computed, g.left} {
			if event != 0 {
				errs = append(errs, gpu.context.DestroyEvent(event))
			}
		}
	}
	return errors.Join(errs...)
}
