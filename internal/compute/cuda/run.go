package cuda

import (
	"context"
	"errors"
	"fmt"

	"github.com/paragon-train/paragon/internal/compute/cuda/drv"
	"github.com/paragon-train/paragon/internal/compute/plan"
)

// Run goes through the plan once, or with forward only through the ops that the loss and the
// outputs need.
//
// It launches segment after segment without waiting for the device; Wait is called before the
// segment that reads a parameter first. Then it waits for the segments' gradients, in order, and
// calls Ready while the device is at later ones. It looks at ctx between segments and between calls
// of Ready. When it returns, also with an error, the device neither reads nor writes the host's
// memory any more; after an error gradients, outputs and running statistics are in no defined
// state.
func (e *Executor) Run(ctx context.Context, forward bool, hooks plan.Hooks) error {
	if e.failed != nil {
		return fmt.Errorf("cuda: run on %s: an earlier error has made it unusable: %w", e.gpu.Name(), e.failed)
	}
	s := e.schedules.full
	if forward {
		s, hooks = e.schedules.forward, plan.Hooks{}
	}
	if err := e.inputs.take(e.examples); err != nil {
		return err
	}
	err := e.launch(ctx, s, forward, hooks)
	if err == nil {
		err = e.collect(ctx, s, forward, hooks)
	}
	if err != nil {
		return fmt.Errorf("cuda: run on %s: %w", e.gpu.Name(), e.breakOff(err))
	}
	if !forward {
		e.store.step++
	}
	return nil
}

// breakOff waits until the device is at rest after an error.
func (e *Executor) breakOff(err error) error {
	lost := e.drain()
	if lost == nil {
		return err
	}
	e.gpu.noteLoss(lost)
	if e.failed = lost; !errors.Is(err, lost) {
		err = errors.Join(err, lost)
	}
	return err
}

// launch gives all of a run to the device.
func (e *Executor) launch(ctx context.Context, s *schedule, forward bool, hooks plan.Hooks) error {
	upload := e.fresh.stale(s, e.schedules.full)
	seed, factor := e.factors()
	if err := e.gpu.context.Do(func() error { return e.begin(upload, seed, factor) }); err != nil {
		return err
	}
	for k, g := range s.segments {
		if hooks.Wait != nil {
			for _, n := range g.waits {
				hooks.Wait(n)
			}
		}
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("stopped before segment %d of %d: %w", k, len(s.segments), err)
		}
		err := e.gpu.context.Do(func() error { return e.launchSegment(s, k, upload, forward) })
		if err != nil {
			return fmt.Errorf("segment %d of %d: %w", k, len(s.segments), err)
		}
	}
	if upload {
		e.fresh.took(s)
	}
	return nil
}

// factors are what the loss's gradient is and what gradients are multiplied by at their end.
func (e *Executor) factors() (seed, factor float32) {
	if e.examples.none {
		return 0, 0
	}
	seed, factor = e.store.gradScale, e.store.gradScale
	if e.scaler.on {
		seed, factor = e.scaler.scale, e.store.gradScale/e.scaler.scale
	}
	if e.plan.Seed == nil {
		factor = e.store.gradScale
	}
	return seed, factor
}

// begin copies what every segment needs.
func (e *Executor) begin(upload bool, seed, factor float32) error {
	up := e.gpu.up
	if err := e.numbers.up(up, seed, factor, e.store.step, e.cfg.Stream); err != nil {
		return err
	}
	if err := e.inputs.up(up); err != nil {
		return err
	}
	if !upload {
		return nil
	}
	return e.store.statesUp(up)
}

// launchSegment puts a segment's parameters on the upward stream, its ops on the computing one and
// its results on the downward one.
func (e *Executor) launchSegment(s *schedule, k int, upload, forward bool) error {
	g, gpu, c := s.segments[k], e.gpu, e.gpu.context
	if upload {
		if err := e.parametersUp(g); err != nil {
			return err
		}
	}
	if k == 0 || upload && len(g.up) > 0 {
		if err := order(c, gpu.up, g.arrived, gpu.compute); err != nil {
			return err
		}
	}
	if err := e.work(g); err != nil {
		return err
	}
	if k == len(s.segments)-1 && s.update != nil {
		if err := e.work(s.update); err != nil {
			return err
		}
	}
	return e.resultsDown(s, k, forward)
}

// parametersUp copies the parameters that a segment is the first to read, and makes their second
// form.
func (e *Executor) parametersUp(g *segment) error {
	for _, p := range g.up {
		if err := p.up(e.gpu.up); err != nil {
			return err
		}
	}
	if g.packs == nil {
		return nil
	}
	return e.gpu.kernels.Pack(e.gpu.up, g.packs)
}

