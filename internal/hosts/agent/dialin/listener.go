package dialin

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/paragon-train/paragon/internal/member/framing"
	"github.com/paragon-train/paragon/internal/store/identity"
	"github.com/paragon-train/paragon/internal/store/unauthenticated"
)

// Config configures Listen.
type Config struct {
	// Listen is host:port; empty: it is ":0".
	Listen string

	// Secret is what agents, launch ctl and this end share.
	Secret Secret

	// Lease is the silence after which either end is declared lost, the same on both; 0: 4 s.
	Lease time.Duration

	// Build is the build that agents must have; empty: it is Build().
	Build string

	// Control serves a connection of launch ctl until it returns, and must return soon after
	// ctx ended; nil: they are refused.
	Control func(ctx context.Context, conn net.Conn)
	// NoAgents is why no agent may join: the listener is there for launch ctl alone; empty:
	// agents may.
	NoAgents string

	Logger *slog.Logger // slog.Default()
}

func (c *Config) setDefaults() (err error) {
	if c.Secret.IsZero() {
		return errors.New("launch: listen for agents: no secret")
	}
	if c.Listen == "" {
		c.Listen = ":0"
	}
	switch {
	case c.Lease == 0:
		c.Lease = 4 * time.Second
	case c.Lease < minLease || c.Lease > maxLease:
		return fmt.Errorf("launch: listen for agents: lease is %s, want %s to %s", c.Lease, minLease, maxLease)
	}
	if c.Build == "" {
		if c.Build, err = Build(); err != nil {
			return err
		}
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	return nil
}

// A Listener is the launcher's end. Its methods may be called together.
type Listener struct {
	cfg       Config
	ln        net.Listener
	tls       *tls.Config
	authority *identity.Authority
	changes   chan Change

	// ctx ends with the Listener.
	ctx context.Context

	cancel context.CancelFunc

	// running counts all goroutines; Close waits for them.
	running sync.WaitGroup

	refusals refusals
	pending  unauthenticated.Conns

	// mu guards the fields below.
	mu sync.Mutex

	// agents is by nameKey.
	agents map[string]*member

	sessions map[string]*session

	// queue has what goes to changes.
	queue []Change

	// changed is closed and replaced when agents or queue change.
	changed chan struct{}

	// closing is what agents are told at the end, refusedOver or refusedNext; empty: it has not
	// come.
	closing string
}

// maxPending bounds the connections that have not authenticated themselves yet.
const maxPending = 256

// closeTime bounds how long Close waits for agents that are connected; one that hears that the job
// is over needs milliseconds.
const closeTime = 5 * time.Second

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

// await waits until a condition holds, which it asks with the lock held.
func (l *Listener) await(ctx context.Context, holds func() bool) error {
	for {
		l.mu.Lock()
		ok, changed := holds(), l.changed
		l.mu.Unlock()
		if ok {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// notify wakes those that await something; the caller holds the lock.
func (l *Listener) notify() {
	close(l.changed)
	l.changed = make(chan struct{})
}
