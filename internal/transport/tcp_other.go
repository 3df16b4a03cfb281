//go:build !linux

package transport

import "net"

func tuned(nc net.Conn) net.Conn { return nc }
