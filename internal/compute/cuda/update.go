package cuda

import (
	"errors"
	"fmt"

	"github.com/paragon-train/paragon/internal/compute/cuda/drv"
	"github.com/paragon-train/paragon/internal/compute/cuda/kernels"
)

// A Piece is parameters and their gradients that lie alike on the device: N float32 numbers each,
// in which gaps between parameters hold zeros.
type Piece struct {
	Params, Grads drv.Ptr
	N             int64
}

// An Update launches the change of parameters by their gradients at the end of a step, when a
// segment of its own is captured or run. found is the address of a uint32 that is not 0 if a
// gradient of Float16 was not finite.
type Update func(s drv.Stream, pieces []Piece, found drv.Ptr) error

// Context is the device's, for memory of an Update's own; nil of a stand-in of tests.
func (g *GPU) Context() *drv.Context {
	c, _ := g.context.(*drv.Context)
	return c
}

// Kernels are the device's; nil of a stand-in of tests.
func (g *GPU) Kernels() *kernels.Set {
	k, _ := g.kernels.(*kernels.Set)
	return k
}

// Fetch brings the parameters of an executor with a Config.Update back to the host's memory.
func (e *Executor) Fetch() error {
	var spans []span
	err := e.gpu.context.Do(func() error {
		for _, m := range e.host.Params {
			p, err := e.store.params.span(m)
			if err != nil {
				return err
			}
			spans = append(spans, p)
		}
		spans = joined(spans, e.store.params.order)
		var errs []error
		for _, p := range spans {
			errs = append(errs, p.down(e.gpu.down))
		}
		return errors.Join(append(errs, e.rest.down())...)
	})
	if err == nil {
		err = e.watch.wait(e.rest.last(), e.cfg.Timeout)
	}
	if err != nil {
		return fmt.Errorf("cuda: fetch parameters from %s: %w", e.gpu.Name(), err)
	}
	for _, p := range spans {
		p.landed()
	}
	return nil
}
