package shardserver

import (
	"sync"
	"sync/atomic"

	"github.com/paragon-train/paragon/internal/store/wire"
)

// A quota counts each worker's payloads and answers under way at one shard, so that no sender can
// make the server allocate without bound. It has its own mutex, because the goroutine that reads a
// connection uses it and must not wait for a round's arithmetic.
type quota struct {
	mu sync.Mutex // guards shares
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

// claims are what a call takes of the budgets of its server and of its shard. All of them end with
// the call, whatever becomes of it.
type claims struct {
	pushing, pulling claim
	loading          loading
	// reads is where the token of a read of state goes back to; nil: the call holds none.
	reads chan struct{}
}

// push claims one of the sender's payloads at the shard, of which it may have most.
func (x *claims) push(r *request, v *membership, most int) error {
	if x.pushing = r.entry.take(v, payloads, r.origin.Node, most); !x.pushing.made() {
		return refuse(wire.CodeBusy, "%v: %d pushes of %s to %v are under way already", r.kind, most, v.describe(r.origin.Node), r.entry.cfg)
	}
	return nil
}

// pull claims one of the sender's answers from the shard, of which it may have most.
func (x *claims) pull(r *request, v *membership, most int) error {
	if x.pulling = r.entry.take(v, answers, r.origin.Node, most); !x.pulling.made() {
		return refuse(wire.CodeBusy, "%v: %d pulls of %s from %v are under way already", r.kind, most, v.describe(r.origin.Node), r.entry.cfg)
	}
	return nil
}

// load counts a payload of n bytes that no shard's quota counts. All of the server's senders
// together may have most bytes.
func (x *claims) load(kind wire.Kind, b *budget, n int, most int64) error {
	if have := b.loading.Add(int64(n)); have > most {
		b.loading.Add(-int64(n))
		return refuse(wire.CodeBusy, "%v: %d bytes of values are being received, want at most %d", kind, have, most)
	}
	x.loading = loading{&b.loading, int64(n)}
	return nil
}

// end gives back what is still claimed.
func (x *claims) end() {
	x.pushing.end()
	x.pulling.end()
	x.loading.end()
	if x.reads != nil {
		<-x.reads
		x.reads = nil
	}
}
