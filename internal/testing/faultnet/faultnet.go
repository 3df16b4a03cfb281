// Package faultnet is a network in memory whose links can be made to fail.
//
// A Network has hosts by name. Host returns the network of one host, which listens at its own names
// and dials the others, over connections that are buffers in memory, with deadlines, so that whole
// jobs run in one process and on the fake time of testing/synctest. A link is an ordered pair of
// hosts; either name may be Any.
//
//	n := faultnet.New(seed) // print the seed
//	n.Delay("w0", "s1", 5*time.Millisecond, 20*time.Millisecond)
//	n.Cut("w1", faultnet.Any)  // its connections break, as by a reset
//	n.Drop("w1", faultnet.Any) // what it sends is lost silently
//	n.Refuse("w2", "s0")       // it can make no new connections there
//	n.Heal()                   // all links are whole again
//
// A connection that has lost bytes cannot be whole again: Heal and Restore reset it.
//
// A Host stands for the processes there: Kill ends it, with its connections closed by its kernel or
// not, Freeze stops it for a while as SIGSTOP does. To restart it call Host again with the same
// name.
//
// The seed decides delays and Step's random faults. A connection's delays depend on the seed, on
// its hosts and on how many connections they had made before, not on what other connections do.
// Step makes the same choices as long as it is asked in the same order.
package faultnet

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"time"
)

// Any stands for every host in the rules of links.
const Any = "*"

// A Network connects hosts. Its methods may be called from any goroutine.
type Network struct {
	// mu guards all below.
	mu   sync.Mutex
	seed uint64
	// rng chooses what Step does.
	rng       *rand.Rand
	listeners map[string]*listener
	pairs     map[*pair]bool
	// made counts connections, by dialer and listener.
	made map[link]uint64
	// silent are hosts that died without closing connections: dials to them hang.
	silent   map[string]bool
	nextPort int
	drops    map[link]bool
	refuses  map[link]bool
	delays   map[link]span
}

// A link is one direction between two hosts. Rules with Any in place of a name are for all hosts.
type link struct{ from, to string }
type span struct{ min, max time.Duration }

// A pair is a connection: the halves of both directions.
type pair struct {
	// dialer and listener are the names of hosts.
	dialer, listener string
	// from and to are the hosts themselves.
	from, to *Host
	// there carries what the dialer writes, back what it reads.
	there, back *half
}

// New returns a Network without faults.
func New(seed uint64) *Network {
	return &Network{
		seed:      seed,
		rng:       rand.New(rand.NewPCG(seed, 0x6661756c746e6574)),
		listeners: make(map[string]*listener),
		pairs:     make(map[*pair]bool),
		made:      make(map[link]uint64),
		silent:    make(map[string]bool),
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

func (n *Network) forget(p *pair) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !p.there.lossy() && !p.back.lossy() {
		// A lossy pair must still be found by Heal.
		delete(n.pairs, p)
	}
}

// hit says whether a rule holds for a link.
func hit[T any](rules map[link]T, from, to string) bool {
	_, ok := find(rules, from, to)
	return ok
}

// find is the rule of a link: one for the very hosts comes before those with Any.
func find[T any](rules map[link]T, from, to string) (v T, ok bool) {
	for _, l := range []link{{from, to}, {from, Any}, {Any, to}, {Any, Any}} {
		if v, ok = rules[l]; ok {
			return v, true
		}
	}
	return v, false
}

func matches(rule, name string) bool { return rule == Any || rule == name }

// delay is the transit time of what c writes now.
func (n *Network) delay(c *conn) time.Duration {
	n.mu.Lock()
	defer n.mu.Unlock()
	s, ok := find(n.delays, c.local.host(), c.remote.host())
	if !ok {
		return 0
	}
	return s.min + time.Duration(c.rng.Int64N(int64(s.max-s.min)+1))
}

// Cut resets the connections between two hosts, in both directions. New ones can be made.
func (n *Network) Cut(a, b string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	// Each pair is reset alike, so the order does not matter.
	for p := range n.pairs {
		if matches(a, p.dialer) && matches(b, p.listener) || matches(b, p.dialer) && matches(a, p.listener) {
			p.there.reset()
			p.back.reset()
			delete(n.pairs, p)
		}
	}
}

// Break resets the connections that dialer has made to listener, as seen by the dialer, while what
// it has sent is still on its way: that arrives, up to late later than it would have, and then the
// connection's end. So a request may be carried out whose answer is lost, and which its sender has
// repeated meanwhile.
func (n *Network) Break(dialer, listener string, late time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	// Each pair is treated alike, so the order does not matter.
	for p := range n.pairs {
		if matches(dialer, p.dialer) && matches(listener, p.listener) {
			p.there.sever(late)
			p.back.reset()
			delete(n.pairs, p)
		}
	}
}

// Drop makes all bytes from one host to the other vanish, on the connections there are and on new
// ones, and dials between the two get no answer. Closing a connection is not heard of either.
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

// Restore takes back what Drop, Refuse and Delay have said of the very same link. Connections that
// lost bytes on it are reset, unless one of their hosts was killed without closing it.
func (n *Network) Restore(from, to string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.drops, link{from, to})
	delete(n.refuses, link{from, to})
	delete(n.delays, link{from, to})
	for p := range n.pairs {
		lost := matches(from, p.dialer) && matches(to, p.listener) && p.there.lossy() ||
			matches(from, p.listener) && matches(to, p.dialer) && p.back.lossy()
		if lost && !p.from.mute && !p.to.mute {
			p.there.reset()
			p.back.reset()
			delete(n.pairs, p)
		}
	}
}

// Connections returns how many connections there are, those included of which one end is closed and
// the other lost bytes.
func (n *Network) Connections() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.pairs)
}

// Step does one random thing to a random link between two of the hosts, and says what, so that a
// run can be told. It cuts, delays (up to max), refuses, drops or heals.
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
