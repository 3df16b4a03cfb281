package transport

import (
	"context"
	"net"
)

// Auto is the Network that jobs use: TCP between hosts, shared memory within one, with nothing to be set up for it. Its
// listeners listen on TCP and, where the system has them, on a unix socket in Linux's abstract space whose name is the
// TCP address. Dial tries that name when the address is one of its own host's, and takes TCP when nobody answers there. The
// abstract space belongs to the network namespace, as the address does: processes in two containers do not meet by chance.
//
// Both ends ask the system for the other's user. Other users' processes get TCP, and the handshake of the job's secret comes
// on every kind of connection.
var Auto Network = within{memory: true}

// Unix is Auto without shared memory: unix sockets within a host.
var Unix Network = within{}

// within is TCP with short cuts within a host.
type within struct {
	memory bool // through shared memory
}

func (n within) Listen(addr string) (net.Listener, error) {
	ln, err := TCP.Listen(addr)
	if err != nil {
		return nil, err
	}
	return listenWithin(ln), nil
}

func (n within) Dial(ctx context.Context, addr string) (net.Conn, error) {
	if nc := dialWithin(ctx, addr, n.memory); nc != nil {
		return nc, nil
	}
	return TCP.Dial(ctx, addr)
}
