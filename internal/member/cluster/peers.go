package cluster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"

	"github.com/paragon-train/paragon/internal/store/transport"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// peers are the Clients to servers, and to workers of this host, each made when it is asked for
// first. They own them: callers share them, and cannot close them.
type peers struct {
	life *life
	// config is how to reach a node of a role.
	config func(Role) transport.Config
	// servers is replaced under mu, and read for every request without it.
	servers atomic.Pointer[servers]
	// wg has the goroutines that close Clients of former members.
	wg sync.WaitGroup

	// mu guards all below.
	mu     sync.Mutex
	closed bool
	// callers are by address.
	callers map[string]*caller
}

// servers are the callers to servers, by rank, that were asked for in one membership: the one in
// which the node has the position at. Each membership has a position of its own.
type servers struct {
	at      *position
	callers map[Rank]*caller
}

// newPeers returns peers without a Client.
func newPeers(l *life, config func(Role) transport.Config) *peers {
	p := &peers{life: l, config: config, callers: make(map[string]*caller)}
	p.servers.Store(&servers{})
	return p
}

// server returns the caller to the server of a rank, whose address find finds in the membership. at
// is the node's position in the membership of this moment, or in one before.
func (p *peers) server(rank Rank, at *position, find func(Rank) (addr string, err error)) (*caller, error) {
	known := p.servers.Load()
	if known.at == at && !p.life.ended.Load() {
		if c := known.callers[rank]; c != nil {
			return c, nil
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	c, err := p.find(Server, func() (string, error) { return find(rank) })
	if err != nil {
		return nil, err
	}
	now := &servers{at, map[Rank]*caller{rank: c}}
	if known = p.servers.Load(); known.at == at {
		maps.Copy(now.callers, known.callers)
	}
	p.servers.Store(now)
	return c, nil
}

// worker returns the caller to a worker of this host, whose address find finds in the membership.
func (p *peers) worker(find func() (addr string, err error)) (*caller, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.find(Worker, find)
}

// find returns the caller to a node of a role, whose address find finds in the membership. The
// caller holds mu also while find runs, so that keep, which comes after each change of the
// membership, finds the callers to all earlier members.
func (p *peers) find(role Role, find func() (addr string, err error)) (*caller, error) {
	if err := p.life.over(); err != nil {
		return nil, err
	}
	addr, err := find()
	if err != nil {
		return nil, err
	}
	c := p.callers[addr]
	if c == nil {
		c = &caller{transport.NewClient(addr, p.config(role)), addr, p.life}
		p.callers[addr] = c
	}
	return c, nil
}

// keep closes the Clients to those that are no longer members: calls to a silent one would wait for
// ever.
func (p *peers) keep(m *wire.Membership) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || m.Phase != wire.PhaseRunning {
		return
	}
	here := make(map[string]bool, len(p.callers))
	for i := range m.Nodes {
		x := &m.Nodes[i]
		if x.Role == wire.RoleServer {
			here[x.Addr] = true
		} else if addr, _ := x.HostSums(); addr != "" {
			here[addr] = true
		}
	}
	for addr, c := range p.callers {
		if !here[addr] {
			delete(p.callers, addr)
			p.wg.Go(func() { c.Client.Close() })
		}
	}
}

// close closes all Clients. The life has ended, so that no other one is made.
func (p *peers) close() {
	p.mu.Lock()
	p.closed = true
	callers := p.callers
	p.mu.Unlock()
	for _, c := range callers {
		c.Client.Close()
	}
}

// A caller is the Client to a server. If the job's end breaks a call, the error says why the job
// ended.
type caller struct {
	*transport.Client
	addr string
	life *life
}

// Call implements transport.Caller.
func (c *caller) Call(ctx context.Context, request, answer wire.Message, dst []byte, payload ...[]byte) ([]byte, error) {
	return c.CallNotify(ctx, nil, request, answer, dst, payload...)
}

// CallNotify implements transport.Notifier.
func (c *caller) CallNotify(ctx context.Context, sent func(), request, answer wire.Message, dst []byte, payload ...[]byte) ([]byte, error) {
	b, err := c.Client.CallNotify(ctx, sent, request, answer, dst, payload...)
	if err != nil && errors.Is(err, transport.ErrClosed) {
		if over := c.life.over(); over != nil {
			return nil, fmt.Errorf("%w: %w", over, err)
		}
	}
	return b, err
}

// Close does nothing: the node owns its callers.
func (c *caller) Close() error { return nil }
