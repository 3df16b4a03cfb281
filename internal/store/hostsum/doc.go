// Package hostsum adds up the gradients of the workers of one host, so that one push for all of
// them leaves the host and the value comes back once.
//
// Each worker runs a Server. For each shard one worker of a host is the leader, see Leader. The
// others send it their push-pulls, as they would send them to the shard's server, and it hands over
// its own. When all workers of the host are there the leader forwards their sum, which names its
// contributors (wire.Push), and answers all of them with the value that comes back.
//
// A worker whose call needs no group, such as a push that is acknowledged at once, pushes for
// itself and says so (Server.PushAlone): rounds do not wait for it. It stays in the job and in its
// host's group.
//
// A leader here adds up one shard for its host. The job's leader, which initialises keys for all,
// is another role: it is the worker of the lowest rank.
//
// A Server keeps nothing that cannot be lost. If anything goes wrong (a worker is late, the
// membership has changed, the server refuses the sum) it refuses with wire.CodePushAlone, or
// CodeStaleGeneration, and each worker pushes for itself, or tries again in the new generation. The
// shard's server counts each contribution once, and adds in the same order whoever has made the
// sums of the hosts.
package hostsum

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/paragon-train/paragon/internal/store/shard"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// A Config says what a Server needs of its worker.
type Config struct {
	// Length returns the number of values of a dense shard that this worker has initialised;
	// false: it has not, or not yet.
	Length func(key uint64, shard uint32) (n uint64, ok bool)
	// Forward sends a sum to the shard's server and waits for the value. It is called on a
	// goroutine of its own. ctx ends with Close.
	Forward func(ctx context.Context, f *Forwarded) error
	// AnyOrder: gradients are added as they come, not in rank order.
	AnyOrder bool
	// Wait is how long the first gradient of a round waits for the others before each worker
	// pushes for itself. Zero: 5 s.
	Wait time.Duration
	// Pool has the memory. Nil: one of shared memory.
	Pool   *shard.Pool
	Logger *slog.Logger
}

// A Forwarded is a sum on its way to the shard's server.
type Forwarded struct {
	// Push is the gradient. Forward fills in its Generation and Rank.
	Push    wire.Push
	Payload []byte
	// Value is the answer, and Got its payload, in Into.
	Value wire.Value
	Into  []byte
	Got   []byte

	waiting atomic.Pointer[func() string]
}

// Explain sets a function that says whom Forward waits for.
func (f *Forwarded) Explain(waiting func() string) { f.waiting.Store(&waiting) }

// Leader returns the place, among n workers of a host in rank order, of the one that adds up a
// shard. Shards are spread by a hash, since large keys may come at regular distances.
func Leader(key uint64, shard uint32, n int) int {
	x := key<<20 ^ uint64(shard)
	// This is the finalizer of MurmurHash3.
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	x *= 0xc4ceb9fe1a85ec53
	x ^= x >> 33
	return int(x % uint64(n))
}
