package kvstore

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/paragon-train/paragon/internal/member/cluster"
	"github.com/paragon-train/paragon/internal/store/hostsum"
	"github.com/paragon-train/paragon/internal/store/transport"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// departures are the shards that this worker pushes for itself although its host adds them up: by
// calls that no group takes, such as Push, or with compression. The leader of each was told, or is
// being told, so that the host's other workers do not wait.
type departures struct {
	mu    sync.Mutex // guards the rest, and the start of goroutines that tell leaders
	of    map[keyShard]*wire.Push
	ended bool // the store closes: leaders learn the rest from the membership
}

type keyShard struct {
	key   uint64
	shard uint32
}

// add adds a shard and starts tell on a goroutine of work, unless its leader was told before.
func (d *departures) add(o wire.Origin, round uint64, work *sync.WaitGroup, tell func(*wire.Push)) {
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
	work.Go(func() { tell(p) })
}

// once starts tell without a shard that is pushed apart from now on.
func (d *departures) once(p *wire.Push, work *sync.WaitGroup, tell func(*wire.Push)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.ended {
		work.Go(func() { tell(p) })
	}
}

// end keeps add from starting goroutines.
func (d *departures) end() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ended = true
}

// remove forgets a shard that goes to its leader again, which sees that by itself.
func (d *departures) remove(o wire.Origin) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.of) > 0 {
		delete(d.of, keyShard{o.Key, o.Shard})
	}
}

// failed forgets a shard whose leader could not be told: the next push tries again.
func (d *departures) failed(p *wire.Push) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if id := (keyShard{p.Key, p.Shard}); d.of[id] == p {
		delete(d.of, id)
	}
}

// all returns what leaders of another membership are to be told.
func (d *departures) all() (list []*wire.Push) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for id, p := range d.of {
		again := *p
		d.of[id] = &again
		list = append(list, &again)
	}
	return list
}

// leave tells the leader of a shard that this worker pushes for itself, in a round and until it
// comes again.
func (h *hostSummer) leave(o wire.Origin, round uint64) {
	if len(h.host.Load().group) < 2 {
		return
	}
	h.departures.add(o, round, &h.work, h.tell)
}

// moved tells the leaders of shards that are at other servers now that this worker may not come to
// the round: until all of this host's workers know where a shard is, some may go to the leader and
// some not. Small keys, of which there may be very many, have no leaders: see sumsShard.
func (h *hostSummer) moved(k *key, shards []int) {
	if h == nil || k.form != wire.FormDense || k.size <= smallValues && !h.all || len(h.host.Load().group) < 2 {
		return
	}
	seq, round := k.next()
	for _, i := range shards {
		h.departures.once(&wire.Push{Origin: k.origin(i, seq+1), Round: round}, &h.work, h.tell)
	}
}

// tellAll tells the leaders of a new membership. It is called on a goroutine of h.work.
func (h *hostSummer) tellAll() {
	if list := h.departures.all(); len(list) > 0 {
		h.work.Go(func() {
			for _, p := range list {
				h.tell(p)
			}
		})
	}
}

// tell tells a shard's leader that this worker pushes for itself. It tries again for as long as the
// others would wait.
func (h *hostSummer) tell(p *wire.Push) {
	pause, began := firstPause, time.Now()
	for {
		err := h.tryTell(p)
		var refusal *transport.Refusal
		if err == nil || errors.As(err, &refusal) && refusal.Code == wire.CodePushAlone {
			return
		}
		if time.Since(began) > h.s.noteEvery {
			h.departures.failed(p)
			return
		}
		t := time.NewTimer(pause)
		select {
		case <-t.C:
		case <-h.ctx.Done():
			t.Stop()
			return
		}
		pause = min(2*pause, longestPause)
	}
}

func (h *hostSummer) tryTell(p *wire.Push) error {
	request := *p
	stamp(h.node, &request.Origin)
	v := h.host.Load()
	if len(v.group) < 2 {
		return errNoLeader
	}
	leader := v.group[hostsum.Leader(p.Key, p.Shard, len(v.group))]
	if leader == request.Node {
		return h.sums.Leave(&request)
	}
	if h.isUnreachable(leader) {
		return errNoLeader
	}
	peer, err := h.node.Worker(cluster.NodeID(leader))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(h.ctx, leaderGrace)
	defer cancel()
	_, err = peer.Call(ctx, &request, &wire.Ack{}, nil)
	return err
}
