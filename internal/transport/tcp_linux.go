package transport

import (
	"net"

	"golang.org/x/sys/unix"

	"github.com/paragon-train/paragon/internal/telemetry"
)

// tuned returns a new connection as frames want it.
func tuned(nc net.Conn) net.Conn {
	chooseCongestionControl(nc)
	return newSocketConn(nc, telemetry.TCP)
}

// chooseCongestionControl switches a connection within this machine from a congestion control that paces, such as BBR, to cubic: there is no network to share, and pacing
// costs a third of the throughput. Without cubic nothing changes.
func chooseCongestionControl(nc net.Conn) {
	t, ok := nc.(*net.TCPConn)
	if !ok || !t.RemoteAddr().(*net.TCPAddr).IP.IsLoopback() {
		return
	}
	if raw, err := t.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) {
			_ = unix.SetsockoptString(int(fd), unix.IPPROTO_TCP, unix.TCP_CONGESTION, "cubic")
		})
	}
}
