package transport

import (
	"net"
	"net/netip"
	"slices"
	"sync"
)

const (
	// maxStrangers is how many connections a Server holds that have not proved themselves yet, and maxStrangersOf how many of
	// them may come from one address.
	maxStrangers   = 512
	maxStrangersOf = maxStrangers / 2
)

// strangers are the connections that have not proved themselves yet. When there are too many, the one that has waited
// longest of those from the address with the most is closed: whoever makes thousands of connections takes the places of his own,
// while a peer of ours needs its place for some milliseconds.
type strangers struct {
	mu   sync.Mutex // guards the two
	list []stranger // by arrival
	of   map[string]int
}

type stranger struct {
	nc   net.Conn
	from string
}

// enter takes a connection in; the one whose place it takes is to be closed.
func (s *strangers) enter(nc net.Conn) (out net.Conn) {
	from := origin(nc.RemoteAddr())
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.of == nil {
		s.of = make(map[string]int)
	}
	switch {
	case s.of[from] >= maxStrangersOf:
		out = s.oldest(from)
	case len(s.list) >= maxStrangers:
		most := s.list[0].from
		for _, x := range s.list { // in order of arrival: of equals, the first
			if s.of[x.from] > s.of[most] {
				most = x.from
			}
		}
		out = s.oldest(most)
	}
	if out != nil {
		s.remove(out)
	}
	s.list = append(s.list, stranger{nc, from})
	s.of[from]++
	return out
}

// leave takes a connection out, if it is there.
func (s *strangers) leave(nc net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.remove(nc)
}

func (s *strangers) oldest(from string) net.Conn {
	for _, x := range s.list {
		if x.from == from {
			return x.nc
		}
	}
	return nil
}

func (s *strangers) remove(nc net.Conn) {
	i := slices.IndexFunc(s.list, func(x stranger) bool { return x.nc == nc })
	if i < 0 {
		return
	}
	from := s.list[i].from
	if s.of[from]--; s.of[from] == 0 {
		delete(s.of, from)
	}
	s.list = slices.Delete(s.list, i, i+1)
}

// origin is what counts as one address: of IPv6 a network of 2⁶⁴, which is what one host is given.
func origin(addr net.Addr) string {
	text := addr.String()
	ap, err := netip.ParseAddrPort(text)
	if err != nil {
		if host, _, err := net.SplitHostPort(text); err == nil {
			return host
		}
		return addr.Network() // processes of this host, by whatever number
	}
	ip := ap.Addr().Unmap()
	if ip.Is6() {
		p, _ := ip.WithZone("").Prefix(64)
		return p.String()
	}
	return ip.String()
}
