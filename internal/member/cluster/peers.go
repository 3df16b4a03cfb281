package cluster

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/paragon-train/paragon/internal/store/transport"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// peers are the Clients to servers, and to workers of this host, each made when it is asked for
// first. They own them: callers share them, and cannot close them.
type peers struct {
	life *life
	// config is how to reach a node of a role.
	config func(Role) transport.Config
	// wg has the goroutines that close Clients of former members.
	wg sync.WaitGroup

	// mu guards all below.
	mu     sync.Mutex
	closed bool
	// callers are by address.
	callers map[string]*caller
}

// newPeers returns peers without a Client.
func newPeers(l *life, config func(Role) transport.Config) *peers {
	return &peers{life: l, config: config, callers: make(map[string]*caller)}
}

// to returns the caller to a node of a role, whose address find finds in the membership. find runs
// under mu, so that keep, which comes after each change of the membership, finds the callers to all
// earlier members.
func (p *peers) to(role Role, find func() (addr string, err error)) (*caller, string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.life.over(); err != nil {
		return nil, "", err
	}
	addr, err := find()
	if err != nil {
		return nil, "", err
	}
	c := p.callers[addr]
	if c == nil {
		c = &caller{transport.NewClient(addr, p.config(role)), p.life}
		p.callers[addr] = c
	}
	return c, addr, nil
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
