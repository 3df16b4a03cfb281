package cluster

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
)

// A life is the time for which a node takes part in its job. It ends once, for the first reason
// that is given.
type life struct {
	// ctx ends with it, and with ctx all that waits for the scheduler.
	ctx    context.Context
	cancel context.CancelFunc
	// done is closed when it has ended.
	done chan struct{}

	// ended says that it has. It changes under mu.
	ended atomic.Bool

	// mu guards err, which is why it ended; nil: the job has finished.
	mu  sync.Mutex
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
	if l.ended.Load() {
		return false
	}
	l.err = err
	l.ended.Store(true)
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
	if !l.ended.Load() {
		return nil
	}
	if err := l.reason(); err != nil {
		return err
	}
	return fmt.Errorf("cluster: %w", ErrFinished)
}
