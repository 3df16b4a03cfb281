package kvstore

import (
	"context"
	"math"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/paragon-train/paragon/internal/f32"
	"github.com/paragon-train/paragon/internal/shard"
	"github.com/paragon-train/paragon/internal/wire"
)

// A key is what a worker knows of one key: where its shards are, and how far this worker has come with it.
type key struct {
	s         *store
	name      string
	id        uint64
	form      uint8
	rule      uint8
	auxiliary bool // what workers tell each other beside the model: its contributions count no examples
	size      int
	rowLen    int // of a key of rows
	table     string
	rows      int
	spread    shard.Spread
	shards    []wire.ShardPlace
	// servers are those of the shards at the moment; their ranks in shards are those at first.
	servers      []atomic.Uint32
	unreplicated unreplicatedPushes

	// turn holds a token while a call that pushes is under way; such calls follow one another.
	turn     chan struct{}
	push     *densePush // these belong to the holder of the turn; each is made by its first use
	sent     *rowsPush
	feedback feedback

	mu        sync.Mutex // guards the rest
	seq       uint64     // pushes of this worker that were acknowledged
	round     uint64     // rounds that must have closed for the last of them to be in the value
	uncertain bool       // a push failed part of the way: some shards may hold it
	reinit    bool       // a Load brought the key: one Init is welcome
	shape     []int      // of a dense key's tensor; nil: not known
	staleness Staleness  // of the value pulled last
	caught    []uint64   // by shard: what the guard has caught of this worker's pushes; made when it is first needed
	limits    normLimits // the guard's
	pulls     []*densePull
	rowPulls  []*rowsPull
}

// auxiliaryPrefix begins the names of keys of which no value is part of what is trained.
const auxiliaryPrefix = "paragon/"

func newKey(s *store, plan *wire.KeyPlan) *key {
	k := &key{
		s: s, name: plan.Name, id: plan.Key, form: plan.Form, rule: plan.Rule, auxiliary: strings.HasPrefix(plan.Name, auxiliaryPrefix), size: int(plan.Size), rowLen: int(plan.RowLen),
		shards: plan.Shards, turn: make(chan struct{}, 1),
	}
	k.unreplicated.busy = make(chan struct{}, 1)
	k.servers = make([]atomic.Uint32, len(k.shards))
	for i := range k.shards {
		k.servers[i].Store(k.shards[i].Server)
	}
	if k.form != wire.FormDense && k.rowLen > 0 {
		k.rows = k.size / k.rowLen
		k.spread = shard.NewSpread(uint64(k.rows), len(k.shards))
	}
	return k
}

// take waits for the turn to push.
func (k *key) take(ctx context.Context, verb string) error {
	select {
	case k.turn <- struct{}{}:
		return nil
	default:
	}
	select {
	case k.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return keyError(verb, k.name, ctx.Err(), "waited for an earlier call of this worker on the key")
	case <-k.s.closing:
		return keyError(verb, k.name, ErrClosed, "")
	}
}

func (k *key) give() { <-k.turn }

// next returns the number of this worker's last push, and the round of its next one: in an asynchronous store, where each
// push is a round of its own, its place among this worker's.
func (k *key) next() (seq, round uint64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.s.async {
		return k.seq, k.seq
	}
	return k.seq, k.round
}

// wanted returns what a pull asks for: the number of this worker's last push, and how many rounds must have closed.
func (k *key) wanted() (seq, round uint64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.s.async {
		return k.seq, 0
	}
	return k.seq, k.round
}

// pushed takes note of how a push ended.
func (k *key) pushed(err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err != nil {
		k.uncertain = true
		return
	}
	k.uncertain = false
	k.seq++
	k.round++
	k.limits.pushes++
}

// moveTo makes round the next one to push to, after a first look at the servers or a Load.
func (k *key) moveTo(round uint64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.round = round
	k.limits.known = false
	k.unreplicated.clear()
	if k.uncertain { // the push that failed will not be sent again: its number may have been used up
		k.seq++
		k.uncertain = false
	}
}

func (k *key) origin(shard int, seq uint64) wire.Origin {
	return wire.Origin{Key: k.id, Shard: uint32(shard), Seq: seq}
}

// A feedback is what compressed pushes of a key have left out so far, for each device that is compressed by itself.
type feedback struct {
	using     Compression
	residuals [][]float32
	scratch   []float32
	code      alignedBuffer
	top       f32.TopK
}

// residual returns device i's, all zeros at first and after a change of compression.
func (f *feedback) residual(c Compression, i, n int) []float32 {
	if c = c.forResiduals(); f.using != c {
		*f = feedback{using: c}
	}
	for len(f.residuals) <= i {
		f.residuals = append(f.residuals, make([]float32, n))
	}
	return f.residuals[i]
}

// sumOver adds grads up into sum, each compressed and decoded by itself, but for those that the compression cannot carry. It reports
// whether there were any.
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

// sumOf returns the sum of grads: the only one itself, or in *buffer.
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
