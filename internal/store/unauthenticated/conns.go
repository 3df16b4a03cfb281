// Package unauthenticated bounds the connections whose other end has not proved yet who it is.
package unauthenticated

import (
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"
)

// Conns are a server's connections whose handshake is not over. Most is to be so many that the
// memory is bounded, and far more than a job's nodes need at once; half of them may come from one
// address. When there are too many, the oldest one from the address with the most gives way: an
// attacker with thousands of connections displaces its own, while a peer of the job needs its place
// for some milliseconds.
type Conns struct {
	Most int
	// Patience is for how long a connection does not give way to one from its own address,
	// which is refused instead: where thousands of peers behind one address come at once, some
	// get through.
	Patience time.Duration

	// mu guards the rest.
	mu sync.Mutex
	// list is in the order of arrival.
	list []entry
	of   map[string]int
}

type entry struct {
	nc   net.Conn
	from string
	at   time.Time
}

// Enter adds a connection. The caller closes the one that it returns, if any; that may be the new
// one.
func (s *Conns) Enter(nc net.Conn) (out net.Conn) {
	from := origin(nc.RemoteAddr())
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.of == nil {
		s.of = make(map[string]int)
	}
	victim := entry{}
	switch {
	case s.of[from] >= s.Most/2:
		victim = s.oldest(from)
	case len(s.list) >= s.Most:
		most := s.list[0].from
		for _, x := range s.list {
			// Of equals the first one that arrived goes.
			if s.of[x.from] > s.of[most] {
				most = x.from
			}
		}
		victim = s.oldest(most)
	}
	if victim.nc != nil {
		if victim.from == from && time.Since(victim.at) < s.Patience {
			return nc
		}
		s.remove(victim.nc)
	}
	s.list = append(s.list, entry{nc, from, time.Now()})
	s.of[from]++
	return victim.nc
}

// Leave removes a connection, if it is there.
func (s *Conns) Leave(nc net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.remove(nc)
}

// Close closes all of them.
func (s *Conns) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, x := range s.list {
		x.nc.Close()
	}
}

func (s *Conns) oldest(from string) entry {
	for _, x := range s.list {
		if x.from == from {
			return x
		}
	}
	return entry{}
}

func (s *Conns) remove(nc net.Conn) {
	i := slices.IndexFunc(s.list, func(x entry) bool { return x.nc == nc })
	if i < 0 {
		return
	}
	from := s.list[i].from
	if s.of[from]--; s.of[from] == 0 {
		delete(s.of, from)
	}
	s.list = slices.Delete(s.list, i, i+1)
}

// origin is what counts as one address: for IPv6 a /64 network, which is what one host is given.
func origin(addr net.Addr) string {
	text := addr.String()
	ap, err := netip.ParseAddrPort(text)
	if err != nil {
		if host, _, err := net.SplitHostPort(text); err == nil {
			return host
		}
		// All processes of this host count as one.
		return addr.Network()
	}
	ip := ap.Addr().Unmap()
	if ip.Is6() {
		p, _ := ip.WithZone("").Prefix(64)
		return p.String()
	}
	return ip.String()
}
