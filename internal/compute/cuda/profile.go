package cuda

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/paragon-train/paragon/internal/compute/cuda/drv"
)

// clock is what a driver measures time with: *drv.Context.
type clock interface {
	NewEvent(timing bool) (drv.Event, error)
	Elapsed(from, to drv.Event) (time.Duration, error)
}

// Profile runs the plan's ops n times, one launch after the other on the computing stream, and
// returns for each op the shortest time that it took on the device. Values are those of the last
// run, of which there must have been one; running statistics move on the device alone, until the
// next run.
func (e *Executor) Profile(ctx context.Context, n int) ([]time.Duration, error) {
	best := make([]time.Duration, len(e.plan.Ops))
	c, ok := e.gpu.context.(clock)
	if !ok || e.schedules.full == nil || len(e.schedules.full.segments) == 0 || e.schedules.full.segments[0].runs == 0 {
		return nil, fmt.Errorf("cuda: profile on %s: want a step before it", e.gpu.Name())
	}
	for range n {
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("cuda: profile on %s: %w", e.gpu.Name(), err)
		}
		if err := e.gpu.context.Do(func() error { return e.profile(c, best) }); err != nil {
			return nil, fmt.Errorf("cuda: profile on %s: %w", e.gpu.Name(), err)
		}
	}
	return best, nil
}

// profile is one pass, with an event between ops.
func (e *Executor) profile(c clock, best []time.Duration) (err error) {
	events := make([]drv.Event, len(e.ops)+1)
	defer func() {
		for _, event := range events {
			if event != 0 {
				err = errors.Join(err, e.gpu.context.DestroyEvent(event))
			}
		}
	}()
	for i := range events {
		if events[i], err = c.NewEvent(true); err != nil {
			return err
		}
	}
	s := e.gpu.compute
	if err := e.gpu.context.Record(events[0], s); err != nil {
		return err
	}
	for i, o := range e.ops {
		if err := launchAll(o.work, s); err != nil {
			return err
		}
		if err := e.gpu.context.Record(events[i+1], s); err != nil {
			return err
		}
	}
	if err := e.gpu.context.Synchronize(s); err != nil {
		return err
	}
	for i := range best {
		d, err := c.Elapsed(events[i], events[i+1])
		if err != nil {
			return err
		}
		if best[i] == 0 || d < best[i] {
			best[i] = d
		}
	}
	return nil
}
