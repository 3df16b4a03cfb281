package transport

import (
	"net"
	"net/netip"
	"slices"
	"sync"
)

const (
	// maxUnauthenticated is how many connections a Server holds whose handshake is not over, and maxUnauthenticatedOf how many of them may come
	// from one address: few enough to bound the memory, far more than a job's nodes need at once.
	maxUnauthenticated   = 512
	maxUnauthenticatedOf = maxUnauthenticated / 2
)

// unauthenticatedConns are the connections whose handshake is not over. When there are too many, the oldest one from the address with the most is
// closed: an attacker with thousands of connections displaces its own, while a peer of the job needs its place for some milliseconds.
type unauthenticatedConns struct {
	mu   sync.Mutex            // guards the two
	list []unauthenticatedConn // by arrival
	of   map[string]int
}

type unauthenticatedConn struct {
	nc   net.Conn
	from string
}

// enter adds a connection. The caller closes the one that it returns, if any.
func (s *unauthenticatedConns) enter(nc net.Conn) (out net.Conn) {
	from := origin(nc.RemoteAddr())
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.of == nil {
		s.of = make(map[string]int)
	}
	switch {
	case s.of[from] >= maxUnauthenticatedOf:
		out = s.oldest(from)
	case len(s.list) >= maxUnauthenticated:
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
	s.list = append(s.list, unauthenticatedConn{nc, from})
	s.of[from]++
	return out
}

// leave removes a connection, if it is in the list.
func (s *unauthenticatedConns) leave(nc net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.remove(nc)
}

func (s *unauthenticatedConns) oldest(from string) net.Conn {
	for _, x := range s.list {
		if x.from == from {
			return x.nc
		}
	}
	return nil
}

func (s *unauthenticatedConns) remove(nc net.Conn) {
	i := slices.IndexFunc(s.list, func(x unauthenticatedConn) bool { return x.nc == nc })
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
		return addr.Network() // processes of this host count as one
	}
	ip := ap.Addr().Unmap()
	if ip.Is6() {
		p, _ := ip.WithZone("").Prefix(64)
		return p.String()
	}
	return ip.String()
}
