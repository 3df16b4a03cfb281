package transport

import (
	"net"

	"golang.org/x/sys/unix"
)

// tune takes a connection within this machine off a congestion control that paces, such as BBR: there is no network
// to be kind to, and pacing costs a third of the throughput. Where cubic may not be had everything stays as it is.
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
