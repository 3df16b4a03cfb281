package kvstore

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/paragon-train/paragon/internal/store/wire"
)

// unreplicatedPushes are copies of a worker's newest pushes of a key that a server acknowledged
// while their rounds were open. The server's backup has closed rounds only, so after the loss of
// the server these pushes are sent again to the backup that takes its place. At most two need
// copies: a push is acknowledged only after the round two before it has been answered, and then the
// backup has that round. (In an asynchronous store a push is acknowledged once the backup has it.)
//
// The methods but add do nothing on nil.
type unreplicatedPushes struct {
	busy   chan struct{} // a lock that can be waited for together with a context: resend holds it over network calls
	pushes [2]unreplicatedPush
}

func (t *unreplicatedPushes) lock()   { t.busy <- struct{}{} }
func (t *unreplicatedPushes) unlock() { <-t.busy }

type unreplicatedPush struct {
	used     bool
	round    uint64
	dense    []wire.Push
	rows     []wire.PushRows
	payloads [][]byte // of each shard
}

// add copies an acknowledged push: the heads, of a dense key or of a key of rows, and the payloads
// that their calls sent.
func (t *unreplicatedPushes) add(round uint64, dense []wire.Push, rows []wire.PushRows, calls []call) {
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

// dropClosed drops the pushes of closed rounds: those below rounds.
func (t *unreplicatedPushes) dropClosed(rounds uint64) {
	if t == nil {
		return
	}
	t.lock()
	defer t.unlock()
	for i := range t.pushes {
		if p := &t.pushes[i]; p.round < rounds {
			p.used = false
		}
	}
}

// clear drops all pushes.
func (t *unreplicatedPushes) clear() {
	if t == nil {
		return
	}
	t.lock()
	defer t.unlock()
	for i := range t.pushes {
		t.pushes[i].used = false
	}
}

// resend sends the pushes to the servers of these shards, the older one first. A server that has
// counted one already acknowledges it again.
func (t *unreplicatedPushes) resend(ctx context.Context, k *key, shards []int) {
	if t == nil {
		return
	}
	t.lock()
	defer t.unlock()
	first := &t.pushes[0]
	second := &t.pushes[1]
	if first.round > second.round {
		first, second = second, first
	}
	for _, p := range []*unreplicatedPush{first, second} {
		if !p.used {
			continue
		}
		o := newOp(k.s.requests, "resend push", k.name, len(shards))
		o.round, o.background = p.round, true
		for j, i := range shards {
			c := &o.calls[j]
			c.aim(k, i)
			c.answer, c.payload = &wire.Ack{}, [][]byte{p.payloads[i]}
			if len(p.rows) > 0 {
				c.request, c.origin = &p.rows[i], &p.rows[i].Origin
			} else {
				c.request, c.origin = &p.dense[i], &p.dense[i].Origin
			}
		}
		if err := o.run(ctx); err != nil && ctx.Err() == nil {
			k.s.logger.Warn("kvstore: cannot resend a push", "key", k.name, "round", p.round, "err", err)
		}
	}
}

// closeWait is how long Close waits for the rounds of the last pushes to close: long enough for the
// other workers' current step, short enough that a stuck job does not hold up an exit.
const closeWait = 5 * time.Second

// awaitReplication waits, for up to closeWait, until the rounds of all pushes have closed and the
// backups have them: until then only this worker could send them again after the loss of a server.
func (s *store) awaitReplication() {
	if !s.placement.movable() || s.async || s.removed.Load() {
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
		if k.unreplicated.Load() == nil {
			continue
		}
		waiting.Go(func() {
			if !k.unreplicated.Load().any(ctx) {
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
				s.logger.Warn("kvstore: close: the last push is not on the backup servers yet; it is lost if its server fails before the round closes", "key", k.name, "err", err)
			}
		})
	}
	waiting.Wait()
}

// any reports whether there are unreplicated pushes; false if ctx ends first.
func (t *unreplicatedPushes) any(ctx context.Context) bool {
	if t == nil {
		return false
	}
	select {
	case t.busy <- struct{}{}:
		defer t.unlock()
	case <-ctx.Done():
		return false
	}
	return t.pushes[0].used || t.pushes[1].used
}

// acknowledged keeps a copy of a push whose round may still be open; before is the placement when
// the push began.
func (k *key) acknowledged(before uint64, round uint64, dense []wire.Push, rows []wire.PushRows, calls []call) {
	s := k.s
	if !s.placement.movable() || s.async {
		return
	}
	copies := k.unreplicated.Load()
	if copies == nil { // the caller holds pushLock, so no other makes one
		copies = &unreplicatedPushes{busy: make(chan struct{}, 1)}
		k.unreplicated.Store(copies)
	}
	copies.add(round, dense, rows, calls)
	if s.placement.version.Load() == before {
		return
	}
	all := make([]int, len(k.shards)) // the server that acknowledged it may have been lost since
	for i := range all {
		all[i] = i
	}
	copies.resend(s.placement.ctx, k, all)
}

// roundsClosed drops the copies of pushes whose rounds, as these answers say, have closed.
func (k *key) roundsClosed(values []wire.Value) {
	if !k.s.placement.movable() || k.s.async || len(values) == 0 {
		return
	}
	least := values[0].Round
	for i := range values {
		least = min(least, values[i].Round)
	}
	k.unreplicated.Load().dropClosed(least)
}
