package transport

import (
	"context"
	"net"
	"time"

	"github.com/paragon-train/paragon/internal/observe/telemetry"
)

// TCP is the operating system's Network. Its connections have no Nagle delay (TCP_NODELAY is Go's
// default), and keep-alives detect a peer that vanished within half a minute.
var TCP Network = tcp{}

type tcp struct{}

var keepAlive = net.KeepAliveConfig{Enable: true, Idle: 10 * time.Second, Interval: 5 * time.Second, Count: 3}

func (tcp) Listen(addr string) (net.Listener, error) {
	var l tcpListener
	lc := net.ListenConfig{KeepAliveConfig: keepAlive, Control: l.tuning.beforeListen}
	lc.SetMultipathTCP(false)
	ln, err := lc.Listen(context.Background(), "tcp", addr)
	if err != nil {
		return nil, err
	}
	l.Listener = ln
	return &l, nil
}

func (tcp) Dial(ctx context.Context, addr string) (net.Conn, error) {
	d := net.Dialer{KeepAliveConfig: keepAlive, Control: beforeConnect}
	nc, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	return newSocketConn(nc, telemetry.TCP), nil
}

// A tcpListener tunes the connections that it accepts.
type tcpListener struct {
	net.Listener
	tuning listenerTuning
}

func (l *tcpListener) Accept() (net.Conn, error) {
	nc, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	l.tuning.accepted(nc)
	return newSocketConn(nc, telemetry.TCP), nil
}
