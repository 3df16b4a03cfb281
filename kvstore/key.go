package kvstore

import (
	"context"
	"fmt"
	"math"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/paragon-train/paragon/internal/observe/joblog"
	"github.com/paragon-train/paragon/internal/store/shard"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// A keyEnv is what the keys of a store have in common.
type keyEnv struct {
	*settings
	// closing is closed when the store closes.
	closing <-chan struct{}
	// rank is this worker's, for log lines.
	rank   func() int
	missed missedUpdates
}

// A key is a worker's state of one key: where its shards are, which rounds this worker has pushed
// to, and what came back. What a call needs of memory belongs to the key between calls, and is made
// when first needed: a job may have a hundred thousand keys that are small and seldom used.
type key struct {
	env  *keyEnv
	name string
	id   uint64
	form uint8
	rule uint8
	// auxiliary says that these are data that workers exchange apart from the model: its
	// contributions count no examples.
	auxiliary bool
	size      int
	// rowLen, rows, table and spread are of a key of rows.
	rowLen, rows int
	table        string
	spread       shard.Spread
	// shards have the places of the first plan; servers are the ranks of their servers now.
	shards  []wire.ShardPlace
	servers []atomic.Uint32
	// oneShard and oneServer are the memory of these, of a key with one shard.
	oneShard  [1]wire.ShardPlace
	oneServer [1]atomic.Uint32

	pushes  keyPushes
	answers answers
	// unreplicated is made when first needed, by the holder of the turn.
	unreplicated atomic.Pointer[unreplicatedPushes]

	// push, sent and feedback belong to the holder of the turn. push is nil of a small key,
	// unless its last push is to be sent again.
	push     *densePush
	sent     *rowsPush
	feedback *feedback

	// mu guards the fields below.
	mu sync.Mutex
	// shape is of a dense key's tensor; nil: not known.
	shape []int
	// pulls and rowPulls are idle ones, of a key that is not small.
	pulls    []*densePull
	rowPulls []*rowsPull
}

// auxiliaryPrefix begins the names of keys that are not part of the model.
const auxiliaryPrefix = "paragon/"

func newKey(env *keyEnv, plan *wire.KeyPlan) *key {
	k := &key{
		env: env, name: plan.Name, id: plan.Key, form: plan.Form, rule: plan.Rule, auxiliary: strings.HasPrefix(plan.Name, auxiliaryPrefix), size: int(plan.Size), rowLen: int(plan.RowLen),
		shards: plan.Shards, pushes: keyPushes{async: env.async},
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
	if !k.dense() && k.rowLen > 0 {
		k.rows = k.size / k.rowLen
		k.spread = shard.NewSpread(uint64(k.rows), len(k.shards))
	}
	return k
}

// dense reports whether the key's values are pushed and pulled whole.
func (k *key) dense() bool { return k.form == wire.FormDense }

// small reports whether calls of the key use memory that all small keys share, so that a key takes
// little of its own.
func (k *key) small() bool { return len(k.shards) == 1 && k.size <= smallValues }

// smallValues is the size, in values, of a small key. Servers answer pushes of such keys without a
// goroutine.
const smallValues = 4096

// lock takes the turn: no push of the key is under way until unlock.
func (k *key) lock(ctx context.Context, verb string) error {
	switch {
	case k.pushes.take(ctx, k.env.closing):
		return nil
	case ctx.Err() != nil:
		return keyError(verb, k.name, ctx.Err(), "waited for an earlier call of this worker on the key")
	}
	return keyError(verb, k.name, ErrClosed, "")
}

func (k *key) unlock() { k.pushes.give() }

// pushed records how a push ended. The caller holds the turn.
func (k *key) pushed(err error) {
	k.pushes.pushed(err)
	if err == nil && k.limited() {
		k.answers.pushed()
	}
}

// limited reports whether the guard has limits on the key's norms.
func (k *key) limited() bool { return k.env.guard != nil && k.env.guard.Factor != 0 }

// setRound sets the next round to push to, as read from a server or loaded from a file.
func (k *key) setRound(round uint64) {
	k.pushes.set(round)
	k.answers.forget()
	k.unreplicated.Load().clear()
}

// pulled records what the answers of a pull say.
func (k *key) pulled(values []wire.Value) {
	news := k.answers.pulled(values, k.limited())
	if k.env.async {
		k.env.missed.add(news.missed)
	}
	k.warnCaught(news)
}

// pulledRows records what the answers of a pull of rows say.
func (k *key) pulledRows(calls []call, values []wire.Value) {
	k.warnCaught(k.answers.pulledRows(calls, values))
}

// warnCaught logs what the guard has refused or clipped.
func (k *key) warnCaught(news pulledNews) {
	for _, x := range news.caught {
		k.env.logger.Warn("the servers' guard has refused or clipped gradients of this worker", "key", k.name, "shard", x.shard,
			"rank", k.env.rank(), "round", x.round, "gradients", x.gradients, joblog.GuardRefused.With())
	}
}

// origin identifies a request about a shard; the membership is filled in by each attempt.
func (k *key) origin(shard int, seq uint64) wire.Origin {
	return wire.Origin{Key: k.id, Shard: uint32(shard), Seq: seq}
}

// residuals returns the key's feedback. The caller holds the turn.
func (k *key) residuals() *feedback {
	if k.feedback == nil {
		k.feedback = &feedback{}
	}
	return k.feedback
}

// dropResiduals sets the key's residuals to zero. The caller holds the turn.
func (k *key) dropResiduals() {
	k.feedback = nil
	if k.push != nil {
		k.push.gradient.encoded = false
	}
}

// span returns the range of a dense key's values that shard i holds.
func (k *key) span(i int) (from, to int) {
	from = int(k.shards[i].Offset)
	return from, from + int(k.shards[i].Length)
}

// shardRows returns the number of rows of shard i.
func (k *key) shardRows(i int) int { return int(k.shards[i].Length) / k.rowLen }

// shardValues returns shard i's part of the whole key's value: a subslice, or a copy for rows.
func (k *key) shardValues(i int, value []float32) []float32 {
	if k.dense() {
		from, to := k.span(i)
		return value[from:to]
	}
	if len(k.shards) == 1 {
		return value
	}
	part := make([]float32, 0, k.shards[i].Length)
	for at := range k.shardRows(i) {
		row := int(k.spread.Row(i, int64(at)))
		part = append(part, value[row*k.rowLen:(row+1)*k.rowLen]...)
	}
	return part
}

// putShardValues is the inverse of shardValues: it copies shard i's values to their place in value.
func (k *key) putShardValues(i int, value, part []float32) {
	if k.dense() {
		from, to := k.span(i)
		copy(value[from:to], part)
		return
	}
	for at := range k.shardRows(i) {
		row := int(k.spread.Row(i, int64(at)))
		copy(value[row*k.rowLen:(row+1)*k.rowLen], part[at*k.rowLen:])
	}
}

// initHead describes shard i to its server.
func (k *key) initHead(i int) wire.InitShard {
	x := k.shards[i]
	return wire.InitShard{Origin: k.origin(i, 0), Form: k.form, Rule: k.rule, Offset: x.Offset, Length: x.Length,
		RowLen: uint64(k.rowLen), Size: uint64(k.size), Shards: uint32(len(k.shards)), Name: k.name, Table: k.table}
}

// checkSizes checks that every slice has the key's size.
func (k *key) checkSizes(verb, what string, slices [][]float32) error {
	for i, x := range slices {
		if len(x) != k.size {
			return keyError(verb, k.name, ErrSize, "%s %d: got %d values, want %d", what, i, len(x), k.size)
		}
	}
	return nil
}

// checkRows checks a call's rows and the length of its values.
func (k *key) checkRows(verb string, rows []int64, what string, values int) error {
	if values/k.rowLen != len(rows) || values%k.rowLen != 0 {
		return keyError(verb, k.name, ErrSize, "%s: got %d values for %d rows, want %d for each", what, values, len(rows), k.rowLen)
	}
	if uint64(len(rows)) > math.MaxInt32 {
		return keyError(verb, k.name, ErrSize, "got %d rows, want at most %d in one call", len(rows), math.MaxInt32)
	}
	if k.form == wire.FormOpen {
		return nil
	}
	for i, r := range rows {
		if r < 0 || r >= int64(k.rows) {
			return keyError(verb, k.name, ErrSize, "rows[%d]: got row %d, want 0 to %d", i, r, k.rows-1)
		}
	}
	return nil
}

// checkSame checks that an Init after a Load describes the same key.
func (k *key) checkSame(d *wire.Declare) error {
	if k.form != d.Form || k.rule != d.Rule || uint64(k.size) != d.Size || uint64(k.rowLen) != d.RowLen {
		return keyError("init", k.name, ErrSize, "got %s, want %s as loaded",
			describe(d.Form, d.Rule, d.Size, d.RowLen), describe(k.form, k.rule, uint64(k.size), uint64(k.rowLen)))
	}
	if k.table != d.Table {
		return keyError("init", k.name, ErrConflict, "got the table %s, want %s as loaded", wire.Shown(d.Table), wire.Shown(k.table))
	}
	return nil
}

// fitsFrame returns an error for a payload that is too large for a frame.
func (k *key) fitsFrame(verb string, i, bytes int) error {
	if bytes > wire.MaxPayload {
		return keyError(verb, k.name, ErrUnsupported, "shard %d takes %d bytes, a frame at most %d", i, bytes, wire.MaxPayload)
	}
	return nil
}

// describe describes a key's form and size.
func describe(form, rule uint8, size, rowLen uint64) string {
	switch {
	case form == wire.FormOpen:
		return fmt.Sprintf("an open vocabulary with rows of %d values", rowLen)
	case form == wire.FormRows && rowLen > 0:
		return fmt.Sprintf("%d rows of %d values", size/rowLen, rowLen)
	case rule == wire.RuleAverage:
		return fmt.Sprintf("%d averaged values", size)
	}
	return fmt.Sprintf("%d values", size)
}
