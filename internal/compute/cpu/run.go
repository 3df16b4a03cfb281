package cpu

import (
	"context"
	"fmt"
	"runtime"

	"github.com/paragon-train/paragon/internal/compute/f32"
	"github.com/paragon-train/paragon/internal/compute/plan"
)

// Run goes through the plan once, or with forward only through the ops that the loss and the
// outputs need. It looks at ctx between ops. After an error the gradients and outputs are in no
// defined state, and the running statistics are as before the run.
//
// A run without examples computes nothing: gradients, loss and outputs are zero.
func (e *Executor) Run(ctx context.Context, forward bool, hooks plan.Hooks) error {
	e.begin()
	e.mem.shared.counts.forward = forward

	// toldBackward is true once there is nobody to tell that the backward pass begins.
	toldBackward := forward || hooks.Backward == nil
	for i := range e.steps {
		if forward && !e.plan.Forward[i] {
			continue
		}
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("cpu: run: stopped before op %d of %d: %w", i, len(e.steps), err)
		}
		if !toldBackward && !e.plan.Forward[i] {
			toldBackward = true
			hooks.Backward()
		}
		if hooks.Wait != nil {
			for _, k := range e.plan.FirstUse[i] {
				hooks.Wait(k)
			}
		}
		if err := e.step(i); err != nil {
			return err
		}
		if !forward {
			e.finishGrads(e.plan.Ready[i], hooks)
		}
	}
	e.running.commit()
	if !forward {
		e.mem.shared.counts.step++
	}
	return nil
}

// begin sets what ops find before the first of them runs.
func (e *Executor) begin() {
	if e.plan.Seed != nil {
		e.mem.floats(e.plan.Seed)[0] = e.mem.shared.counts.gradScale
	}
	e.running.begin()
	if e.examples.none {
		e.clearOutputs()
	}
}

// step runs op i, unless there are no examples.
func (e *Executor) step(i int) error {
	// It lets through what moves gradients: on one core a goroutine that computes gives way
	// every 10 ms only.
	runtime.Gosched()
	if e.examples.none {
		return nil
	}
	if err := e.steps[i](); err != nil {
		o := e.plan.Ops[i]
		return fmt.Errorf("cpu: run node %q: %v: %w", o.Node, o.Kind, err)
	}
	return nil
}

// finishGrads scales the gradients that are complete, if the plan leaves that to its executor, and
// hands them over.
func (e *Executor) finishGrads(ready []int, hooks plan.Hooks) {
	scale := e.mem.shared.counts.gradScale
	for _, k := range ready {
		switch g := e.host.Grads[k]; {
		case e.examples.none:
			clear(g)
		case e.plan.ScaleGrads && scale != 1:
			f32.Scale(g, scale, g)
		}
		if hooks.Ready != nil {
			hooks.Ready(k)
		}
	}
}

// clearOutputs makes loss and outputs those of a run without examples.
func (e *Executor) clearOutputs() {
	for _, v := range append([]*plan.Value{e.plan.Loss}, e.plan.Outputs...) {
		if r := v.Root(); r.Source == plan.Output && !r.Boxed {
			clear(e.mem.floats(r))
		}
	}
}
