package main

import (
	"context"
	"time"
)

// A spell is some steps in a row.
type spell struct {
	steps     int
	wall, cpu time.Duration
}

// spellOf makes steps until d has passed, at least one.
func spellOf(ctx context.Context, d time.Duration, step func(ctx context.Context) error) (s spell, err error) {
	cpu, start := cpuTime(), time.Now()
	for s.steps == 0 || s.wall < d {
		if err := step(ctx); err != nil {
			return s, err
		}
		s.steps++
		s.wall = time.Since(start)
	}
	s.cpu = cpuTime() - cpu
	return s, nil
}
