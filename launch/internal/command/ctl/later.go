package ctl

import (
	"context"
	"errors"
	"time"

	"github.com/paragon-train/paragon/internal/member/control"
)

// laterEvery is how often a job is asked again that is not ready yet.
const laterEvery = 200 * time.Millisecond

// askLater asks again while the answer is control.ErrLater, for so long, and returns the last
// answer.
func askLater(ctx context.Context, longest time.Duration, ask func() error) error {
	for begin := time.Now(); ; {
		err := ask()
		if !errors.Is(err, control.ErrLater) || time.Since(begin) > longest {
			return err
		}
		select {
		case <-time.After(laterEvery):
		case <-ctx.Done():
			return err
		}
	}
}
