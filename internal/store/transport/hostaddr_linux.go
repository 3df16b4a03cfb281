package transport

import (
	"fmt"
	"net"

	"golang.org/x/sys/unix"
)

// A hostAddr is the address of a process of this host.
type hostAddr string

func (a hostAddr) Network() string { return "unix" }

func (a hostAddr) String() string { return string(a) }

func peerOf(nc *net.UnixConn) net.Addr {
	name := "a process of this host"
	if raw, err := nc.SyscallConn(); err == nil {
		raw.Control(func(fd uintptr) {
			if cred, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); err == nil {
				name = fmt.Sprintf("pid %d of this host", cred.Pid)
			}
		})
	}
	return hostAddr(name)
}
