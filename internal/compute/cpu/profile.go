package cpu

import (
	"context"
	"time"

	"github.com/paragon-train/paragon/internal/compute/plan"
)

// Profile runs the plan n times and returns for each op the shortest time that it took.
func (e *Executor) Profile(ctx context.Context, n int) ([]time.Duration, error) {
	best := make([]time.Duration, len(e.steps))
	plain := e.steps
	defer func() { e.steps = plain }()
	e.steps = make([]func() error, len(plain))
	for i, step := range plain {
		e.steps[i] = func() error {
			start := time.Now()
			err := step()
			if d := time.Since(start); best[i] == 0 || d < best[i] {
				best[i] = d
			}
			return err
		}
	}
	for range n {
		if err := e.Run(ctx, false, plan.Hooks{}); err != nil {
			return nil, err
		}
	}
	return best, nil
}
