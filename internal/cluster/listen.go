package cluster

import (
	"context"
	"fmt"
	"net"
	"net/netip"
)

// Listen opens the listener of a server: at cfg.Listen, or at the address that reaches the scheduler and a free port. Addr is
// what others reach it at, for Config.Addr:
//
//	ln, addr, err := cluster.Listen(ctx, cfg)
//	cfg.Addr = addr
//	node, err := cluster.Join(ctx, cfg)
//	srv := transport.NewServer(ln, handler, cfg.Transport())
//	srv.Serve() // workers that came early have waited in the listener
func Listen(ctx context.Context, cfg Config) (ln net.Listener, addr string, err error) {
	cfg = cfg.WithDefaults()
	at := cfg.Listen
	if at == "" {
		host := ""
		if cfg.ofSystem() {
			if host, err = reaching(ctx, cfg.Scheduler); err != nil {
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

// reaching is this host's address on the way to another one. Nothing is sent: connecting a datagram socket picks the route.
func reaching(ctx context.Context, addr string) (string, error) {
	var d net.Dialer
	nc, err := d.DialContext(ctx, "udp", addr)
	if err != nil {
		return "", err
	}
	defer nc.Close()
	host, _, err := net.SplitHostPort(nc.LocalAddr().String())
	return host, err
}
