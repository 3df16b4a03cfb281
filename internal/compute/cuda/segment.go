package cuda

import (
	"errors"
	"fmt"

	"github.com/paragon-train/paragon/internal/compute/cuda/drv"
	"github.com/paragon-train/paragon/internal/compute/cuda/kernels"
	"github.com/paragon-train/paragon/internal/compute/plan"
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

// A segment is ops that are launched together, with the copies before and after.
type segment struct {
	// waits are parameters that it is the first to read, in order.
	waits []int

	up    []span // their memory
	packs *kernels.Table

	// work is that of its ops, and what brings its gradients to the host's form.
	work []launch

	// ends is where in work its ops end.
	ends int

	unpacks *kernels.Table

	// runs is how many it made, or 2 for more.
	runs int

	exec  drv.GraphExec
	eager bool // it cannot be captured

	// ready are parameters whose gradients are final and that are not read any more after it, in
	// order.
	ready []int

	down []span

	// arrived is for its parameters, computed for its work, and left for its gradients and all of
	// earlier segments.
	arrived, computed, left drv.Event
}

// newSchedule cuts the plan into segments. A new one begins where enough gradients are final to
// leave together, where enough parameters are needed next to have come, and behind the last output.
//
// Enough is Config.Bucket, but less in the first layers: their gradients are the last to leave and
// their values the first that the next step wants, so that nothing is computed meanwhile. There the
// forward pass begins with an eighth of it, and may then wait for as much as has come already; and
// gradients leave as soon as they are half of what is left.
//
// With Config.Update neither travels: the only cut is behind the last output, and one launch brings
// all gradients to the order of the parameters and one all parameters to their second form.
func (e *Executor) newSchedule(forward bool) (*schedule, error) {
	p := e.plan
	var ops []int
	for i := range p.Ops {
		if !forward || p.Forward[i] {
			ops = append(ops, i)
		}
	}
	outputs := e.lastOutput(ops)
	travel := e.cfg.Update == nil
	s := &schedule{}
	seen := make([]bool, len(p.Params))
	now := &segment{}

	// The bytes are those of this segment's parameters, of earlier ones', of its gradients, and of
	// those to come.
	var waiting, waited, finished, left int64
	if !forward && p.Grads != nil {
		for _, v := range p.Params {
			left += v.Size()
		}
	}
	least := e.cfg.Bucket / 8
	cut := func() {
		s.segments = append(s.segments, now)
		now, waited, waiting, finished = &segment{}, waited+waiting, 0, 0
	}
	for k, i := range ops {
		o := p.Ops[i]
		var first []int
		var bytes int64
		for _, v := range o.In {
			if v == nil || v.Root().Source != plan.Parameter || seen[v.Root().Index] {
				continue
			}
			n := v.Root().Index
			seen[n] = true
			first = append(first, n)
			bytes += p.Params[n].Size()
		}
		if most := min(max(least, waited), e.cfg.Bucket); travel && bytes > 0 && waiting >= most/2 && waiting+bytes > most {
			cut()
		}
		waiting += bytes
		now.waits = append(now.waits, first...)
		now.work = append(now.work, e.ops[i].work...)
		if !forward && p.Grads != nil {
			for _, n := range p.Ready[i] {
				now.ready = append(now.ready, n)
				finished += p.Params[n].Size()
				left -= p.Params[n].Size()
			}
		}
		if i == outputs {
			s.outputs = len(s.segments)
		}
		if k == len(ops)-1 || i == outputs || travel && (finished >= e.cfg.Bucket || finished >= max(least, left)) {
			cut()
		}
	}
	if len(s.segments) == 0 {
		cut()
	}
	for _, g := range s.segments {
		if err := e.finish(g); err != nil {
			return nil, errors.Join(err, s.close(e.gpu))
		}
	}
	return s, nil
}

// lastOutput is the last op that makes the loss or an output, or moves a running statistic.
func (e *Executor) lastOutput(ops []int) int {
	outputs := map[*plan.Value]bool{e.plan.Loss.Root(): true}
	for _, v := range e.plan.Outputs {
		outputs[v.Root()] = true
	}
	last := -1
	for _, i := range ops {
		o := e.plan.Ops[i]
		if o.Kind == plan.BatchNorm && !e.plan.Inference {
			last = i
		}
		for _, v := range o.Out {
			if v != nil && outputs[v.Root()] {
				last = i
			}
		}
	}
	return last
}

// finish adds to a segment what comes before and after its ops.
func (e *Executor) finish(g *segment) error {
	var copies []kernels.Tensor
	for _, n := range g.waits {
		p, err := e.store.params.span(e.host.Params[n])
		if err != nil {
			return err
		}
		g.up = append(g.up, p)
		copies = append(copies, e.copies[n]...)
	}
	g.up = joined(g.up, e.store.params.order)
	var err error
	if len(copies) > 0 {
		if g.packs, err = e.gpu.kernels.NewTable(e.gpu.up, copies); err != nil {
			return fmt.Errorf("cuda: %w", err)
		}
	}
	g.ends = len(g.work)
	if err := e.finishGradients(g); err != nil {
		return err
	}
	for _, event := range []*drv.Event{&g.arrived, &g.computed, &g.left} {
		if *event, err = e.gpu.context.NewEvent(false); err != nil {
			return err
		}
	}
	return nil
}

// finishGradients brings the segment's gradients to the host's order and, where that is left to do,
// divides them by the scale of the loss and multiplies them by the gradient scale.
func (e *Executor) finishGradients(g *segment) error {
	scaled := e.scaler.on || e.plan.ScaleGrads
	var unpacks []kernels.Tensor
	var rest []span
	for _, n := range g.ready {
		p, err := e.store.grads.span(e.host.Grads[n])
		if err != nil {
			return err
		}
		g.down = append(g.down, p)
		if t := e.unpacks[n]; t != nil {
			unpacks = append(unpacks, *t)
		} else {
			rest = append(rest, p)
		}
	}
	g.down = joined(g.down, e.store.grads.order)
	if e.cfg.Update != nil {
		g.down = nil
	}
	var factor, found drv.Ptr
	if scaled {
		factor = e.numbers.factor()
	}
	if e.scaler.on {
		found = e.numbers.found()
	}
	k := e.gpu.kernels
	if len(unpacks) > 0 {
		table, err := k.NewTable(e.gpu.up, unpacks)
		if err != nil {
			return fmt.Errorf("cuda: %w", err)
		}
		g.unpacks = table
		g.work = append(g.work, func(s drv.Stream) error { return k.Unpack(s, table, 1, factor, found) })
	}
	if !scaled {
		return nil
	}

	// What lies between them is zero and stays that.
	for _, p := range joined(rest, e.store.grads.order) {
		at, n := p.mirror.device+drv.Ptr(p.from), p.n/4
		g.work = append(g.work, func(s drv.Stream) error { return k.Unscale(s, kernels.Float32, n, at, at, 1, factor, found) })
	}
	return nil
}

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
