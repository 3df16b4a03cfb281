package transport

import (
	"context"
	"net"
)

// Auto is the Network that jobs use: TCP between hosts, shared memory within one, without any
// setup. Its listeners listen on TCP and, on Linux, on a unix socket in the abstract namespace
// whose name is the TCP address. Dial tries that name when the address is its own host's, and uses
// TCP if no process listens there. The abstract namespace belongs to the network namespace, as the
// address does, so processes in two containers do not connect by chance.
//
// Both ends ask the system for the user of the other. Other users' processes get TCP. The handshake
// with the job's secret is made on every kind of connection.
var Auto Network = autoNetwork{memory: true}

// Unix is Auto without shared memory: unix sockets within a host.
var Unix Network = autoNetwork{}

// An autoNetwork is TCP with faster connections within a host.
type autoNetwork struct {
	// memory allows memory that two processes of a host share.
	memory bool
}

func (n autoNetwork) Listen(addr string) (net.Listener, error) {
	ln, err := TCP.Listen(addr)
	if err != nil {
		return nil, err
	}
	return listenWithin(ln), nil
}

func (n autoNetwork) Dial(ctx context.Context, addr string) (net.Conn, error) {
	if nc := dialWithin(ctx, addr, n.memory); nc != nil {
		return nc, nil
	}
	return TCP.Dial(ctx, addr)
}
