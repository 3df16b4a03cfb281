package faultnet

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// A Host is one host's view of a Network, and the life of what runs there.
type Host struct {
	n    *Network
	name string
	dead atomic.Bool
	// mute says that the host died without closing connections. n.mu guards it.
	mute bool
	// frozen is closed by Thaw; nil: the host runs.
	frozen atomic.Pointer[chan struct{}]
}

// Host returns a view of the host of that name; hosts need not be made beforehand. Several views of
// a host live and die by themselves.
func (n *Network) Host(name string) *Host { return &Host{n: n, name: name} }

// Name is the host's name.
func (h *Host) Name() string { return h.name }

// Freeze stops what runs on the host: reads, writes, dials and accepts of this view wait for Thaw,
// and those under way end no sooner. What others send is kept for it, as a kernel does. Its timers
// go on.
func (h *Host) Freeze() {
	c := make(chan struct{})
	h.frozen.CompareAndSwap(nil, &c)
}

// Thaw lets it go on.
func (h *Host) Thaw() {
	if c := h.frozen.Swap(nil); c != nil {
		close(*c)
	}
}

// awake waits while the host is frozen.
func (h *Host) awake() {
	for c := h.frozen.Load(); c != nil; c = h.frozen.Load() {
		<-*c
	}
}

// Kill ends the processes of the host for ever: all calls of this Host fail from now on, and its
// listeners are closed. Its connections are reset once the bytes in transit have arrived, as the
// kernel of a killed process does it. If silent, they are not: what others send is lost, and dials
// to the host get no answer until something listens there again.
func (h *Host) Kill(silent bool) {
	n := h.n
	n.mu.Lock()
	h.dead.Store(true)
	if h.mute = silent; silent {
		n.silent[h.name] = true
	}
	var gone []*listener
	for _, l := range n.listeners {
		if l.host == h {
			gone = append(gone, l)
		}
	}
	// Each pair is treated alike, so the order does not matter.
	for p := range n.pairs {
		out, in := p.there, p.back
		switch h {
		case p.from:
		case p.to:
			out, in = in, out
		default:
			continue
		}
		out.die(silent)
		in.orphan(silent)
		if !silent && !out.lossy() && !in.lossy() {
			// A lossy link keeps the news from the other end until it is restored.
			delete(n.pairs, p)
		}
	}
	n.mu.Unlock()
	for _, l := range gone {
		l.Close()
	}
	h.Thaw()
}

// Listen listens at the host, whatever host addr names, on addr's port; port 0 takes a free one.
func (h *Host) Listen(address string) (net.Listener, error) {
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("faultnet: listen on %q: %w", address, err)
	}
	n := h.n
	n.mu.Lock()
	defer n.mu.Unlock()
	if port == "0" {
		n.nextPort++
		port = strconv.Itoa(n.nextPort)
	}
	a := addr(net.JoinHostPort(h.name, port))
	switch {
	case h.dead.Load():
		return nil, &net.OpError{Op: "listen", Net: "fault", Addr: a, Err: net.ErrClosed}
	case n.listeners[string(a)] != nil:
		return nil, &net.OpError{Op: "listen", Net: "fault", Addr: a, Err: syscall.EADDRINUSE}
	}
	l := &listener{n: n, host: h, addr: a, queue: make(chan *conn, 128), closed: make(chan struct{})}
	n.listeners[string(a)] = l
	delete(n.silent, h.name)
	// What runs there now knows nothing of the connections of what ran there before.
	for p := range n.pairs {
		if p.from.mute && p.from.name == h.name || p.to.mute && p.to.name == h.name {
			p.there.reset()
			p.back.reset()
			delete(n.pairs, p)
		}
	}
	return l, nil
}

// Dial connects to a listener. Over a link that drops it tries again after 1 s, 2 s more, 4 s more,
// as TCP does, until ctx ends.
func (h *Host) Dial(ctx context.Context, address string) (net.Conn, error) {
	for pause := time.Second; ; pause *= 2 {
		h.awake()
		c, err := h.dial(ctx, address)
		if c != nil || err != nil {
			return c, err
		}
		t := time.NewTimer(pause)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return nil, &net.OpError{Op: "dial", Net: "fault", Addr: addr(address), Err: ctx.Err()}
		}
	}
}

// dial tries once; it returns nothing where nothing is heard.
func (h *Host) dial(ctx context.Context, address string) (net.Conn, error) {
	n := h.n
	fail := func(err error) (net.Conn, error) {
		return nil, &net.OpError{Op: "dial", Net: "fault", Addr: addr(address), Err: err}
	}
	to := addr(address).host()
	n.mu.Lock()
	l := n.listeners[address]
	switch {
	case h.dead.Load():
		n.mu.Unlock()
		return fail(net.ErrClosed)
	case hit(n.drops, h.name, to), hit(n.drops, to, h.name), l == nil && n.silent[to]:
		n.mu.Unlock()
		return nil, nil
	case l == nil, hit(n.refuses, h.name, to):
		n.mu.Unlock()
		return fail(syscall.ECONNREFUSED)
	}
	n.nextPort++
	mine := addr(net.JoinHostPort(h.name, strconv.Itoa(n.nextPort)))
	p := &pair{dialer: h.name, listener: to, from: h, to: l.host, there: newHalf(), back: newHalf()}
	n.pairs[p] = true
	way := link{h.name, to}
	seed := mix(mix(n.seed, h.name), to) + n.made[way]
	n.made[way]++
	n.mu.Unlock()
	c := &conn{net: n, host: h, rng: rand.New(rand.NewPCG(seed, 1)), pair: p, in: p.back, out: p.there, local: mine, remote: l.addr}
	other := &conn{net: n, host: l.host, rng: rand.New(rand.NewPCG(seed, 2)), pair: p, in: p.there, out: p.back, local: l.addr, remote: mine}
	select {
	case l.queue <- other:
		h.awake()
		return c, nil
	case <-l.closed:
		c.Close()
		return fail(syscall.ECONNREFUSED)
	case <-ctx.Done():
		c.Close()
		return fail(ctx.Err())
	}
}

// mix makes another seed of a seed and a name (FNV-1a).
func mix(seed uint64, name string) uint64 {
	for _, c := range []byte(name) {
		seed = (seed ^ uint64(c)) * 0x100000001b3
	}
	return seed
}

type listener struct {
	n      *Network
	host   *Host
	addr   addr
	queue  chan *conn
	once   sync.Once
	closed chan struct{}
}

func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.queue:
		l.host.awake()
		return c, nil
	case <-l.closed:
		return nil, &net.OpError{Op: "accept", Net: "fault", Addr: l.addr, Err: net.ErrClosed}
	}
}

func (l *listener) Addr() net.Addr { return l.addr }

func (l *listener) Close() error {
	l.once.Do(func() {
		close(l.closed)
		l.n.mu.Lock()
		if l.n.listeners[string(l.addr)] == l {
			delete(l.n.listeners, string(l.addr))
		}
		l.n.mu.Unlock()
		for {
			select {
			case c := <-l.queue:
				c.pair.there.reset()
				c.pair.back.reset()
				l.n.forget(c.pair)
			default:
				return
			}
		}
	})
	return nil
}
