package cuda

import (
	"errors"
	"fmt"

	"github.com/paragon-train/paragon/internal/compute/cuda/drv"
	"github.com/paragon-train/paragon/internal/compute/cuda/kernels"
	"github.com/paragon-train/paragon/internal/compute/plan"
)

// A segmenter cuts a plan into segments, and adds to each what brings parameters to the device and
// gradients from it.
type segmenter struct {
	gpu     *GPU
	plan    *plan.Plan
	host    *plan.Host
	store   *store
	numbers *numbers
	forms   *weightForms
	scaler  *scaler

	// bucket and update are those of Config.
	bucket int64
	update Update
}

// schedules makes both schedules of the ops.
func (s *segmenter) schedules(ops []lowered) (made schedules, err error) {
	if made.forward, err = s.schedule(ops, true); err != nil || s.plan.Grads == nil {
		return made, err
	}
	if made.full, err = s.schedule(ops, false); err == nil && s.update != nil {
		made.full.update = s.updateOf(made.full)
	}
	return made, err
}

// schedule cuts the plan into segments, or with forward the ops that loss and outputs need.
func (s *segmenter) schedule(ops []lowered, forward bool) (*schedule, error) {
	made := cutPlan(s.plan, s.bucket, s.update == nil, forward)
	for _, g := range made.segments {
		for _, i := range g.ops {
			g.work = append(g.work, ops[i].work...)
		}
		if err := s.finish(g); err != nil {
			return nil, errors.Join(err, made.close(s.gpu))
		}
	}
	return made, nil
}

// finish adds to a segment what comes before and after its ops.
func (s *segmenter) finish(g *segment) error {
	var copies []kernels.Tensor
	for _, n := range g.waits {
		p, err := s.store.params.span(s.host.Params[n])
		if err != nil {
			return err
		}
		g.up = append(g.up, p)
		copies = append(copies, s.forms.copies[n]...)
	}
	g.up = joined(g.up, s.store.params.order)
	var err error
	if len(copies) > 0 {
		if g.packs, err = s.gpu.kernels.NewTable(s.gpu.up, copies); err != nil {
			return fmt.Errorf("cuda: %w", err)
		}
	}
	g.ends = len(g.work)
	if err := s.finishGradients(g); err != nil {
		return err
	}
	for _, event := range []*drv.Event{&g.arrived, &g.computed, &g.left} {
		if *event, err = s.gpu.context.NewEvent(false); err != nil {
			return err
		}
	}
	return nil
}

// finishGradients brings the segment's gradients to the host's order and, where that is left to do,
// divides them by the scale of the loss and multiplies them by the gradient scale.
func (s *segmenter) finishGradients(g *segment) error {
	scaled := s.scaler.on || s.plan.ScaleGrads
	var unpacks []kernels.Tensor
	var rest []span
	for _, n := range g.ready {
		p, err := s.store.grads.span(s.host.Grads[n])
		if err != nil {
			return err
		}
		g.down = append(g.down, p)
		if t := s.forms.unpacks[n]; t != nil {
			unpacks = append(unpacks, *t)
		} else {
			rest = append(rest, p)
		}
	}
	g.down = joined(g.down, s.store.grads.order)
	if s.update != nil {
		g.down = nil
	}
	var factor, found drv.Ptr
	if scaled {
		factor = s.numbers.factor()
	}
	if s.scaler.on {
		found = s.numbers.found()
	}
	k := s.gpu.kernels
	if len(unpacks) > 0 {
		table, err := k.NewTable(s.gpu.up, unpacks)
		if err != nil {
			return fmt.Errorf("cuda: %w", err)
		}
		g.unpacks = table
		g.work = append(g.work, func(stream drv.Stream) error { return k.Unpack(stream, table, 1, factor, found) })
	}
	if !scaled {
		return nil
	}

	// What lies between them is zero and stays that.
	for _, p := range joined(rest, s.store.grads.order) {
		at, n := p.mirror.device+drv.Ptr(p.from), p.n/4
		g.work = append(g.work, func(stream drv.Stream) error { return k.Unscale(stream, kernels.Float32, n, at, at, 1, factor, found) })
	}
	return nil
}

// updateOf is the segment of Config.Update: the change, and the parameters' second forms made
// anew.
func (s *segmenter) updateOf(full *schedule) *segment {
	pieces := s.pieces()
	g := &segment{work: []launch{func(stream drv.Stream) error { return s.update(stream, pieces, s.numbers.found()) }}}
	for _, from := range full.segments {
		if t := from.packs; t != nil {
			g.work = append(g.work, func(stream drv.Stream) error { return s.gpu.kernels.Pack(stream, t) })
		}
	}
	return g
}

// pieces joins parameters whose values lie to each other as their gradients do.
func (s *segmenter) pieces() []Piece {
	var out []Piece
	for i := range s.plan.Params {
		p := Piece{s.store.params.where(s.host.Params[i]), s.store.grads.where(s.host.Grads[i]), int64(len(s.host.Params[i]))}
		if k := len(out) - 1; k >= 0 {
			last := &out[k]
			gap := int64(p.Params-last.Params) - 4*last.N
			if gap >= 0 && gap < 64 && p.Grads-last.Grads == p.Params-last.Params {
				last.N = int64(p.Params-last.Params)/4 + p.N
				continue
			}
		}
		out = append(out, p)
	}
	return out
}
