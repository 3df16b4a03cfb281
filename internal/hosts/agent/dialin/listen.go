package dialin

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"time"

	"github.com/paragon-train/paragon/internal/member/framing"
	"github.com/paragon-train/paragon/internal/store/identity"
	"github.com/paragon-train/paragon/internal/store/unauthenticated"
)

// maxPending bounds the connections that have not authenticated themselves yet.
const maxPending = 256

// Listen listens for agents until Close. ctx bounds the start only.
func Listen(ctx context.Context, cfg Config) (*Listener, error) {
	if err := cfg.setDefaults(); err != nil {
		return nil, err
	}
	ln, err := new(net.ListenConfig).Listen(ctx, "tcp", cfg.Listen)
	if err != nil {
		return nil, fmt.Errorf("launch: listen for agents on %s: %w", cfg.Listen, err)
	}
	l, err := listen(cfg, ln)
	if err != nil {
		ln.Close()
	}
	return l, err
}

// listen is Listen on a listener, with all fields of cfg set.
func listen(cfg Config, ln net.Listener) (*Listener, error) {
	shared, err := identity.NewShared(cfg.Secret.key[:], purpose)
	if err != nil {
		return nil, fmt.Errorf("launch: listen for agents: %w", err)
	}
	authority, err := identity.NewAuthority(purpose)
	if err != nil {
		return nil, fmt.Errorf("launch: listen for agents: %w", err)
	}
	own, err := authority.Issue(identity.Launcher, "launcher")
	if err != nil {
		return nil, fmt.Errorf("launch: listen for agents: %w", err)
	}
	l := &Listener{
		cfg: cfg, ln: ln, authority: authority, changes: make(chan Change),
		agents: make(map[string]*member), sessions: make(map[string]*session),
		changed: make(chan struct{}), pending: unauthenticated.Conns{Most: maxPending, Patience: time.Second}, refusals: refusals{log: cfg.Logger},
	}
	l.tls = &tls.Config{MinVersion: tls.VersionTLS13, GetConfigForClient: byServerName(shared.Server(), own.Server(identity.Agent))}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	l.running.Go(l.accept)
	l.running.Go(l.tell)
	return l, nil
}

// purpose is what the secret is used for.
const purpose = "agents"

// byServerName chooses what a connection is authenticated by, as its server name asks: the secret,
// or an identity of the launcher.
func byServerName(join, agent *tls.Config) func(*tls.ClientHelloInfo) (*tls.Config, error) {
	return func(h *tls.ClientHelloInfo) (*tls.Config, error) {
		switch h.ServerName {
		case serverJoin:
			return join, nil
		case serverAgent:
			return agent, nil
		}
		return nil, fmt.Errorf("TLS for server %q, want %q or %q", h.ServerName, serverJoin, serverAgent)
	}
}

// accept takes connections until the Listener is closed.
func (l *Listener) accept() {
	for {
		nc, err := l.ln.Accept()
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil:
			// There may be too many open files, and others may be closed meanwhile.
			l.cfg.Logger.Warn(fmt.Sprintf("launch: accept agents: %v", err))
			select {
			case <-time.After(100 * time.Millisecond):
			case <-l.ctx.Done():
				return
			}
			continue
		}
		if out := l.pending.Enter(nc); out != nil {
			if out.Close(); out == nc {
				continue
			}
		}
		l.running.Go(func() {
			if err := l.serve(nc); err != nil {
				l.cfg.Logger.Debug(fmt.Sprintf("launch: connection from %s: %v", nc.RemoteAddr(), err))
			}
		})
	}
}

// serve authenticates a connection and does what its hello asks for.
func (l *Listener) serve(nc net.Conn) error {
	defer l.pending.Leave(nc)
	nc.SetDeadline(time.Now().Add(handshakeTimeout))
	c := tls.Server(nc, l.tls)
	var h hello
	err := c.HandshakeContext(l.ctx)
	if err == nil {
		err = framing.ReadJSON(c, &h, maxMessage)
	}
	if err != nil {
		nc.Close()
		if remote := addressOf(nc.RemoteAddr()); c.ConnectionState().ServerName == serverJoin && identity.IsRefused(err) {
			l.refusals.tell(refusal{remote: remote, code: "secret"}, fmt.Sprintf("agent from %s refused: it has another secret", nc.RemoteAddr()))
		}
		return identity.Explain(err)
	}
	if h.Ask == askControl && l.cfg.Control != nil && c.ConnectionState().ServerName == serverJoin {
		defer nc.Close()
		if err := framing.WriteJSON(c, welcome{}, maxMessage); err != nil {
			return err
		}
		l.pending.Leave(nc)
		nc.SetDeadline(time.Time{})
		stop := context.AfterFunc(l.ctx, func() { nc.Close() })
		defer stop()
		l.cfg.Control(l.ctx, c)
		return nil
	}
	w, s, over := l.admit(h, c)
	err = framing.WriteJSON(c, w, maxMessage)
	if s == nil {
		c.CloseWrite()
		nc.Close()
		l.told(over)
		if h.Ask == askSession && w.Refused != refusedOver && w.Refused != refusedNext {
			l.refusals.tell(refusal{addressOf(nc.RemoteAddr()), h.Info.Name, w.Refused}, fmt.Sprintf("agent %.64q from %s refused: %s", h.Info.Name, nc.RemoteAddr(), w.Reason))
		}
		return err
	}
	nc.SetDeadline(time.Time{})

	// If the connection is broken already, the agent makes another one.
	s.stream.Attach(c)
	return err
}

// Close tells all agents that the job is over: they exit with code 0. It returns when they have
// been told or are gone.
func (l *Listener) Close() error { return l.end(refusedOver) }

// Abandon closes the listener, and tells all agents that this launcher is stopping while the job
// may go on with another one. With JoinConfig.Rejoin they look for that one, else they exit with
// code 0.
func (l *Listener) Abandon() error { return l.end(refusedNext) }

func (l *Listener) end(code string) error {
	l.mu.Lock()
	if l.closing == "" {
		l.closing = code
	}
	for _, m := range l.agents {
		if m.session != nil {
			l.closeSession(m.session)
		}
	}
	l.mu.Unlock()
	ctx, cancel := context.WithTimeout(l.ctx, closeTime)
	defer cancel()
	l.await(ctx, func() bool { return len(l.agents) == 0 })
	return l.stop()
}

// stop closes the listener at once.
func (l *Listener) stop() error {
	l.mu.Lock()
	l.cancel()
	left := slices.Collect(maps.Values(l.sessions))
	l.mu.Unlock()
	for _, s := range left {
		s.stream.Abort(net.ErrClosed)
	}
	err := l.ln.Close()

	// A connection that comes in now ends with l.ctx.
	l.pending.Close()
	l.running.Wait()
	if errors.Is(err, net.ErrClosed) {
		return nil // it was closed before
	}
	return err
}
