package run

import (
	"context"
	"fmt"
	"time"

	"github.com/paragon-train/paragon/internal/hosts/hosts"
	"github.com/paragon-train/paragon/launch/internal/job"
	"github.com/paragon-train/paragon/launch/internal/method"
)

// leave gives a start method up. goesOn says that the job may go on with another launch.
func leave(m method.Method, goesOn bool) {
	if a, ok := m.(method.Abandoner); ok && goesOn {
		a.Abandon()
		return
	}
	m.Close()
}

// findHosts waits for the hosts of the job, for as long as a start may take.
func findHosts(ctx context.Context, m method.Method, timeout time.Duration) (method.Hosts, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("gave up after %s (--start-timeout)", timeout))
	defer cancel()
	return m.Hosts(ctx)
}

// dial connects to a host, and copies the current folder there if asked to.
func dial(ctx context.Context, by method.Method, h hosts.Host) (job.Machine, error) {
	m, err := by.Dial(ctx, h)
	if err != nil {
		return nil, err
	}
	if copier, ok := by.(method.Copier); ok && copier.SyncDir() != "" {
		if err := copier.Sync(ctx, m); err != nil {
			m.Close()
			return nil, copyError{err}
		}
	}
	return m, nil
}

// A copyError is why the current folder was not copied to a host that was reached.
type copyError struct{ error }

// Unwrap tells that it is about the copy, beside the cause.
func (e copyError) Unwrap() []error { return []error{e.error, job.ErrCopy} }
