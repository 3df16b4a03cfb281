package kvstore

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/paragon-train/paragon/internal/store/transport"
	"github.com/paragon-train/paragon/internal/store/wire"
	"github.com/paragon-train/paragon/kvstore/internal/attempt"
)

// A bypasses has the shards that this worker pushes for itself, past the leader that sums them up
// for its host: by calls that no group takes, such as Push, or with compression. The leader of each
// was told, or is being told, so that the host's other workers do not wait. The worker stays in the
// job and in its host's group.
type bypasses struct {
	// tell makes one attempt to tell a shard's leader of a bypass.
	tell func(ctx context.Context, p *wire.Push) error
	// over ends when nobody is told any more.
	over context.Context
	// patience is for how long attempts are made: the others wait as long.
	patience time.Duration
	telling  sync.WaitGroup

	// mu guards the fields below, and the start of goroutines that tell leaders.
	mu sync.Mutex
	of map[keyShard]*wire.Push
	// ended says that the store closes: leaders learn the rest from the membership.
	ended bool
}

type keyShard struct {
	key   uint64
	shard uint32
}

// add adds a shard, from a round on and until it goes to its leader again. The leader is told,
// unless it was before.
func (d *bypasses) add(o wire.Origin, round uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	id := keyShard{o.Key, o.Shard}
	if d.ended || d.of[id] != nil {
		return
	}
	if d.of == nil {
		d.of = map[keyShard]*wire.Push{}
	}
	p := &wire.Push{Origin: o, Round: round}
	d.of[id] = p
	d.telling.Go(func() { d.insist(p) })
}

// once tells a leader of a round that this worker may not come to; to later ones it comes.
func (d *bypasses) once(p *wire.Push) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.ended {
		d.telling.Go(func() { d.insist(p) })
	}
}

// tellAll tells the leaders of a new membership.
func (d *bypasses) tellAll() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ended || len(d.of) == 0 {
		return
	}
	var list []*wire.Push
	for id, p := range d.of {
		p := *p
		d.of[id] = &p
		list = append(list, &p)
	}
	d.telling.Go(func() {
		for _, p := range list {
			d.insist(p)
		}
	})
}

// end keeps further goroutines from starting.
func (d *bypasses) end() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ended = true
}

// wait waits for the goroutines that tell leaders, after end and once over has ended.
func (d *bypasses) wait() { d.telling.Wait() }

// remove forgets a shard that goes to its leader again, which sees that by itself.
func (d *bypasses) remove(o wire.Origin) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.of) > 0 {
		delete(d.of, keyShard{o.Key, o.Shard})
	}
}

// failed forgets a shard whose leader could not be told: the next push tries again.
func (d *bypasses) failed(p *wire.Push) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if id := (keyShard{p.Key, p.Shard}); d.of[id] == p {
		delete(d.of, id)
	}
}

// insist makes attempts to tell a shard's leader for as long as the others would wait. A leader
// that sums up nothing needs no telling.
func (d *bypasses) insist(p *wire.Push) {
	pause, began := attempt.FirstPause, time.Now()
	for {
		err := d.tell(d.over, p)
		var refusal *transport.Refusal
		if err == nil || errors.As(err, &refusal) && refusal.Code == wire.CodePushAlone {
			return
		}
		if time.Since(began) > d.patience {
			d.failed(p)
			return
		}
		t := time.NewTimer(pause)
		select {
		case <-t.C:
		case <-d.over.Done():
			t.Stop()
			return
		}
		pause = min(2*pause, attempt.LongestPause)
	}
}
