package main

import (
	"fmt"
	"math"

	"github.com/paragon-train/paragon/internal/compute/cuda"
	"github.com/paragon-train/paragon/internal/compute/ref"
)

// operand is how a type rounds what is multiplied.
func operand(c cuda.Compute) ref.Format {
	switch c {
	case cuda.BFloat16:
		return ref.BFloat16
	case cuda.Float16:
		return ref.Float16
	}
	return ref.Exact
}

// replay looks at a step op by op: each number that was stored in 16 bits has to be a rounding of what follows from those stored
// before, and the gradients have to be those that follow from what was stored. No ReLU that rounding turns over excuses anything here.
func (c *checker) replay(what string, p *program, typ cuda.Compute, step uint64) error {
	var r *ref.Replay
	for range 16 { // the loss's scale goes down until every gradient is finite
		var err error
		if r, err = ref.NewReplay(p.plan, p.host, operand(typ)); err != nil {
			return err
		}
		// Engines may round parts of sums, which is worth a row and makes what follows no other step.
		r.Scale, r.Step, r.Follow = float64(p.LossScale()), step, 2e-2
		p.SetStep(step)
		if err := p.Inspect(c.ctx, r.Next); err != nil {
			return fmt.Errorf("%s: op by op: %w", what, err)
		}
		if p.Finite() {
			break
		}
	}
	stored, off := r.Worst()
	numbers := 0
	for _, s := range r.Stored() {
		numbers += s.Numbers
	}
	beyond := row{Name: what + ": stored numbers", Status: ok, Value: stored.Beyond, Unit: "of their size beyond rounding", Bound: 1e-3,
		Detail: fmt.Sprintf("%d numbers of 16 bits; most beyond half a step in %s, where %d are more than a fiftieth", numbers, stored.Name, stored.Others)}
	switch {
	case stored.Others > 0 || math.IsNaN(stored.Beyond):
		beyond.Status = fail
	case stored.Beyond > beyond.Bound:
		beyond.Status = miss
	}
	c.within(what+": results in float32", off.Off, 1e-3, "most in "+off.Name)
	if numbers == 0 {
		return nil
	}
	c.row(beyond)
	all, most, name := r.Distance(p.host.Grads)
	c.within(what+roundedSuffix, all, 1e-2, fmt.Sprintf("most in %s: %.3g", name, most))
	return nil
}
