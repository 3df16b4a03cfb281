package shardserver

import (
	"fmt"
	"sync/atomic"
)

// A budget is what senders have made the server hold. Everything in it is taken before memory
// is, and given back by whoever took it, so that the sums are right whatever becomes of a
// request. It has no mutex: a sender that fills it does not hold up the others, which are
// refused one by one.
type budget struct {
	// bytes is of values and indices in use.
	bytes atomic.Int64
	// loading is of first values, states and messages of many pushes being received.
	loading atomic.Int64
	// strangersMany is the number of pushes under way in messages of many of senders that are
	// not members.
	strangersMany atomic.Int64
	// reads holds a token for each ReadState under way.
	reads chan struct{}
}

// newBudget returns a budget of which nothing is taken.
func newBudget() budget { return budget{reads: make(chan struct{}, maxStateReads)} }

// reserve counts bytes of values and indices that a shard is about to allocate, or (negative) has
// freed. It takes no lock.
func (b *budget) reserve(bytes, most int64) error {
	if have := b.bytes.Add(bytes); bytes > 0 && have > most {
		b.bytes.Add(-bytes)
		return fmt.Errorf("got %d bytes beside %d in use, want at most %d on this server", bytes, have-bytes, most)
	}
	return nil
}
