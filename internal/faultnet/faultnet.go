// Package faultnet is a network in memory whose links can be made to fail.
//
// A Network has hosts by name. Host returns what one host sees of it: it listens at names of its own and dials the others,
// over connections that are buffers in memory, with deadlines, so that whole jobs run in one process and on the fake time
// of testing/synctest. A link is an ordered pair of hosts; either name may be Any.
//
//	n := faultnet.New(seed) // print the seed
//	n.Delay("w0", "s1", 5*time.Millisecond, 20*time.Millisecond)
//	n.Cut("w1", faultnet.Any)  // its connections break, as by a reset
//	n.Drop("w1", faultnet.Any) // what it sends vanishes: nobody is told
//	n.Refuse("w2", "s0")       // it can make no new connections there
//	n.Heal()                   // all links are whole again
//
// A connection that has lost bytes cannot be whole again: Heal resets it.
//
// The seed decides delays and Step's random faults. Two runs make the same choices as long as they ask in the same order.
package faultnet

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Any stands for every host in the rules of links.
const Any = "*"

// A Network connects hosts. Its methods may be called from any goroutine.
type Network struct {
	mu        sync.Mutex // guards all below
	rng       *rand.Rand
	listeners map[string]*listener
	pairs     map[*pair]bool
	nextPort  int
	drops     map[link]bool
	refuses   map[link]bool
	delays    map[link]span
}

type link struct{ from, to string }
type span struct{ min, max time.Duration }

// A pair is a connection: the halves of both directions.
type pair struct {
	dialer, listener string // hosts
	there, back      *half  // from the dialer, to the dialer
}

// New returns a Network without faults.
func New(seed uint64) *Network {
	return &Network{
		rng:       rand.New(rand.NewPCG(seed, 0x6661756c746e6574)),
		listeners: make(map[string]*listener),
		pairs:     make(map[*pair]bool),
		nextPort:  40000,
		drops:     make(map[link]bool),
		refuses:   make(map[link]bool),
		delays:    make(map[link]span),
	}
}

type addr string

func (addr) Network() string  { return "fault" }
func (a addr) String() string { return string(a) }
func (a addr) host() string {
	host, _, _ := net.SplitHostPort(string(a))
	return host
}

// A Host is one host's view of a Network.
type Host struct {
	n    *Network
	name string
}

// Host returns the view of the host of that name; hosts need not be made beforehand.
func (n *Network) Host(name string) *Host { return &Host{n, name} }

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
	if n.listeners[string(a)] != nil {
		return nil, &net.OpError{Op: "listen", Net: "fault", Addr: a, Err: syscall.EADDRINUSE}
	}
	l := &listener{n: n, addr: a, queue: make(chan *conn, 128), closed: make(chan struct{})}
	n.listeners[string(a)] = l
	return l, nil
}

// Dial connects to a listener. Over a link that drops it waits until ctx ends.
func (h *Host) Dial(ctx context.Context, address string) (net.Conn, error) {
	n := h.n
	fail := func(err error) (net.Conn, error) {
		return nil, &net.OpError{Op: "dial", Net: "fault", Addr: addr(address), Err: err}
	}
	to := addr(address).host()
	n.mu.Lock()
	if hit(n.drops, h.name, to) || hit(n.drops, to, h.name) {
		n.mu.Unlock()
		<-ctx.Done()
		return fail(ctx.Err())
	}
	l := n.listeners[address]
	if l == nil || hit(n.refuses, h.name, to) {
		n.mu.Unlock()
		return fail(syscall.ECONNREFUSED)
	}
	n.nextPort++
	mine := addr(net.JoinHostPort(h.name, strconv.Itoa(n.nextPort)))
	p := &pair{dialer: h.name, listener: to, there: newHalf(), back: newHalf()}
	n.pairs[p] = true
	n.mu.Unlock()
	c := &conn{net: n, pair: p, in: p.back, out: p.there, local: mine, remote: l.addr}
	other := &conn{net: n, pair: p, in: p.there, out: p.back, local: l.addr, remote: mine}
	select {
	case l.queue <- other:
		return c, nil
	case <-l.closed:
		c.Close()
		return fail(syscall.ECONNREFUSED)
	case <-ctx.Done():
		c.Close()
		return fail(ctx.Err())
	}
}

