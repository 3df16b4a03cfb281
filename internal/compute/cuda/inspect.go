package cuda

import (
	"context"
	"errors"
	"fmt"
	"unsafe"

	"github.com/paragon-train/paragon/internal/compute/cuda/kernels"
	"github.com/paragon-train/paragon/internal/compute/f32"
	"github.com/paragon-train/paragon/internal/compute/plan"
)

// Inspect takes a step with gradients as Run does, launch by launch, and stops behind each op of
// the plan: see gets the op's results as they lie on the device, in the order of their shapes, nil
// for those that have none or no numbers, and gradients of parameters, which are brought to their
// form later. The slices are see's own. An error of see ends the step.
//
// It is slow, and for finding out which op computes something else than it should; see package
// internal/compute/ref's Replay.
func (e *Executor) Inspect(ctx context.Context, see func(op int, results [][]float32) error) error {
	switch {
	case e.failed != nil:
		return fmt.Errorf("cuda: inspect on %s: an earlier error has made it unusable: %w", e.gpu.Name(), e.failed)
	case e.schedules.full == nil || e.cfg.Update != nil:
		return fmt.Errorf("cuda: inspect on %s: the program does not copy gradients to the host", e.gpu.Name())
	}
	if err := e.inputs.take(e.examples); err != nil {
		return err
	}
	err := e.inspect(ctx, see)
	if err == nil {
		err = e.collect(ctx, e.schedules.full, false, plan.Hooks{})
	}
	if err != nil {
		return fmt.Errorf("cuda: inspect on %s: %w", e.gpu.Name(), e.breakOff(err))
	}
	e.store.step++
	return nil
}

// inspect is Inspect up to where results are on their way to the host. All parameters go up first;
// gradients and copies come at the end, as in a step that is not looked at.
func (e *Executor) inspect(ctx context.Context, see func(op int, results [][]float32) error) error {
	gpu, s := e.gpu, e.schedules.full
	seed, factor := e.factors()
	e.fresh.forget()
	err := gpu.context.Do(func() error {
		if err := e.begin(true, seed, factor); err != nil {
			return err
		}
		for _, g := range s.segments {
			if err := e.parametersUp(g); err != nil {
				return err
			}
		}
		return order(gpu.context, gpu.up, s.segments[0].arrived, gpu.compute)
	})
	if err != nil {
		return err
	}
	for i, o := range e.plan.Ops {
		if err := ctx.Err(); err != nil {
			return err
		}
		results := make([][]float32, len(o.Out))
		err := gpu.context.Do(func() error {
			err := launchAll(e.ops[i].work, gpu.compute)
			for k, v := range o.Out {
				if err == nil && v != nil && v.Root().Source != plan.Gradient && v.Root().Bytes > 1 {
					results[k], err = e.read(v)
				}
			}
			return err
		})
		if err == nil {
			err = see(i, results)
		}
		if err != nil {
			return fmt.Errorf("op %d, %v: %w", i, o, err)
		}
	}
	return gpu.context.Do(func() error {
		for _, g := range s.segments {
			if err := launchAll(g.work[g.ends:], gpu.compute); err != nil {
				return err
			}
		}
		for k := range s.segments {
			if err := e.resultsDown(s, k, false); err != nil {
				return err
			}
		}
		return nil
	})
}

// read copies a value's numbers to the host when the computing stream is done, and brings them to
// the order of the shape.
func (e *Executor) read(v *plan.Value) ([]float32, error) {
	c, t, size := e.gpu.context, typeOf(v), v.Root().Size()
	m, err := c.HostAlloc(size)
	if err != nil {
		return nil, fmt.Errorf("pinned memory of %d bytes: %w", size, err)
	}
	err = errors.Join(c.CopyToHost(unsafe.Pointer(&m[0]), e.places.at(v), size, e.gpu.compute), c.Synchronize(e.gpu.compute))
	if err != nil {
		return nil, errors.Join(err, c.HostFree(m))
	}
	n := int(size / t.Size())
	all := make([]float32, n)
	switch t {
	case kernels.Float32:
		copy(all, unsafe.Slice((*float32)(unsafe.Pointer(&m[0])), n))
	case kernels.BFloat16:
		for i, h := range unsafe.Slice((*uint16)(unsafe.Pointer(&m[0])), n) {
			all[i] = f32.BFloat16Value(h)
		}
	case kernels.Float16:
		for i, h := range unsafe.Slice((*uint16)(unsafe.Pointer(&m[0])), n) {
			all[i] = f32.Float16Value(h)
		}
	}
	if err := c.HostFree(m); err != nil {
		return nil, err
	}
	r := v.Root()
	if r.Layout != plan.ChannelsLast {
		return all, nil
	}
	channels, lanes, pixels := r.Shape[1], lanesOf(r), r.Shape[2]*r.Shape[3]
	out := make([]float32, r.Len())
	for i := range out {
		image, c, p := i/(channels*pixels), i/pixels%channels, i%pixels
		out[i] = all[(image*pixels+p)*lanes+c]
	}
	return out, nil
}
