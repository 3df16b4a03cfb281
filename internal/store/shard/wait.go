package shard

import "context"

// A Wait is a Want in the shard's queue. It ends with one call of Result, after Done, or of Cancel,
// and must not be used after that: the next Pull may use its memory.
type Wait struct {
	// of is the queue. Nil: the Wait lies in a free list.
	of   *readers
	want Want
	// done holds one token once the wait is over.
	done    chan struct{}
	over    bool
	version *Version
	err     error
}

// Done returns a channel from which one receive succeeds when the wait is over.
func (w *Wait) Done() <-chan struct{} { return w.done }

// Result returns the value, or the error that ended the shard. It is called once, after Done.
func (w *Wait) Result() (*Version, error) {
	r := w.of
	r.mu.Lock()
	defer r.mu.Unlock()
	if !w.over {
		panic("shard: Wait.Result before Done")
	}
	v, err := w.version, w.err
	r.forget(w)
	return v, err
}

// Await waits until the wait is over, or until ctx ends. It is called in place of Result and
// Cancel.
func (w *Wait) Await(ctx context.Context) (*Version, error) {
	select {
	case <-w.Done():
		return w.Result()
	case <-ctx.Done():
		w.Cancel()
		return nil, context.Cause(ctx)
	}
}

// Cancel ends the wait without a result.
func (w *Wait) Cancel() {
	r := w.of
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cancel(w)
	r.forget(w)
}
