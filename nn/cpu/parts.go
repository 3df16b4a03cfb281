package cpu

import (
	"context"
	"time"

	"github.com/paragon-train/paragon/nn/plan"
)

// Parts is how the work of one op is cut: the time of every piece of every run of the pool, and what lies outside of runs, on
// one thread.
type Parts struct {
	Runs   [][]time.Duration
	Serial time.Duration
}

// Parts runs the plan n times on one thread, cut for as many threads as the pool has, and returns for each op the shortest
// times seen.
func (e *Executor) Parts(ctx context.Context, n int) ([]Parts, error) {
	out := make([]Parts, len(e.steps))
	plain := e.steps
	op, run, inRuns := 0, 0, time.Duration(0)
	e.pool.Record(func(parts []time.Duration) {
		p := &out[op]
		if run == len(p.Runs) {
			p.Runs = append(p.Runs, parts)
		}
		for i, d := range parts {
			p.Runs[run][i] = min(p.Runs[run][i], d)
			inRuns += d
		}
		run++
	})
	defer func() {
		e.steps = plain
		e.pool.Record(nil)
	}()
	e.steps = make([]func() error, len(plain))
	for i, step := range plain {
		first := true
		e.steps[i] = func() error {
			op, run, inRuns = i, 0, 0
			begun := time.Now()
			err := step()
			if serial := time.Since(begun) - inRuns; first || serial < out[i].Serial {
				out[i].Serial = serial
			}
			first = false
			return err
		}
	}
	for range n {
		if err := e.Run(ctx, false, plan.Hooks{}); err != nil {
			return nil, err
		}
	}
	return out, nil
}
