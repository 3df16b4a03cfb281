package cuda

import (
	"errors"

	"github.com/paragon-train/paragon/internal/compute/cuda/drv"
)

// A rest has the events by which one knows that the device is at rest.
type rest struct {
	gpu    *GPU
	events [3]drv.Event
}

func (r *rest) alloc() (err error) {
	for i := range r.events {
		if r.events[i], err = r.gpu.context.NewEvent(false); err != nil {
			return err
		}
	}
	return nil
}

// begin records last behind all that is on any stream.
func (r *rest) begin() error {
	c, gpu := r.gpu.context, r.gpu
	return errors.Join(order(c, gpu.up, r.events[0], gpu.down), order(c, gpu.compute, r.events[1], gpu.down), r.down())
}

// down records last behind all that is on the downward stream.
func (r *rest) down() error { return r.gpu.context.Record(r.last(), r.gpu.down) }

// last is the event that begin and down record.
func (r *rest) last() drv.Event { return r.events[2] }

func (r *rest) close() (errs []error) {
	for _, event := range r.events {
		if event != 0 {
			errs = append(errs, r.gpu.context.DestroyEvent(event))
		}
	}
	return errs
}
