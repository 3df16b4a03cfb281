package kvstore

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/paragon-train/paragon/internal/cluster"
	"github.com/paragon-train/paragon/internal/transport"
	"github.com/paragon-train/paragon/internal/wire"
)

// placer is what a member has to offer beyond member in a job whose shards may come to other servers. *cluster.Node is one.
type placer interface {
	Changed() <-chan struct{}
	Places(ctx context.Context, from uint64) (wire.Places, error)
}

var _ placer = (*cluster.Node)(nil)

// placing follows where the shards are, in a job whose shards have backups: when a server is lost, it learns which ones take its place,
// and sends them again what the lost one may have held for open rounds.
type placing struct {
	s         *store
	node      placer // nil: shards stay where they are
	placement atomic.Uint64
	again     chan struct{} // holds a token when a key may have missed a placement
	ctx       context.Context
	cancel    context.CancelFunc
	work      sync.WaitGroup

	mu   sync.Mutex // guards the rest
	keys map[uint64]*key
	seen map[uint64]bool // servers of the job that were told mode and optimizer
}

// followPlaces begins to follow; close ends it.
func (s *store) followPlaces() {
	p := &placing{s: s, again: make(chan struct{}, 1), keys: map[uint64]*key{}, seen: map[uint64]bool{}}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	s.placing = p
	m := s.node.Membership()
	node, ok := s.node.(placer)
	if !ok || m.Placement == 0 {
		return
	}
	p.node = node
	p.placement.Store(m.Placement)
	for _, n := range m.Nodes {
		p.seen[n.Node] = true
	}
	p.work.Go(p.run)
}

func (p *placing) close() {
	p.cancel()
	p.work.Wait()
}

// moves reports whether shards may come to other servers.
func (p *placing) moves() bool { return p.node != nil }

// add makes the key's shards followed, from a plan that was asked for under a placement.
func (p *placing) add(k *key, placement uint64) {
	if !p.moves() {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.keys[k.id] = k
	if p.placement.Load() != placement { // the plan may be older
		p.look()
	}
}

// look makes the places be read again.
func (p *placing) look() {
	select {
	case p.again <- struct{}{}:
	default:
	}
}

func (p *placing) run() {
	missed := false
	for {
		news := p.node.Changed()
		m := p.s.node.Membership()
		var soon <-chan time.Time
		if missed || m.Placement > p.placement.Load() {
			if err := p.read(); err != nil {
				if p.ctx.Err() != nil {
					return
				}
				p.s.logger.Warn("kvstore: read where shards are; trying again", "err", err)
				soon = time.After(placesPause)
			} else {
				missed = false
			}
		}
		p.greet(&m)
		select {
		case <-news:
		case <-soon:
		case <-p.again:
			missed = true
		case <-p.ctx.Done():
			return
		case <-p.s.node.Done():
			return
		}
	}
}

// placesPause is the time between two attempts to learn where shards are.
const placesPause = 50 * time.Millisecond

// read learns where all shards are, and has sent again what those that moved may lack.
func (p *placing) read() error {
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
	p.placement.Store(got.Placement) // after the servers: who sees it sends to the new ones
	for k, shards := range moved {
		p.work.Go(func() { k.kept.again(p.ctx, k, shards) })
	}
	return nil
}

// greet tells servers that are new in the job what all servers were told.
func (p *placing) greet(m *wire.Membership) {
	fresh, here := false, map[uint64]bool{}
	p.mu.Lock()
	for _, n := range m.Nodes {
		if n.Role == wire.RoleServer {
			here[n.Node] = true
			fresh = fresh || !p.seen[n.Node]
		}
	}
	p.seen = here
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
			o.own = true
			err = o.run(p.ctx)
		}
		if err != nil && p.ctx.Err() == nil {
			p.s.logger.Warn("kvstore: set optimizer on new servers", "err", err)
		}
	})
}

// rank is the server that the call goes to.
func (c *call) rank() int {
	if c.key != nil {
		return int(c.key.servers[c.shard].Load())
	}
	return c.server
}

// moves reports whether a failed attempt may go better with another server, or once the scheduler has found one.
func (c *call) moves(err error) bool {
	s := c.op.s
	if !s.placing.moves() {
		return false
	}
	select {
	case <-s.node.Done():
		return false
	default:
	}
	var r *transport.Refusal
	if errors.As(err, &r) {
		return r.Code == wire.CodeMoved || r.Code == wire.CodeUnavailable
	}
	return errors.Is(err, cluster.ErrNoServer) || errors.Is(err, transport.ErrClosed)
}

// gone reports whether the call is to a server, whatever its shards, that the job goes on without.
func (c *call) gone(err error) bool {
	return c.key == nil && c.op.s.placing.moves() && errors.Is(err, cluster.ErrNoServer)
}
