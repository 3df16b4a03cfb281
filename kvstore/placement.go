package kvstore

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/paragon-train/paragon/internal/member/cluster"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// A placementSource is a member of a job whose shards may move to other servers, such as
// *cluster.Node.
type placementSource interface {
	Changed() <-chan struct{}
	Places(ctx context.Context, from uint64) (wire.Places, error)
}

var _ placementSource = (*cluster.Node)(nil)

// A placementTracker keeps track of which server has which shard, in a job whose shards have
// backups. When a server is lost it learns which servers take over, and sends these the
// unreplicated pushes.
type placementTracker struct {
	s       *store
	node    placementSource // nil: shards never move
	version atomic.Uint64
	stale   chan struct{} // holds a token when a key's plan may be older than the newest placement
	ctx     context.Context
	cancel  context.CancelFunc
	work    sync.WaitGroup

	mu           sync.Mutex // guards the rest
	keys         map[uint64]*key
	knownServers map[uint64]bool // nodes that have been sent mode and optimizer
}

// trackPlacement starts the store's placementTracker; close stops it.
func (s *store) trackPlacement() {
	p := &placementTracker{s: s, stale: make(chan struct{}, 1), keys: map[uint64]*key{}, knownServers: map[uint64]bool{}}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	s.placement = p
	m := s.node.Membership()
	node, ok := s.node.(placementSource)
	if !ok || m.Placement == 0 {
		return
	}
	p.node = node
	p.version.Store(m.Placement)
	for _, n := range m.Nodes {
		p.knownServers[n.Node] = true
	}
	p.work.Go(p.run)
}

func (p *placementTracker) close() {
	p.cancel()
	p.work.Wait()
}

// movable reports whether shards may move to other servers.
func (p *placementTracker) movable() bool { return p.node != nil }

// track adds a key, whose plan was asked for when the placement was this one.
func (p *placementTracker) track(k *key, placement uint64) {
	if !p.movable() {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.keys[k.id] = k
	if p.version.Load() != placement { // the plan may be older
		p.requestRefresh()
	}
}

// requestRefresh makes run read the placement again.
func (p *placementTracker) requestRefresh() {
	select {
	case p.stale <- struct{}{}:
	default:
	}
}

func (p *placementTracker) run() {
	missed := false
	for {
		news := p.node.Changed()
		m := p.s.node.Membership()
		var soon <-chan time.Time
		if missed || m.Placement > p.version.Load() {
			if err := p.refresh(); err != nil {
				if p.ctx.Err() != nil {
					return
				}
				p.s.logger.Warn("kvstore: cannot read the placement of shards; retrying", "err", err)
				soon = time.After(refreshPause)
			} else {
				missed = false
			}
		}
		p.setUpNewServers(&m)
		select {
		case <-news:
		case <-soon:
		case <-p.stale:
			missed = true
		case <-p.ctx.Done():
			return
		case <-p.s.node.Done():
			return
		}
	}
}

// refreshPause is the time between two attempts to read the placement. Calls to the shards of a
// lost server wait meanwhile, so it is short.
const refreshPause = 50 * time.Millisecond

// refresh reads where all shards are, and starts to resend the unreplicated pushes of those that
// moved.
func (p *placementTracker) refresh() error {
	got, err := p.node.Places(p.ctx, 0)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	moved := map[*key][]int{}
	for _, x := range got.Places {
		k := p.keys[x.Key]
		if k == nil || int(x.Shard) >= len(k.servers) {
			continue
		}
		if k.servers[x.Shard].Swap(x.Server) != x.Server {
			moved[k] = append(moved[k], int(x.Shard))
		}
	}
	p.version.Store(got.Placement) // stored after the servers: a call that reads this version sends to the new servers
	for k, shards := range moved {
		p.s.hostSums.moved(k, shards)
		if k.unreplicated.Load() == nil { // of most keys, where there are many; a push that is acknowledged later is sent again by acknowledged
			continue
		}
		p.work.Go(func() { k.unreplicated.Load().resend(p.ctx, k, shards) })
	}
	return nil
}

// setUpNewServers sends mode, guard and optimizer to servers that have joined since.
func (p *placementTracker) setUpNewServers(m *wire.Membership) {
	fresh, here := false, map[uint64]bool{}
	p.mu.Lock()
	for _, n := range m.Nodes {
		if n.Role == wire.RoleServer {
			here[n.Node] = true
			fresh = fresh || !p.knownServers[n.Node]
		}
	}
	p.knownServers = here
	p.mu.Unlock()
	if !fresh || p.s.joining.Load() {
		return
	}
	config := ""
	p.s.mu.Lock()
	opt := p.s.optimizer
	p.s.mu.Unlock()
	if opt != nil {
		data, err := opt.Encode()
		if err != nil {
			return
		}
		config = string(data)
	}
	p.work.Go(func() {
		o, err := p.s.optimizerOp("set optimizer on new servers", config)
		if err == nil {
			o.background = true
			err = o.run(p.ctx)
		}
		if err != nil && p.ctx.Err() == nil {
			p.s.logger.Warn("kvstore: cannot set the optimizer on new servers", "err", err)
		}
	})
}
