package kvstore

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/paragon-train/paragon/internal/store/wire"
)

// A placementTracker keeps track of which server has which shard, in a job whose shards have
// backups. When a server is lost it learns which servers take over, and sends these the
// unreplicated pushes.
type placementTracker struct {
	member member
	// source is the member, where shards may move; nil: they never do.
	source  placementSource
	env     placementEnv
	version atomic.Uint64
	// stale holds a token when a key's plan may be older than the newest placement.
	stale  chan struct{}
	ctx    context.Context
	cancel context.CancelFunc
	work   sync.WaitGroup

	// mu guards the fields below.
	mu   sync.Mutex
	keys map[uint64]*key
	// knownServers are the nodes that have been sent mode and optimizer.
	knownServers map[uint64]bool
}

// placementEnv is what a placementTracker needs of the rest of a store.
type placementEnv struct {
	// moved hears of the shards of a key that are at other servers now.
	moved func(k *key, shards []int)
	// resend sends these the unreplicated pushes.
	resend func(ctx context.Context, k *key, shards []int)
	// setUp sends mode, guard and optimizer to all servers.
	setUp func(ctx context.Context) error
	// joining reports whether this worker does not count yet.
	joining func() bool
	logger  *slog.Logger
}

// newPlacementTracker returns the tracker of a member; start starts it.
func newPlacementTracker(node member) *placementTracker {
	p := &placementTracker{member: node, stale: make(chan struct{}, 1), keys: map[uint64]*key{}, knownServers: map[uint64]bool{}}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	m := node.Membership()
	source, ok := node.(placementSource)
	if !ok || m.Placement == 0 {
		return p
	}
	p.source = source
	p.version.Store(m.Placement)
	for _, n := range m.Nodes {
		p.knownServers[n.Node] = true
	}
	return p
}

// start follows the placement until close.
func (p *placementTracker) start(env placementEnv) {
	p.env = env
	if p.movable() {
		p.work.Go(p.run)
	}
}

func (p *placementTracker) close() {
	p.cancel()
	p.work.Wait()
}

// movable reports whether shards may move to other servers.
func (p *placementTracker) movable() bool { return p.source != nil }

// track adds a key, whose plan was asked for when the placement was this one. From then on its
// servers are kept up to date; a move between the plan and this call is made up for.
func (p *placementTracker) track(k *key, placement uint64) {
	if !p.movable() {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.keys[k.id] = k
	// The plan may be older than the newest placement.
	if p.version.Load() != placement {
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
		news := p.source.Changed()
		m := p.member.Membership()
		var soon <-chan time.Time
		if missed || m.Placement > p.version.Load() {
			if err := p.refresh(); err != nil {
				if p.ctx.Err() != nil {
					return
				}
				p.env.logger.Warn("kvstore: cannot read the placement of shards; retrying", "err", err)
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
		case <-p.member.Done():
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
	got, err := p.source.Places(p.ctx, 0)
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
	// The version is stored after the servers: a call that reads this version sends to the new
	// servers.
	p.version.Store(got.Placement)
	for k, shards := range moved {
		p.env.moved(k, shards)
		// Most keys have none, where there are many keys. A push that is acknowledged later
		// is sent again then (replication.acknowledged).
		if k.unreplicated.Load() != nil {
			p.work.Go(func() { p.env.resend(p.ctx, k, shards) })
		}
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
	if !fresh || p.env.joining() {
		return
	}
	p.work.Go(func() {
		if err := p.env.setUp(p.ctx); err != nil && p.ctx.Err() == nil {
			p.env.logger.Warn("kvstore: cannot set the optimizer on new servers", "err", err)
		}
	})
}
