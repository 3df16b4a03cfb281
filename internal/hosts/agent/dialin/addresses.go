package dialin

import (
	"net"
	"net/netip"
	"slices"
)

// Addresses has host:port for each address at which others may reach the listener, the likeliest
// first.
func (l *Listener) Addresses() []string {
	at, err := netip.ParseAddrPort(l.ln.Addr().String())
	if err != nil || !at.Addr().IsUnspecified() {
		return []string{l.ln.Addr().String()}
	}
	var all []string
	for _, ip := range ownAddresses() {
		if a := netip.AddrPortFrom(ip, at.Port()).String(); !slices.Contains(all, a) {
			all = append(all, a)
		}
	}
	return all
}

// ownAddresses are this machine's, that of the default route first; its loopback address only if
// there is no other.
func ownAddresses() []netip.Addr {
	var all, v6 []netip.Addr
	// To connect by UDP sends nothing. The addresses are of networks for documentation.
	for _, to := range []string{"192.0.2.1:9", "[2001:db8::1]:9"} {
		if c, err := net.Dial("udp", to); err == nil {
			all = append(all, addressOf(c.LocalAddr()))
			c.Close()
		}
	}
	nets, _ := net.InterfaceAddrs()
	for _, n := range nets {
		p, err := netip.ParsePrefix(n.String())
		if ip := p.Addr().Unmap(); err == nil && ip.Is4() {
			all = append(all, ip)
		} else if err == nil {
			v6 = append(v6, ip)
		}
	}
	all = slices.DeleteFunc(append(all, v6...), func(ip netip.Addr) bool { return !ip.IsGlobalUnicast() })
	if len(all) == 0 {
		all = append(all, netip.AddrFrom4([4]byte{127, 0, 0, 1}))
	}
	return all
}

// addressOf is the IP address of a, or none.
func addressOf(a net.Addr) netip.Addr {
	ap, err := netip.ParseAddrPort(a.String())
	if err != nil {
		return netip.Addr{}
	}
	return ap.Addr().Unmap().WithZone("")
}

// addressText is the IP address of a as text, or empty.
func addressText(a net.Addr) string {
	if ip := addressOf(a); ip.IsValid() {
		return ip.String()
	}
	return ""
}
