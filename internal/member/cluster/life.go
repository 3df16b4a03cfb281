package cluster

import (
	"context"
	"fmt"
	"sync"
)

// A life is the time for which a node takes part in its job. It ends once, for the first reason
// that is given.
type life struct {
	// ctx ends with it, and with ctx all that waits for the scheduler.
	ctx    context.Context
	cancel context.CancelFunc
	// done is closed when it has ended.
	done chan struct{}

	// mu guards all below.
	mu    sync.Mutex
	ended bool
	// err is why it ended; nil: the job has finished.
	err error
}

func newLife() *life {
	l := &life{done: make(chan struct{})}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	return l
}

// end ends the life, and reports whether it had not ended before.
func (l *life) end(err error) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		return false
	}
	l.ended, l.err = true, err
	close(l.done)
	l.cancel()
	return true
}

// reason is why it has ended; nil before that, and when the job has finished.
func (l *life) reason() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// over is an error once it has ended, and nil before.
func (l *life) over() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case !l.ended:
		return nil
	case l.err != nil:
		return l.err
	}
	return fmt.Errorf("cluster: %w", ErrFinished)
}
