package cluster

import (
	"context"
	"fmt"
	"net"
	"net/netip"
)

// Listen opens a server's listener: on cfg.Listen, or on a free port of this host's address on the
// route to the scheduler. addr is the address that others dial, for Config.Addr:
//
//	ln, addr, err := cluster.Listen(ctx, cfg)
//	cfg.Addr = addr
//	node, err := cluster.Join(ctx, cfg)
//	srv := transport.NewServer(ln, handler, cfg.Transport())
//	srv.Serve() // workers that dial earlier wait in the listener's backlog
func Listen(ctx context.Context, cfg Config) (ln net.Listener, addr string, err error) {
	cfg = cfg.WithDefaults()
	at := cfg.Listen
	if at == "" {
		host := ""
		if cfg.usesSystemNetwork() {
			if host, err = localAddrTo(ctx, cfg.Scheduler); err != nil {
				return nil, "", fmt.Errorf("cluster: find the address that reaches the scheduler at %s: %w", cfg.Scheduler, err)
			}
		}
		at = net.JoinHostPort(host, "0")
	}
	if ln, err = cfg.Network.Listen(at); err != nil {
		return nil, "", fmt.Errorf("cluster: listen on %s: %w", at, err)
	}
	addr = ln.Addr().String()
	if ap, err := netip.ParseAddrPort(addr); err == nil && ap.Addr().IsUnspecified() {
		addr = net.JoinHostPort(cfg.Host, fmt.Sprint(ap.Port()))
	}
	return ln, addr, nil
}

// localAddrTo returns this host's address on the route to another host. Nothing is sent: connecting
// a datagram socket picks the route.
func localAddrTo(ctx context.Context, addr string) (string, error) {
	var d net.Dialer
	nc, err := d.DialContext(ctx, "udp", addr)
	if err != nil {
		return "", err
	}
	defer nc.Close()
	host, _, err := net.SplitHostPort(nc.LocalAddr().String())
	return host, err
}
