package kvstore

import (
	"context"
	"math"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/paragon-train/paragon/internal/compute/f32"
	"github.com/paragon-train/paragon/internal/store/shard"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// A key is a worker's state of one key: where its shards are, and which rounds this worker has
// pushed to.
type key struct {
	s         *store
	name      string
	id        uint64
	form      uint8
	rule      uint8
	auxiliary bool // data that workers exchange apart from the model: its contributions count no examples
	size      int
	rowLen    int // of a key of rows
	table     string
	rows      int
	spread    shard.Spread
	shards    []wire.ShardPlace
	// servers are the ranks of the shards' current servers; shards has those of the first plan.
	servers      []atomic.Uint32
	oneShard     [1]wire.ShardPlace // the memory of shards and servers of a key with one shard
	oneServer    [1]atomic.Uint32
	unreplicated atomic.Pointer[unreplicatedPushes] // made when first needed

	// Of the holder of pushLock, and made when first needed:
	push     *densePush // nil for a small key, unless its last push is to be sent again
	sent     *rowsPush
	feedback *feedback

	mu         sync.Mutex   // guards the rest
	pushLock   turn         // held while a call that pushes is under way, so that pushes of a key follow one another
	acked      uint64       // pushes of this worker that were acknowledged
	round      uint64       // rounds that must have closed before the value contains the last of them
	unresolved bool         // the last push failed: some shards may have counted it
	reinit     bool         // a Load brought the key: one more Init is allowed
	shape      []int        // of a dense key's tensor; nil: not known
	staleness  Staleness    // of the value pulled last
	caught     []uint64     // by shard: how many of this worker's pushes the guard has refused or clipped; made when first needed
	limits     *normLimits  // the guard's; made when first needed
	norms      []shardNorms // by shard; made when first needed
	weight     float64      // of the newest round, see RoundWeight
	examples   uint64       // of the newest round, see RoundExamples
	weighed    uint64       // rounds closed, that one included
	pulls      []*densePull // idle ones, of a key that is not small
	rowPulls   []*rowsPull
}

// auxiliaryPrefix begins the names of keys that are not part of the model.
const auxiliaryPrefix = "paragon/"

func newKey(s *store, plan *wire.KeyPlan) *key {
	k := &key{
		s: s, name: plan.Name, id: plan.Key, form: plan.Form, rule: plan.Rule, auxiliary: strings.HasPrefix(plan.Name, auxiliaryPrefix), size: int(plan.Size), rowLen: int(plan.RowLen),
		shards: plan.Shards,
	}
	if len(k.shards) == 1 {
		k.oneShard[0] = k.shards[0]
		k.shards, k.servers = k.oneShard[:], k.oneServer[:]
	} else {
		k.servers = make([]atomic.Uint32, len(k.shards))
	}
	for i := range k.shards {
		k.servers[i].Store(k.shards[i].Server)
	}
	if k.form != wire.FormDense && k.rowLen > 0 {
		k.rows = k.size / k.rowLen
		k.spread = shard.NewSpread(uint64(k.rows), len(k.shards))
	}
	return k
}

// small reports whether calls of the key use memory that all small keys share, so that a key takes
// little of its own.
func (k *key) small() bool { return len(k.shards) == 1 && k.size <= smallValues }

// smallValues is the size, in values, of a small key. Servers answer pushes of such keys without a
// goroutine.
const smallValues = 4096

// lockPushes takes pushLock.
func (k *key) lockPushes(ctx context.Context, verb string) error {
	switch {
	case k.pushLock.take(ctx, &k.mu, k.s.requests.flight.closing):
		return nil
	case ctx.Err() != nil:
		return keyError(verb, k.name, ctx.Err(), "waited for an earlier call of this worker on the key")
	}
	return keyError(verb, k.name, ErrClosed, "")
}

// tryLockPushes takes pushLock if it is free.
func (k *key) tryLockPushes() bool { return k.pushLock.try(&k.mu) }

func (k *key) unlockPushes() { k.pushLock.give(&k.mu) }

// next returns the number of this worker's last push, and the round of its next one. In an
// asynchronous store, where each push is a round by itself, that is the number of pushes so far.
func (k *key) next() (seq, round uint64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.s.async {
		return k.acked, k.acked
	}
	return k.acked, k.round
}

// wanted returns what a pull asks for: the number of this worker's last push, and how many rounds
// must have closed.
func (k *key) wanted() (seq, round uint64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.s.async {
		return k.acked, 0
	}
	return k.acked, k.round
}

// pushed records how a push ended.
func (k *key) pushed(err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err != nil {
		k.unresolved = true
		return
	}
	k.unresolved = false
	k.acked++
	k.round++
	if k.limits != nil {
		k.limits.pushes++
	}
}

// setRound sets the next round to push to, as read from a server or loaded from a file.
func (k *key) setRound(round uint64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.round = round
	k.limits, k.norms = nil, nil
	k.unreplicated.Load().clear()
	if k.unresolved { // the failed push will not be repeated, and a shard may have counted its number
		k.acked++
		k.unresolved = false
	}
}

func (k *key) origin(shard int, seq uint64) wire.Origin {
	return wire.Origin{Key: k.id, Shard: uint32(shard), Seq: seq}
}

// A feedback holds the residuals of a key's compressed pushes, one for each device whose gradient
// is compressed by itself.
type feedback struct {
	using     Compression
	residuals [][]float32
	scratch   []float32
	code      alignedBuffer
	top       f32.TopK
}

// residuals returns the key's feedback. The caller holds pushLock.
func (k *key) residuals() *feedback {
	if k.feedback == nil {
		k.feedback = &feedback{}
	}
	return k.feedback
}

// residual returns device i's residual, zeros at first and after a change of compression.
func (f *feedback) residual(c Compression, i, n int) []float32 {
	if c = c.forResiduals(); f.using != c {
		*f = feedback{using: c}
	}
	for len(f.residuals) <= i {
		f.residuals = append(f.residuals, make([]float32, n))
	}
	return f.residuals[i]
}

// sumOver adds up grads into sum, each compressed and decoded by itself. Those that c cannot encode
// are added as they are, with their residuals. It reports whether all were encoded.
func (f *feedback) sumOver(native bool, c Compression, sum []float32, grads [][]float32, norms []float64, round uint64) (all bool) {
	clear(sum)
	all = true
	scratch := grow(&f.scratch, len(sum))
	for i, g := range grads {
		var residual []float32
		if c.feedback() {
			residual = f.residual(c, i, len(sum))
		}
		c := c.at(norms[i], len(sum))
		switch {
		case c.canEncode(residual, g, norms[i], round):
			addDecoded(native, c, sum, f.code.encode(native, c, &f.top, residual, g), scratch)
			continue
		case residual != nil:
			f32.AddTo(sum, residual)
			clear(residual)
		}
		f32.AddTo(sum, g)
		all = false
	}
	return all
}

// norm is the Euclidean norm; it is not finite if any value is not.
func norm(x []float32) float64 { return math.Sqrt(f32.Squares(x)) }

// sumOf returns the sum of grads: grads[0] itself if it is the only one, else in *buffer.
func sumOf(grads [][]float32, buffer *[]float32) []float32 {
	if len(grads) == 1 {
		return grads[0]
	}
	sum := grow(buffer, len(grads[0]))
	f32.Add(sum, grads[0], grads[1])
	for _, g := range grads[2:] {
		f32.AddTo(sum, g)
	}
	return sum
}