type listener struct {
	n      *Network
	addr   addr
	queue  chan *conn
	once   sync.Once
	closed chan struct{}
}

func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.queue:
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
		delete(l.n.listeners, string(l.addr))
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

func (n *Network) forget(p *pair) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !p.there.lossy() && !p.back.lossy() { // a lossy one must still be found by Heal
		delete(n.pairs, p)
	}
}

// hit says whether a rule holds for a link.
func hit[T any](rules map[link]T, from, to string) bool {
	_, ok := find(rules, from, to)
	return ok
}

func find[T any](rules map[link]T, from, to string) (v T, ok bool) {
	for _, l := range []link{{from, to}, {from, Any}, {Any, to}, {Any, Any}} {
		if v, ok = rules[l]; ok {
			return v, true
		}
	}
	return v, false
}

func matches(rule, name string) bool { return rule == Any || rule == name }

func (n *Network) delay(from, to string) time.Duration {
	n.mu.Lock()
	defer n.mu.Unlock()
	s, ok := find(n.delays, from, to)
	if !ok {
		return 0
	}
	return s.min + time.Duration(n.rng.Int64N(int64(s.max-s.min)+1))
}

// Cut resets the connections between two hosts, whoever made them. New ones can be made.
func (n *Network) Cut(a, b string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for p := range n.pairs { // each is reset alike: the order does not matter
		if matches(a, p.dialer) && matches(b, p.listener) || matches(b, p.dialer) && matches(a, p.listener) {
			p.there.reset()
			p.back.reset()
			delete(n.pairs, p)
		}
	}
}

// Drop makes all bytes from one host to the other vanish, on the connections there are and on new ones, and dials between
// the two hang. Closing a connection is not heard of either.
func (n *Network) Drop(from, to string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.drops[link{from, to}] = true
	for p := range n.pairs {
		if matches(from, p.dialer) && matches(to, p.listener) {
			p.there.drop()
		}
		if matches(from, p.listener) && matches(to, p.dialer) {
			p.back.drop()
		}
	}
}

// Refuse makes dials from one host to the other fail at once. Connections that there are go on.
func (n *Network) Refuse(from, to string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.refuses[link{from, to}] = true
}

// Delay makes what one host writes arrive at the other after min to max. Bytes stay in order.
func (n *Network) Delay(from, to string, min, max time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.delays[link{from, to}] = span{min, max}
}

// Heal takes all faults back. Connections that lost bytes are reset.
func (n *Network) Heal() {
	n.mu.Lock()
	defer n.mu.Unlock()
	clear(n.drops)
	clear(n.refuses)
	clear(n.delays)
	for p := range n.pairs {
		if p.there.lossy() || p.back.lossy() {
			p.there.reset()
			p.back.reset()
			delete(n.pairs, p)
		}
	}
}

// Step does one random thing to a random link between two of the hosts, and says what, so that a run can be told. It cuts,
// delays (up to max), refuses, drops or heals.
func (n *Network) Step(hosts []string, max time.Duration) string {
	n.mu.Lock()
	a, b := hosts[n.rng.IntN(len(hosts))], hosts[n.rng.IntN(len(hosts))]
	what, d := n.rng.IntN(6), time.Duration(n.rng.Int64N(int64(max)+1))
	n.mu.Unlock()
	switch what {
	case 0:
		n.Delay(a, b, 0, d)
		return fmt.Sprintf("delay %s %s %v", a, b, d)
	case 1:
		n.Refuse(a, b)
		return fmt.Sprintf("refuse %s %s", a, b)
	case 2:
		n.Drop(a, b)
		return fmt.Sprintf("drop %s %s", a, b)
	case 3:
		n.Heal()
		return "heal"
	default:
		n.Cut(a, b)
		return strings.TrimSpace(fmt.Sprintf("cut %s %s", a, b))
	}
}
