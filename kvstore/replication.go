package kvstore

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/paragon-train/paragon/internal/store/wire"
)

// A replication keeps copies of pushes (unreplicatedPushes) in a job whose servers have backups,
// and sends them again where a backup takes the place of a lost server. In other jobs, and in an
// asynchronous store, it does nothing.
type replication struct {
	cfg       *settings
	requests  *requests
	placement *placementTracker
}

func (r *replication) needed() bool { return r.placement.movable() && !r.cfg.async }

// acknowledged keeps a copy of a push whose round may still be open; before is the placement when
// the push began. The caller holds the key's turn, so no other makes its unreplicatedPushes.
func (r *replication) acknowledged(k *key, before uint64, sent sentPush) {
	if !r.needed() {
		return
	}
	copies := k.unreplicated.Load()
	if copies == nil {
		copies = &unreplicatedPushes{busy: make(chan struct{}, 1)}
		k.unreplicated.Store(copies)
	}
	copies.add(sent)
	if r.placement.version.Load() == before {
		return
	}
	// The server that acknowledged the push may have been lost since.
	all := make([]int, len(k.shards))
	for i := range all {
		all[i] = i
	}
	r.resend(r.placement.ctx, k, all)
}

// closed drops the copies of pushes whose rounds, as these answers say, have closed.
func (r *replication) closed(k *key, values []wire.Value) {
	if !r.needed() || len(values) == 0 {
		return
	}
	least := values[0].Round
	for i := range values {
		least = min(least, values[i].Round)
	}
	k.unreplicated.Load().dropClosed(least)
}

// resend sends a key's pushes to the servers of these shards. A server that has counted one already
// acknowledges it again.
func (r *replication) resend(ctx context.Context, k *key, shards []int) {
	k.unreplicated.Load().inOrder(func(p *unreplicatedPush) {
		o := newOp(r.requests, "resend push", k.name, len(shards))
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
			r.cfg.logger.Warn("kvstore: cannot resend a push", "key", k.name, "round", p.round, "err", err)
		}
	})
}

// closeWait is how long Close waits for the rounds of the last pushes to close: long enough for the
// other workers' current step, short enough that a stuck job does not hold up an exit.
const closeWait = 5 * time.Second

// await waits, for up to closeWait, until the rounds of all pushes have closed and the backups have
// them: until then only this worker could send them again after the loss of a server. settle waits
// for those of a key.
func (r *replication) await(keys []*key, settle func(ctx context.Context, k *key) error) {
	if !r.needed() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeWait)
	defer cancel()
	var waiting sync.WaitGroup
	for _, k := range keys {
		copies := k.unreplicated.Load()
		if copies == nil {
			continue
		}
		waiting.Go(func() {
			if !copies.any(ctx) {
				return
			}
			if err := settle(ctx, k); err != nil && !errors.Is(err, ErrClosed) {
				r.cfg.logger.Warn("kvstore: close: the last push is not on the backup servers yet; it is lost if its server fails before the round closes", "key", k.name, "err", err)
			}
		})
	}
	waiting.Wait()
}
