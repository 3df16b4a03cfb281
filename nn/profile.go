package nn

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/paragon-train/paragon/internal/compute/cpu"
)

// OpTime is the time that one operation of a program's plan took.
type OpTime struct {
	Kind string // "Conv2D", "BatchNorm", ...
	Op   string // the operation with its shapes
	Time time.Duration
}

// Profile runs n steps on the current inputs and returns each operation's shortest time, in the
// order of the plan. It changes running statistics as a step does.
func (p *Program) Profile(ctx context.Context, n int) ([]OpTime, error) {
	if p.executor == nil {
		return nil, errClosed
	}
	e, ok := p.executor.(interface {
		Profile(ctx context.Context, n int) ([]time.Duration, error)
	})
	if !ok {
		return nil, errors.New("nn: profile: the program's device does not support profiles")
	}
	if err := p.begin(); err != nil {
		return nil, err
	}
	defer p.end()
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

// OpParts is how the work of one operation is cut for the program's threads. The operation is
// Serial on one thread, and one after the other Runs, each a list of pieces that threads take in
// order.
type OpParts struct {
	Kind   string
	Op     string
	Runs   [][]time.Duration // the time of each piece
	Serial time.Duration
}

// Parts runs n steps on one thread, cut for Config.Threads, and returns the shortest times of each
// operation's pieces, in the order of the plan: with these the time on more cores than the machine
// has can be predicted. used, if not nil, returns the time that the calling thread has spent on a
// core (the caller must be locked to its thread), so that other programs' load does not count. It
// changes running statistics as a step does.
func (p *Program) Parts(ctx context.Context, n int, used func() time.Duration) ([]OpParts, error) {
	if p.executor == nil {
		return nil, errClosed
	}
	e, ok := p.executor.(interface {
		Parts(ctx context.Context, n int, used func() time.Duration) ([]cpu.Parts, error)
	})
	if !ok {
		return nil, errors.New("nn: parts: the program's device does not measure them")
	}
	if err := p.begin(); err != nil {
		return nil, err
	}
	defer p.end()
	parts, err := e.Parts(ctx, n, used)
	if err != nil {
		return nil, fmt.Errorf("nn: parts: %w", err)
	}
	out := make([]OpParts, len(parts))
	for i, o := range p.plan.Ops {
		out[i] = OpParts{o.Kind.String(), o.String(), parts[i].Runs, parts[i].Serial}
	}
	return out, nil
}
