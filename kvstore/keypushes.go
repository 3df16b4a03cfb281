package kvstore

import (
	"context"
	"sync"
)

// A rounds counts one worker's pushes of a key, and lets them follow one another.
//
// A push has a sequence number, which servers use to count it once, and the number of the round
// that it is for. Both go up by one when the push is acknowledged. After a push that failed they
// stay: the next push has the same numbers, so that the shards which have counted it do not again.
type rounds struct {
	// async says that each push is a round by itself.
	async bool

	// mu guards the fields below.
	mu sync.Mutex
	// turn is held by a call that pushes, or that must see no push under way.
	turn turn
	// acked is how many pushes were acknowledged.
	acked uint64
	// round is how many rounds must have closed before the value contains the last of them, and
	// so the round of the next push.
	round uint64
	// unresolved says that the last push failed: some shards may have counted it.
	unresolved bool
}

// take waits for the turn. It returns false, without the turn, if ctx ends or quit is closed first.
func (r *rounds) take(ctx context.Context, quit <-chan struct{}) bool {
	return r.turn.take(ctx, &r.mu, quit)
}

// try takes the turn if it is free.
func (r *rounds) try() bool { return r.turn.try(&r.mu) }

// give gives the turn back. Only the holder calls it.
func (r *rounds) give() { r.turn.give(&r.mu) }

// next returns the number of this worker's last push, and the round of its next one. In an
// asynchronous store that is the number of pushes so far.
func (r *rounds) next() (seq, round uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.async {
		return r.acked, r.acked
	}
	return r.acked, r.round
}

// wanted returns what a pull asks for: the number of this worker's last push, and how many rounds
// must have closed.
func (r *rounds) wanted() (seq, round uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.async {
		return r.acked, 0
	}
	return r.acked, r.round
}

// pushed records how a push ended.
func (r *rounds) pushed(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.unresolved = err != nil; err == nil {
		r.acked++
		r.round++
	}
}

// set sets the round of the next push, as read from a server or from a file. A push that failed is
// not repeated then; a shard may have counted its number, which is not used again.
func (r *rounds) set(round uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.round = round
	if r.unresolved {
		r.acked++
		r.unresolved = false
	}
}
