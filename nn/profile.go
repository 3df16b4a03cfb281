package nn

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// OpTime is the time that one operation of a program's plan took.
type OpTime struct {
	Kind string // "Conv2D", "BatchNorm", ...
	Op   string // the operation with its shapes
	Time time.Duration
}

// Profile runs n steps on the inputs as they are and returns each operation's shortest time, in the order of the plan. It moves
// running statistics like a step.
func (p *Program) Profile(ctx context.Context, n int) ([]OpTime, error) {
	if p.executor == nil {
		return nil, errClosed
	}
	e, ok := p.executor.(interface {
		Profile(ctx context.Context, n int) ([]time.Duration, error)
	})
	if !ok {
		return nil, errors.New("nn: profile: the program's device has no profile")
	}
	times, err := e.Profile(ctx, n)
	if err != nil {
		return nil, fmt.Errorf("nn: profile: %w", err)
	}
	out := make([]OpTime, len(times))
	for i, o := range p.plan.Ops {
		out[i] = OpTime{o.Kind.String(), o.String(), times[i]}
	}
	return out, nil
}