// resultsDown copies what is final behind a segment's work.
func (e *Executor) resultsDown(s *schedule, k int, forward bool) error {
	g, gpu := s.segments[k], e.gpu
	if err := order(gpu.context, gpu.compute, g.computed, gpu.down); err != nil {
		return err
	}
	for _, p := range g.down {
		if err := p.down(gpu.down); err != nil {
			return err
		}
	}
	if k == s.outputs {
		if err := e.outputsDown(); err != nil {
			return err
		}
	}
	if k == len(s.segments)-1 && e.scaler.on && !forward {
		if err := e.numbers.foundDown(gpu.down); err != nil {
			return err
		}
	}
	return gpu.context.Record(g.left, gpu.down)
}

// order lets a stream wait for all that is on another one now.
func order(c driver, first drv.Stream, event drv.Event, then drv.Stream) error {
	if err := c.Record(event, first); err != nil {
		return err
	}
	return c.WaitEvent(then, event)
}

// work launches the ops of a segment: one by one in the first run, which lets libraries make what
// they make once; in the second it captures them into a graph, which is launched from then on. Work
// that cannot be captured is launched one by one for ever.
func (e *Executor) work(g *segment) error {
	c, s := e.gpu.context, e.gpu.compute
	if len(g.work) == 0 {
		return nil
	}
	if e.examples.short() {
		return launchAll(g.work, s)
	}
	if g.exec == 0 && g.runs == 1 && !e.cfg.Eager && !g.eager {
		exec, err := capture(c, s, g.work)
		if errors.Is(err, drv.ErrLost) {
			return err
		}
		if g.exec, g.eager = exec, err != nil; err != nil && e.gpu.warn != nil {
			e.gpu.warn("a part of the step cannot be captured into a graph and is launched kernel by kernel", "device", e.gpu.Name(), "kernels", len(g.work), "error", err)
		}
	}
	g.runs = min(g.runs+1, 2)
	if g.exec == 0 {
		return launchAll(g.work, s)
	}
	return c.GraphLaunch(g.exec, s)
}

// capture makes a graph of launches, none of which is done.
func capture(c driver, s drv.Stream, work []launch) (drv.GraphExec, error) {
	if err := c.BeginCapture(s); err != nil {
		return 0, err
	}
	launched := launchAll(work, s)
	graph, err := c.EndCapture(s)
	if err = errors.Join(launched, err); err != nil {
		if graph != 0 {
			err = errors.Join(err, c.DestroyGraph(graph))
		}
		return 0, err
	}
	exec, err := c.Instantiate(graph)
	return exec, errors.Join(err, c.DestroyGraph(graph))
}

// launchAll puts launches on a stream in order, up to the first that fails.
func launchAll(work []launch, s drv.Stream) error {
	for _, f := range work {
		if err := f(s); err != nil {
			return err
		}
	}
	return nil
}

// outputsDown copies the loss, the outputs and the running statistics to the host.
func (e *Executor) outputsDown() error {
	if err := e.results.down(); err != nil {
		return err
	}
	if e.plan.Inference {
		return nil
	}
	return e.store.statesDown(e.gpu.down)
}

// collect waits for what comes back from the device, and hands it to the hooks.
func (e *Executor) collect(ctx context.Context, s *schedule, forward bool, hooks plan.Hooks) error {
	for k, g := range s.segments {
		last := k == len(s.segments)-1
		if !last && len(g.ready) == 0 {
			continue
		}
		if e.scaler.on && !last {
			// No gradient is handed out before all are known to be finite.
			continue
		}
		if err := e.watch.wait(g.left, e.cfg.Timeout); err != nil {
			return fmt.Errorf("segment %d of %d: %w", k, len(s.segments), err)
		}
		if last && !e.plan.Inference {
			e.store.statesLanded()
		}
		done := s.segments[k : k+1]
		if e.scaler.on {
			done = s.segments
			if !forward {
				e.scaler.stepped(!e.numbers.wasFound())
			}
		}
		for _, g := range done {
			for _, p := range g.down {
				p.landed()
			}
		}
		for _, g := range done {
			if err := e.hand(ctx, g, hooks); err != nil {
				return err
			}
		}
	}
	return nil
}

// hand calls Ready for the parameters of a segment.
func (e *Executor) hand(ctx context.Context, g *segment, hooks plan.Hooks) error {
	for _, n := range g.ready {
		if e.scaler.skipped {
			clear(e.host.Grads[n])
		}
		if hooks.Ready == nil {
			continue
		}
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("stopped before the gradient of %q was handed over: %w", e.plan.Params[n].Name, err)
		}
		hooks.Ready(n)
	}
	return nil
}

// drain waits until the device is at rest, after a run that was broken off. An error means that it
// is lost.
func (e *Executor) drain() error {
	if err := e.gpu.context.Do(e.rest.begin); err != nil {
		return err
	}
	return e.watch.wait(e.rest.last(), e.cfg.Timeout)
}
