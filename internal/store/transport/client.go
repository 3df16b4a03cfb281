package transport

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/paragon-train/paragon/internal/store/freelist"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// A Client sends requests to one address over a few connections, which it dials when they are first
// needed, and again after they broke. It may be used by any number of goroutines.
type Client struct {
	addr  string
	cfg   Config
	slots []slot
	next  atomic.Uint32
	// turns holds a token for each request in flight.
	turns chan struct{}
	calls freelist.List[call]

	// ctx ends with Close.
	ctx    context.Context
	cancel context.CancelFunc
	// mu guards the two below.
	mu    sync.Mutex
	ended bool
	conns map[*clientConn]bool
	// wg waits for the goroutines of connections.
	wg sync.WaitGroup
}

// A slot is the place of one connection.
type slot struct {
	// dialing holds a token while no goroutine dials.
	dialing chan struct{}
	conn    atomic.Pointer[clientConn]
}

// NewClient returns a Client for the peer at addr, host:port. It does not connect yet.
func NewClient(addr string, cfg Config) *Client {
	cfg = cfg.withDefaults()
	if cfg.Connections <= 0 {
		cfg.Connections = cfg.connectionsTo(addr)
	}
	c := &Client{
		addr: addr, cfg: cfg,
		slots: make([]slot, cfg.Connections),
		turns: make(chan struct{}, cfg.MaxInFlight),
		conns: make(map[*clientConn]bool),
	}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	for i := range c.slots {
		c.slots[i].dialing = make(chan struct{}, 1)
	}
	return c
}

// Addr is the peer's address.
func (c *Client) Addr() string { return c.addr }

// Close closes all connections and ends all calls with ErrClosed. It returns when all of the
// Client's goroutines have ended.
func (c *Client) Close() error {
	c.mu.Lock()
	c.ended = true
	c.cancel()
	conns := make([]*clientConn, 0, len(c.conns))
	for cc := range c.conns {
		conns = append(conns, cc)
	}
	c.mu.Unlock()
	for _, cc := range conns {
		cc.kill(ErrClosed)
	}
	c.wg.Wait()
	return nil
}

// Call implements Caller.
func (c *Client) Call(ctx context.Context, request, answer wire.Message, dst []byte, payload ...[]byte) ([]byte, error) {
	return c.CallNotify(ctx, nil, request, answer, dst, payload...)
}

// CallNotify implements Notifier.
func (c *Client) CallNotify(ctx context.Context, sent func(), request, answer wire.Message, dst []byte, payload ...[]byte) ([]byte, error) {
	b, err := c.call(ctx, sent, request, answer, dst, payload)
	if err == nil {
		return b, nil
	}
	var refusal *Refusal
	if errors.As(err, &refusal) {
		return nil, err
	}
	return nil, fmt.Errorf("transport: %v to %s: %w", request.Kind(), c.addr, err)
}

func (c *Client) call(ctx context.Context, sent func(), request, answer wire.Message, dst []byte, payload [][]byte) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	size := payloadSize(payload)
	select {
	case c.turns <- struct{}{}:
		defer func() { <-c.turns }()
	case <-ctx.Done():
		return nil, fmt.Errorf("%d requests in flight: %w", c.cfg.MaxInFlight, ctx.Err())
	case <-c.ctx.Done():
		return nil, ErrClosed
	}
	k := c.calls.Take()
	if k == nil {
		k = newCall()
	}
	*k = call{addr: c.addr, answer: answer, dst: dst, done: k.done}
	defer func() {
		k.endLoan()
		*k = call{done: k.done}
		c.calls.Keep(k)
	}()
	for {
		cc, err := c.connection(ctx)
		if err != nil {
			return nil, err
		}
		id, ok := cc.register(k)
		if !ok {
			// It broke before anything was sent: another connection is used.
			continue
		}
		if err := cc.send(ctx, id, k, request, size, payload); err != nil {
			return nil, err
		}
		if sent != nil {
			sent()
		}
		return cc.wait(ctx, id, k)
	}
}

// connection returns the connection of the next slot, in turn; it dials if the slot has none.
func (c *Client) connection(ctx context.Context) (*clientConn, error) {
	s := &c.slots[c.next.Add(1)%uint32(len(c.slots))]
	if cc := s.conn.Load(); cc != nil && cc.usable() {
		return cc, nil
	}
	select {
	case s.dialing <- struct{}{}:
		defer func() { <-s.dialing }()
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-c.ctx.Done():
		return nil, ErrClosed
	}
	if cc := s.conn.Load(); cc != nil && cc.usable() {
		return cc, nil
	}
	cc, err := c.dial(ctx)
	if err != nil {
		return nil, err
	}
	s.conn.Store(cc)
	return cc, nil
}

// dial makes a connection and proves who this process is. It is bounded by DialTimeout, since a
// host that is gone does not answer at all.
func (c *Client) dial(ctx context.Context) (*clientConn, error) {
	dctx, cancel := context.WithTimeout(ctx, c.cfg.DialTimeout)
	defer cancel()
	defer context.AfterFunc(c.ctx, cancel)()
	nc, err := c.cfg.Network.Dial(dctx, c.addr)
	if err == nil {
		raw := nc
		if nc, err = c.shakeHands(dctx, raw); err != nil {
			raw.Close()
		}
	}
	switch {
	case err == nil:
	case c.ctx.Err() != nil:
		return nil, ErrClosed
	case ctx.Err() != nil:
		return nil, fmt.Errorf("dial: %w", ctx.Err())
	case errors.Is(err, ErrAuth):
		return nil, fmt.Errorf("dial: %w", err)
	default:
		return nil, fmt.Errorf("dial: %w: %w", ErrConnection, err)
	}
	return c.adopt(nc)
}

// shakeHands runs the handshake, which ends with ctx.
func (c *Client) shakeHands(ctx context.Context, raw net.Conn) (net.Conn, error) {
	past := time.Unix(1, 0)
	stop := context.AfterFunc(ctx, func() { raw.SetDeadline(past) })
	deadline, _ := ctx.Deadline()
	nc, err := c.cfg.handshakeServer(raw, deadline)
	if !stop() && err == nil {
		nc.Close()
		err = ctx.Err()
	}
	return nc, err
}

// adopt starts the goroutines of a connection.
func (c *Client) adopt(nc net.Conn) (*clientConn, error) {
	cc := newClientConn(c.addr, nc, trafficOf(nc, c.cfg.Recorder))
	c.mu.Lock()
	if c.ended {
		c.mu.Unlock()
		nc.Close()
		return nil, ErrClosed
	}
	c.conns[cc] = true
	c.wg.Add(2)
	c.mu.Unlock()
	go func() {
		defer c.wg.Done()
		cc.w.run(cc.kill)
	}()
	go func() {
		defer c.wg.Done()
		cc.kill(cc.read())
		c.mu.Lock()
		delete(c.conns, cc)
		c.mu.Unlock()
	}()
	return cc, nil
}
