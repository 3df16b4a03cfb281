package kvstore

import (
	"context"
	"sync/atomic"

	"github.com/paragon-train/paragon/internal/store/wire"
	"github.com/paragon-train/paragon/kvstore/internal/attempt"
)

// A route says who gets a request: the server that holds a shard, or a server by its rank, and
// whether somebody on this host carries the request there.
type route struct {
	way attempt.Way
	// place has the rank of the server that holds the shard. It changes when the shard moves,
	// and is read anew in each attempt. Nil: the request is about a whole server.
	place *atomic.Uint32
	// server is the rank of the whole server.
	server int
	// message is what the request carries, where that is a message of many keys.
	message carrier
}

// rank is the server that the request goes to now, at once or in the end.
func (r *route) rank() int {
	if r.place != nil {
		return int(r.place.Load())
	}
	return r.server
}

// whole reports whether the request is about a whole server.
func (r *route) whole() bool { return r.place == nil && r.message == nil }

// A carrier is a message with pushes of many keys. It is told of its only attempt.
type carrier interface {
	// stamp gives all pushes the membership of the first.
	stamp()
	// left says when the message has been sent, by the trace's clock.
	left(now int64)
	// answered ends the attempt.
	answered(got []byte, err error)
}

// A hostRoute leads to the worker of this host that sums up a shard's gradients.
type hostRoute interface {
	// ask writes the membership of this moment into a push, sends it to the leader of its
	// shard, which may be this worker, and waits for the new value. asked names that leader
	// from then on.
	ask(ctx context.Context, push *wire.Push, answer *wire.Value, asked *atomic.Pointer[string], dst []byte, payload [][]byte) ([]byte, error)
	// lose makes this worker ask the leader of the push no more for a while, because of an
	// error.
	lose(push *wire.Push, err error)
}
