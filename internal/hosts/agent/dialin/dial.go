package dialin

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/paragon-train/paragon/internal/member/framing"
	"github.com/paragon-train/paragon/internal/store/identity"
)

// A dialFunc connects to host:port.
type dialFunc func(ctx context.Context, address string) (net.Conn, error)

func dialTCP(ctx context.Context, address string) (net.Conn, error) {
	return new(net.Dialer).DialContext(ctx, "tcp", address)
}

// connectTimeout is for TCP alone, which sends a lost packet again after 1 s.
const connectTimeout = 3 * time.Second

// conn is a connection after its welcome.
type conn = *tls.Conn

// A dialer reaches the launcher.
type dialer struct {
	dial dialFunc
	tls  *tls.Config

	// connect bounds the time until TCP is connected.
	connect time.Duration

	// answer bounds TLS and the welcome.
	answer time.Duration
}

// bySecret reaches a launcher that this end has only the secret of.
func bySecret(dial dialFunc, s Secret) (*dialer, error) {
	shared, err := identity.NewShared(s.key[:], purpose)
	if err != nil {
		return nil, err
	}
	cfg := shared.Client()
	cfg.ServerName = serverJoin
	return &dialer{dial, cfg, connectTimeout, handshakeTimeout}, nil
}

// byIdentity reaches a launcher that this end has been at. Within the lease there must be time for
// more than one attempt.
func byIdentity(dial dialFunc, id *identity.Identity, lease time.Duration) *dialer {
	cfg := id.Client(identity.Launcher)
	cfg.ServerName = serverAgent
	return &dialer{dial, cfg, lease / 8, lease * 3 / 8}
}

// contact reaches the launcher at one of its addresses, sends the hello and reads the welcome.
// Refused or not, there is a connection.
func (d *dialer) contact(ctx context.Context, addresses func() ([]string, error), h hello) (w welcome, c conn, err error) {
	all, err := addresses()
	if err != nil {
		return w, nil, err
	}
	if c, err = d.first(ctx, all); err != nil {
		return w, nil, err
	}
	stop := context.AfterFunc(ctx, func() { c.NetConn().Close() })
	defer stop()
	c.SetDeadline(time.Now().Add(d.answer))
	h.Info.Launcher = addressText(c.RemoteAddr())
	if h.Info.Address == "" {
		h.Info.Address = addressText(c.LocalAddr())
	}
	if h.Ask != askSession {
		h.Info = Info{}
	}
	if err = framing.WriteJSON(c, h, maxMessage); err == nil {
		err = framing.ReadJSON(c, &w, maxMessage)
	}
	if err != nil {
		c.NetConn().Close()
		return w, nil, fmt.Errorf("%s: %w", c.RemoteAddr(), identity.Explain(err))
	}
	if c.SetDeadline(time.Time{}); w.Refused != "" {
		c.NetConn().Close()
	}
	return w, c, nil
}

// first is the first connection to one of the addresses whose other end has proved that it is the
// launcher. A launcher may have several addresses of which some lead elsewhere from here.
func (d *dialer) first(ctx context.Context, addresses []string) (conn, error) {
	if len(addresses) == 0 {
		return nil, errors.New("no address of the launcher")
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type result struct {
		c   conn
		err error
	}
	results := make(chan result, len(addresses))
	for i, address := range addresses {
		go func() {
			select {
			case <-time.After(time.Duration(i) * d.connect / 8):
			case <-ctx.Done():
				results <- result{nil, ctx.Err()}
				return
			}
			c, err := d.handshake(ctx, address)
			results <- result{c, err}
		}()
	}
	var first conn
	var errs error
	for range addresses {
		switch r := <-results; {
		case r.err != nil:
			errs = errors.Join(errs, r.err)
		case first == nil:
			first = r.c
			cancel()
		default:
			r.c.NetConn().Close()
		}
	}
	if first != nil {
		return first, nil
	}
	return nil, errs
}

func (d *dialer) handshake(ctx context.Context, address string) (conn, error) {
	connecting, cancel := context.WithTimeout(ctx, d.connect)
	defer cancel()
	nc, err := d.dial(connecting, address)
	if err != nil {
		return nil, err
	}
	ctx, cancel = context.WithTimeout(ctx, d.answer)
	defer cancel()
	c := tls.Client(nc, d.tls)
	if err := c.HandshakeContext(ctx); err != nil {
		nc.Close()
		return nil, fmt.Errorf("%s: %w", address, identity.Explain(err))
	}
	return c, nil
}

// DialControl connects launch ctl with the launcher, whose Config.Control serves the connection.
func DialControl(ctx context.Context, addresses []string, s Secret) (net.Conn, error) {
	if s.IsZero() {
		return nil, errors.New("launch: no secret")
	}
	d, err := bySecret(dialTCP, s)
	if err != nil {
		return nil, fmt.Errorf("launch: %w", err)
	}
	w, c, err := d.contact(ctx, func() ([]string, error) { return addresses, nil }, hello{Ask: askControl})
	if err != nil {
		return nil, fmt.Errorf("launch: reach the launcher: %w", err)
	}
	if w.Refused != "" {
		return nil, fmt.Errorf("launch: %w: %s", ErrRefused, w.Reason)
	}
	return c, nil
}
