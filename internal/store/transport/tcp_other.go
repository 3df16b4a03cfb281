//go:build !linux

package transport

import (
	"net"
	"syscall"
)

type listenerTuning struct{}

func (*listenerTuning) beforeListen(network, address string, raw syscall.RawConn) error { return nil }

func (*listenerTuning) accepted(net.Conn) {}

func beforeConnect(network, address string, raw syscall.RawConn) error { return nil }

func newSocketConn(nc net.Conn, _ int) net.Conn { return nc }
