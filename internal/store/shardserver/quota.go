package shardserver

import (
	"sync"
	"sync/atomic"
)

// A quota counts each worker's payloads and answers under way at one shard, so that no sender can
// make the server allocate without bound. It has its own mutex, because the goroutine that reads a
// connection uses it and must not wait for a round's arithmetic.
type quota struct {
	// mu guards shares.
	mu sync.Mutex
	// shares are of the senders that have something under way.
	shares []share
}

// A share is what one sender has under way.
type share struct {
	node uint64
	// count is of payloads and of answers.
	count [2]int
}

// What a share counts.
const (
	payloads = iota
	answers
)

// A claim is one of a sender's payloads or answers under way. Its zero value is none, and it ends
// once.
type claim struct {
	of   *quota
	node uint64
	what int
}

// made reports whether the claim holds anything.
func (c *claim) made() bool { return c.of != nil }

// end gives the claim back, if there is one.
func (c *claim) end() {
	if c.of != nil {
		c.of.give(c.node, c.what)
		*c = claim{}
	}
}

// take counts one more for the node, or makes no claim at the limit. Senders that are not members
// share one count.
func (q *quota) take(v *membership, what int, node uint64, limit int) claim {
	if v.workers[node] == nil {
		node = 0
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	x := q.of(node)
	if x == nil {
		q.shares = append(q.shares, share{node: node})
		x = &q.shares[len(q.shares)-1]
	}
	if x.count[what] >= limit {
		return claim{}
	}
	x.count[what]++
	return claim{q, node, what}
}

// of returns the node's share, or nil.
func (q *quota) of(node uint64) *share {
	for i := range q.shares {
		if q.shares[i].node == node {
			return &q.shares[i]
		}
	}
	return nil
}

// give counts one less for the node.
func (q *quota) give(node uint64, what int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	x := q.of(node)
	if x.count[what]--; x.count == [2]int{} {
		last := len(q.shares) - 1
		*x = q.shares[last]
		q.shares = q.shares[:last]
	}
}

// A loading is a payload that no shard's quota counts, but a count of the whole server does. Its
// zero value is none, and it ends once.
type loading struct {
	of    *atomic.Int64
	bytes int64
}

// end takes the payload off the count, if there is one.
func (l *loading) end() {
	if l.of != nil {
		l.of.Add(-l.bytes)
		*l = loading{}
	}
}
