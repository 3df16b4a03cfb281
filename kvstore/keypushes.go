package kvstore

import (
	"context"
	"sync"
)

// keyPushes counts one worker's pushes of a key, and lets them follow one another. The rounds
// themselves are the servers' (package shard): of them only the number is known here.
//
// A push has a sequence number, which servers use to count it once, and the number of the round
// that it is for. Both go up by one when the push is acknowledged. After a push that failed they
// stay: the next push has the same numbers, so that the shards which have counted it do not again.
type keyPushes struct {
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
	// clip is the round whose gradients ClipGlobalNorm clips next.
	clip uint64
	// unresolved says that the last push failed: some shards may have counted it.
	unresolved bool
}

// take waits for the turn. It returns false, without the turn, if ctx ends or quit is closed first.
func (p *keyPushes) take(ctx context.Context, quit <-chan struct{}) bool {
	return p.turn.take(ctx, &p.mu, quit)
}

// try takes the turn if it is free.
func (p *keyPushes) try() bool { return p.turn.try(&p.mu) }

// give gives the turn back. Only the holder calls it.
func (p *keyPushes) give() { p.turn.give(&p.mu) }

// next returns the number of this worker's last push, and the round of its next one. In an
// asynchronous store that is the number of pushes so far.
func (p *keyPushes) next() (seq, round uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.async {
		return p.acked, p.acked
	}
	return p.acked, p.round
}

// wanted returns what a pull asks for: the number of this worker's last push, and how many rounds
// must have closed.
func (p *keyPushes) wanted() (seq, round uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.async {
		return p.acked, 0
	}
	return p.acked, p.round
}

// pushed records how a push ended.
func (p *keyPushes) pushed(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.unresolved = err != nil; err == nil {
		p.acked++
		p.round++
	}
}

// set sets the round of the next push, as read from a server or from a file. A push that failed is
// not repeated then; a shard may have counted its number, which is not used again.
func (p *keyPushes) set(round uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.round, p.clip = round, round
	if p.unresolved {
		p.acked++
		p.unresolved = false
	}
}

// clipRound returns the round that is to be clipped next: that of the newest push that has ended, or
// the one after those that were clipped, whose push may still be under way.
func (p *keyPushes) clipRound() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return max(p.clip, max(p.round, 1)-1)
}

// clipped records that a round was clipped.
func (p *keyPushes) clipped(round uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clip = max(p.clip, round+1)
}
