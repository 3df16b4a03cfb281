package kvstore

import "github.com/paragon-train/paragon/internal/store/wire"

// A densePath pushes and pulls dense keys, one by one and many at once. It keeps the memory of
// calls of small keys for reuse.
//
// A push of one key is: check the arguments, take the key's turn, encode the gradient and make a
// request for each shard (prepare), send them (op.run), record what the answers say (received), and
// end. With PushMany the keys take their turns, and small ones share messages; the rest is the
// same.
type densePath struct {
	cfg      *settings
	requests *requests
	member   *membership
	host     *hostSums
	keys     *keyTable
	rules    *roundRules
	copies   *replication

	idlePushes idleList[densePush]
	idlePulls  idleList[densePull]
	manyPushes idleList[manyPush]
}

// A trip is what a call does with a key: it pushes, and with pull brings the new value back.
type trip struct {
	verb string
	pull bool
}

// A densePush is the push, or the push-pull, of a dense key. It is reused: that of a small key for
// any small key.
type densePush struct {
	op       *op
	heads    []wire.Push
	acks     []wire.Ack
	values   []wire.Value
	gradient gradient
	answers  answerBuffers
	// discarded receives a value that the caller did not ask for.
	discarded []float32

	// The fields below are of the push under way. placement is the version of the placement
	// when it began, and into receives the value.
	pull      bool
	seq       uint64
	placement uint64
	into      []float32
}

func newDensePush(r *requests, k *key) *densePush {
	n := len(k.shards)
	p := &densePush{op: newOp(r, "push", k.name, n), heads: make([]wire.Push, n), acks: make([]wire.Ack, n),
		values: make([]wire.Value, n), gradient: newGradient(n)}
	for i := range p.op.calls {
		c := &p.op.calls[i]
		c.aim(k, i)
		c.request, c.origin, c.payload = &p.heads[i], &p.heads[i].Origin, p.gradient.payloads[i][:]
	}
	return p
}
