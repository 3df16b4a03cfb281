package shardserver

import (
	"sync"

	"github.com/paragon-train/paragon/internal/store/wire"
)

// A quota counts each worker's payloads and answers under way at one shard, so that no sender can
// make the server allocate without bound. It has its own mutex, because the goroutine that reads a
// connection uses it and must not wait for a round's arithmetic.
type quota struct {
	mu     sync.Mutex // guards shares
	shares []share    // of the senders that have something under way
}

// A share is what one sender has under way.
type share struct {
	node  uint64
	count [2]int // of payloads and of answers
}

// What a share counts.
const (
	payloads = iota
	answers
)

// A claim is one of a sender's payloads or answers under way; its zero value is none.
type claim struct {
	made bool
	node uint64
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
	return claim{true, node}
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

// give ends a claim.
func (q *quota) give(c claim, what int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	x := q.of(c.node)
	if x.count[what]--; x.count == [2]int{} {
		last := len(q.shares) - 1
		*x = q.shares[last]
		q.shares = q.shares[:last]
	}
}

func (c *call) beginPush() error {
	if c.pushing = c.entry.take(c.s.membership.Load(), payloads, c.origin.Node, c.s.pushes); !c.pushing.made {
		return refuse(wire.CodeBusy, "%v: %d pushes of %s to %v are under way already", c.kind, c.s.pushes, c.s.describe(c.origin.Node), c.entry.cfg)
	}
	return nil
}

func (c *call) endPush() {
	if c.pushing.made {
		c.entry.give(c.pushing, payloads)
		c.pushing = claim{}
	}
}

func (c *call) beginPull() error {
	if c.pulling = c.entry.take(c.s.membership.Load(), answers, c.origin.Node, c.s.pulls); !c.pulling.made {
		return refuse(wire.CodeBusy, "%v: %d pulls of %s from %v are under way already", c.kind, c.s.pulls, c.s.describe(c.origin.Node), c.entry.cfg)
	}
	return nil
}

func (c *call) endPull() {
	if c.pulling.made {
		c.entry.give(c.pulling, answers)
		c.pulling = claim{}
	}
}
