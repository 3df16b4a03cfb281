package cpu

import (
	"context"
	"time"

	"github.com/paragon-train/paragon/internal/compute/plan"
)

// Parts is how the work of one op is cut: the time of every piece of every run of the pool, and
// what lies outside of runs, on one thread.
type Parts struct {
	Runs   [][]time.Duration
	Serial time.Duration
}

// Parts runs the plan n times on one thread, cut for as many threads as the pool has, and returns
// for each op the shortest times seen. used is that of Pool.Record, or nil.
func (e *Executor) Parts(ctx context.Context, n int, used func() time.Duration) ([]Parts, error) {
	// looks counts those at the clock in an op, and look is what one takes.
	looks, look := 0, time.Duration(0)
	if used == nil {
		start := time.Now()
		used = func() time.Duration { return time.Since(start) }
	} else {
		clock := used
		used = func() time.Duration { looks++; return clock() }
		look = time.Hour
		for range 50 {
			begun := clock()
			look = min(look, clock()-begun)
		}
	}
	out := make([]Parts, len(e.steps))
	plain := e.steps
	op, run, inRuns := 0, 0, time.Duration(0)
	e.pool.Record(used, func(parts []time.Duration) {
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
		e.pool.Record(nil, nil)
	}()
	e.steps = make([]func() error, len(plain))
	for i, step := range plain {
		first := true
		e.steps[i] = func() error {
			op, run, inRuns = i, 0, 0
			begun := used()
			looks = 0
			err := step()
			if serial := max(used()-begun-inRuns-time.Duration(looks)*look, 0); first || serial < out[i].Serial {
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
