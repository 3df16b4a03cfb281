package kvstore

import (
	"context"
	"sync"
)

// A turn is a lock that can be waited for together with a context. It takes memory beyond its own
// only while somebody waits, unlike a channel: a job may have a hundred thousand keys.
//
// The mutex that its methods are given guards it. They lock it for a moment; they do not hold it
// while they wait.
type turn struct {
	taken bool
	// given is closed when the turn is given back; nil: nobody waits.
	given chan struct{}
}

// try takes the turn if it is free.
func (t *turn) try(mu *sync.Mutex) bool {
	mu.Lock()
	defer mu.Unlock()
	if t.taken {
		return false
	}
	t.taken = true
	return true
}

// take waits for the turn. It returns false, without the turn, if ctx ends or quit is closed first.
// Who waits longest does not come first: a worker makes one call on a key at a time, and what else
// takes turns (Snapshot, Residuals) comes seldom.
func (t *turn) take(ctx context.Context, mu *sync.Mutex, quit <-chan struct{}) bool {
	for {
		mu.Lock()
		if !t.taken {
			t.taken = true
			mu.Unlock()
			return true
		}
		if t.given == nil {
			t.given = make(chan struct{})
		}
		given := t.given
		mu.Unlock()
		select {
		case <-given:
		case <-ctx.Done():
			return false
		case <-quit:
			return false
		}
	}
}

// give gives the turn back to all who wait for it, of whom one takes it. Only the holder calls it.
func (t *turn) give(mu *sync.Mutex) {
	mu.Lock()
	defer mu.Unlock()
	t.taken = false
	if t.given != nil {
		close(t.given)
		t.given = nil
	}
}
