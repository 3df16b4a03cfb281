package transport

import (
	"net"
	"net/netip"
	"syscall"

	"golang.org/x/sys/unix"
)

// On a connection within this machine a congestion control that paces, such as BBR, gives way to
// cubic: there is no network to share, and pacing costs a third of the throughput. It must be
// chosen before the connection is there: once BBR has begun, Linux goes on pacing under cubic, with
// a timer for each 64 KB. Without cubic nothing changes.
const withinMachine = "cubic"

// beforeConnect is for net.Dialer.
func beforeConnect(_, address string, raw syscall.RawConn) error {
	if ap, err := netip.ParseAddrPort(address); err == nil && ap.Addr().Unmap().IsLoopback() {
		congestionControl(raw, withinMachine)
	}
	return nil
}

// A listenerTuning chooses the congestion control of accepted connections. They begin with their
// listener's.
type listenerTuning struct {
	// system is what connections from other machines get; empty: what they have.
	system string
}

// beforeListen is for net.ListenConfig.
func (l *listenerTuning) beforeListen(_, address string, raw syscall.RawConn) error {
	host, _, _ := net.SplitHostPort(address)
	ip, err := netip.ParseAddr(host)
	if host == "" || err == nil && (ip.Unmap().IsLoopback() || ip.IsUnspecified()) {
		l.system = congestionControl(raw, withinMachine)
	}
	return nil
}

// accepted gives a connection from another machine the system's choice.
func (l *listenerTuning) accepted(nc net.Conn) {
	from, ok := nc.RemoteAddr().(*net.TCPAddr)
	if !ok || from.IP.IsLoopback() || l.system == "" || l.system == withinMachine {
		return
	}
	if raw, err := nc.(*net.TCPConn).SyscallConn(); err == nil {
		congestionControl(raw, l.system)
	}
}

// congestionControl sets a socket's congestion control and returns the one that it had, or "" where
// the system does not tell. Where the system does not have the new one, the socket keeps the old
// one.
func congestionControl(raw syscall.RawConn, name string) (before string) {
	_ = raw.Control(func(fd uintptr) {
		before, _ = unix.GetsockoptString(int(fd), unix.IPPROTO_TCP, unix.TCP_CONGESTION)
		_ = unix.SetsockoptString(int(fd), unix.IPPROTO_TCP, unix.TCP_CONGESTION, name)
	})
	return before
}
