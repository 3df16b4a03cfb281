package transport

import (
	"context"
	"net"
	"time"
)

// TCP is the operating system's Network. Its connections have no Nagle delay (TCP_NODELAY is Go's default), and keep-alives detect a peer that vanished
// within half a minute.
var TCP Network = tcp{}

type tcp struct{}

var keepAlive = net.KeepAliveConfig{Enable: true, Idle: 10 * time.Second, Interval: 5 * time.Second, Count: 3}

func (tcp) Listen(addr string) (net.Listener, error) {
	lc := net.ListenConfig{KeepAliveConfig: keepAlive}
	lc.SetMultipathTCP(false)
	ln, err := lc.Listen(context.Background(), "tcp", addr)
	if err != nil {
		return nil, err
	}
	return tcpListener{ln}, nil
}

func (tcp) Dial(ctx context.Context, addr string) (net.Conn, error) {
	d := net.Dialer{KeepAliveConfig: keepAlive}
	nc, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	return tuned(nc), nil
}

type tcpListener struct{ net.Listener }

func (l tcpListener) Accept() (net.Conn, error) {
	nc, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return tuned(nc), nil
}
