package objects

import (
	"context"
	"fmt"
	"io"
	"time"
)

// StallLimit is how long a server may send nothing before a request to it is given up.
const StallLimit = time.Minute

// A Guard ends a request when nothing has arrived for a while.
type Guard struct {
	limit  time.Duration
	alarm  *time.Timer
	cancel context.CancelCauseFunc
}

// NewGuard returns a context for a request, which ends when nothing arrives for so long, and its
// guard, to be stopped.
func NewGuard(ctx context.Context, limit time.Duration) (context.Context, *Guard) {
	ctx, cancel := context.WithCancelCause(ctx)
	stalled := fmt.Errorf("the server sent nothing for %v", limit)
	return ctx, &Guard{limit, time.AfterFunc(limit, func() { cancel(stalled) }), cancel}
}

// Body reads a body and puts the alarm off at each read.
func (g *Guard) Body(body io.Reader) io.Reader { return guarded{body, g} }

type guarded struct {
	io.Reader
	guard *Guard
}

func (g guarded) Read(p []byte) (int, error) {
	n, err := g.Reader.Read(p)
	g.guard.alarm.Reset(g.guard.limit)
	return n, err
}

// Stop ends the context.
func (g *Guard) Stop() {
	g.alarm.Stop()
	g.cancel(nil)
}

// Because returns the reason that ctx ended, if it did, else err.
func Because(ctx context.Context, err error) error {
	if reason := context.Cause(ctx); reason != nil {
		return reason
	}
	return err
}
