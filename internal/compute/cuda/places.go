package cuda

import (
	"errors"

	"github.com/paragon-train/paragon/internal/compute/cuda/drv"
	"github.com/paragon-train/paragon/internal/compute/plan"
)

// A places knows where the values of a plan lie on the device. The places of temporaries move with
// the arena; all others stay as long as the executor lives.
type places struct {
	host    *plan.Host
	store   *store
	inputs  *inputs
	results *results
	numbers *numbers
}

// at is where a value lies on the device; 0 for nil.
func (p *places) at(v *plan.Value) drv.Ptr {
	if v == nil {
		return 0
	}
	r := v.Root()
	switch r.Source {
	case plan.Temporary:
		return p.store.arena.device + drv.Ptr(r.Offset)
	case plan.Parameter:
		return p.store.params.where(p.host.Params[r.Index])
	case plan.Gradient:
		return p.store.grads.where(p.host.Grads[r.Index])
	case plan.Input:
		return p.inputs.of(r).device
	case plan.Seed:
		return p.numbers.seed()
	}
	return p.results.at(r)
}

// An owned is memory of the device that lives as long as an executor.
type owned struct {
	gpu  *GPU
	all  []drv.Ptr
	size int64
}

func (o *owned) allocate(what string, bytes int64) (drv.Ptr, error) {
	at, err := o.gpu.malloc(what, bytes)
	if err == nil && at != 0 {
		o.all = append(o.all, at)
		o.size += bytes
	}
	return at, err
}

func (o *owned) close() error {
	var errs []error
	for _, p := range o.all {
		errs = append(errs, o.gpu.context.Free(p))
	}
	o.all = nil
	return errors.Join(errs...)
}
