package cuda

import (
	"errors"
	"fmt"
	"strings"

	"github.com/paragon-train/paragon/internal/compute/cuda/drv"
	"github.com/paragon-train/paragon/internal/compute/plan"
)

// tooLarge adds to an error of too little memory what the program needs in all, what there was, and
// which batch would fit.
func (e *Executor) tooLarge(err error, free int64) error {
	var fault *drv.Error
	if !errors.As(err, &fault) || !strings.HasPrefix(fault.Call, "cuMemAlloc") {
		// It was the host's memory.
		return err
	}
	p := e.plan

	// The scratch memory is what is known of it.
	p.Place()
	fixed, grows := e.owned.size, p.Memory.Arena+p.Memory.Inputs+p.Memory.Outputs
	for _, v := range p.Params {
		// Parameters of executors that share are another's.
		if e.store != nil && len(e.store.users) > 1 {
			break
		}
		fixed += 4 * int64(v.Len())
		if e.cfg.Type.half() {
			// Half as much for their second form.
			fixed += 2 * int64(v.Len())
		}
		if e.host.Grads != nil {
			fixed += 4 * int64(v.Len())
		}
	}
	for _, l := range e.ops {
		fixed = max(fixed, l.workspace)
	}
	err = fmt.Errorf("%w; the program needs about %d MB on %s, and %d MB were free", err, (fixed+grows)>>20, e.gpu.Name(), free>>20)
	batch := batchOf(p)
	if batch < 2 || free <= fixed || grows == 0 {
		return err
	}
	if fits := (free - fixed) / max(1, grows/batch) * 9 / 10; fits > 0 && fits < batch {
		return fmt.Errorf("%w: a batch of %d in place of %d may fit", err, fits, batch)
	}
	return fmt.Errorf("%w: try a batch below %d", err, batch)
}

// batchOf is the first dimension that all inputs have, or 0.
func batchOf(p *plan.Plan) int64 {
	batch := 0
	for i, v := range p.Inputs {
		if len(v.Shape) == 0 || i > 0 && v.Shape[0] != batch {
			return 0
		}
		batch = v.Shape[0]
	}
	return int64(batch)
}
