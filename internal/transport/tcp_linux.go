package transport

import (
	"net"

	"golang.org/x/sys/unix"
)

// tune switches a connection within this machine from a congestion control that paces, such as BBR, to cubic: there is no network to share, and pacing
// costs a third of the throughput. Without cubic nothing changes.
func tune(nc net.Conn) {
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
