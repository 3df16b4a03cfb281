//go:build !linux

package transport

import "net"

func tune(net.Conn) {}
