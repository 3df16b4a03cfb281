package kvstore

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/paragon-train/paragon/internal/wire"
)

// Kept are a worker's newest pushes of a key that were acknowledged before their rounds had closed. A server holds what it
// acknowledged; if it is lost, its shards' backups have only the rounds that had closed, and get the pushes again. There are never more
// than two to keep: a push is acknowledged only once the round two before it is answered, which the backup has. (In an asynchronous store a
// push is acknowledged once the backup has it.)
type kept struct {
	turn   chan struct{} // holds a token while they are looked at, or sent again, which may take a while
	pushes [2]keptPush
}

func (t *kept) lock()   { t.turn <- struct{}{} }
func (t *kept) unlock() { <-t.turn }

type keptPush struct {
	used     bool
	round    uint64
	dense    []wire.Push
	rows     []wire.PushRows
	payloads [][]byte // of each shard
}

// keep copies a push that was acknowledged: either heads of a dense key or of one of rows, and what their calls have sent.
func (t *kept) keep(round uint64, dense []wire.Push, rows []wire.PushRows, calls []call) {
	t.lock()
	defer t.unlock()
	p := &t.pushes[round%2]
	p.used, p.round = true, round
	p.dense = append(p.dense[:0], dense...)
	p.rows = append(p.rows[:0], rows...)
	if p.payloads == nil {
		p.payloads = make([][]byte, len(calls))
	}
	for i := range calls {
		p.payloads[i] = p.payloads[i][:0]
		for _, part := range calls[i].payload {
			p.payloads[i] = append(p.payloads[i], part...)
		}
	}
}

// closed forgets pushes of rounds before this one.
func (t *kept) closed(rounds uint64) {
	t.lock()
	defer t.unlock()
	for i := range t.pushes {
		if p := &t.pushes[i]; p.round < rounds {
			p.used = false
		}
	}
}

// forget forgets all.
func (t *kept) forget() {
	t.lock()
	defer t.unlock()
	for i := range t.pushes {
		t.pushes[i].used = false
	}
}

// again sends what is kept to some shards, the older push first. Those that count it already say so.
func (t *kept) again(ctx context.Context, k *key, shards []int) {
	t.lock()
	defer t.unlock()
	first := &t.pushes[0]
	second := &t.pushes[1]
	if first.round > second.round {
		first, second = second, first
	}
	for _, p := range []*keptPush{first, second} {
		if !p.used {
			continue
		}
		o := newOp(k.s, "resend push", k.name, len(shards))
		o.round, o.own = p.round, true
		for j, i := range shards {
			c := &o.calls[j]
			c.key, c.shard, c.answer, c.payload = k, i, &wire.Ack{}, [][]byte{p.payloads[i]}
			if len(p.rows) > 0 {
				c.request, c.origin = &p.rows[i], &p.rows[i].Origin
			} else {
				c.request, c.origin = &p.dense[i], &p.dense[i].Origin
			}
		}
		if err := o.run(ctx); err != nil && ctx.Err() == nil {
			k.s.logger.Warn("kvstore: resend push", "key", k.name, "round", p.round, "err", err)
		}
	}
}

// closeWait is how long Close waits for the rounds of pushes that nobody has pulled.
const closeWait = 5 * time.Second

// awaitKept waits until the rounds of all pushes have closed and are at the shards' backups, for up to closeWait: until then only this worker
// can send them again, should a server be lost.
func (s *store) awaitKept() {
	if !s.placing.moves() || s.async || s.removed.Load() {
		return
	}
	select {
	case <-s.node.Done():
		return
	default:
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeWait)
	defer cancel()
	var waiting sync.WaitGroup
	for _, k := range s.sorted() {
		waiting.Go(func() {
			if !k.kept.any(ctx) {
				return
			}
			var err error
			if k.form == wire.FormDense {
				seq, round := k.wanted()
				err = k.pull(ctx, "close", seq, round, nil)
			} else {
				err = s.PullRows(ctx, k.name, nil, nil)
			}
			if err != nil && !errors.Is(err, ErrClosed) {
				s.logger.Warn("kvstore: close: the last push is not at the backup servers; it is lost if its server fails before the round closes", "key", k.name, "err", err)
			}
		})
	}
	waiting.Wait()
}

// any reports whether pushes are kept; false when ctx ends first.
func (t *kept) any(ctx context.Context) bool {
	select {
	case t.turn <- struct{}{}:
		defer t.unlock()
	case <-ctx.Done():
		return false
	}
	return t.pushes[0].used || t.pushes[1].used
}

// acknowledged takes care of a push whose round may be open yet; before is the placement when it began.
func (k *key) acknowledged(before uint64, round uint64, dense []wire.Push, rows []wire.PushRows, calls []call) {
	s := k.s
	if !s.placing.moves() || s.async {
		return
	}
	k.kept.keep(round, dense, rows, calls)
	if s.placing.placement.Load() == before {
		return
	}
	all := make([]int, len(k.shards)) // who acknowledged it may be gone
	for i := range all {
		all[i] = i
	}
	k.kept.again(s.placing.ctx, k, all)
}

// answered takes note that rounds have closed: what belongs to them need not be kept.
func (k *key) answered(values []wire.Value) {
	if !k.s.placing.moves() || k.s.async || len(values) == 0 {
		return
	}
	least := values[0].Round
	for i := range values {
		least = min(least, values[i].Round)
	}
	k.kept.closed(least)
}
