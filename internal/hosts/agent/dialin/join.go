package dialin

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/paragon-train/paragon/internal/hosts/agent"
	"github.com/paragon-train/paragon/internal/hosts/agent/resume"
	"github.com/paragon-train/paragon/internal/store/identity"
)

// JoinConfig configures Join.
type JoinConfig struct {
	// Addresses are where the launcher may be: host:port. They are asked for before each
	// attempt, because a file with them may not be there yet.
	Addresses func() ([]string, error)
	Secret    Secret
	Info      Info

	// Timeout bounds the time to reach the launcher; 0: 5 min.
	Timeout time.Duration

	// Rejoin is how long to look for another launcher when one is lost or stops before the job is
	// over; 0: Join returns then.
	Rejoin time.Duration

	// Serve says how the agent works. Its Lease does not matter, since it is the launcher's.
	Serve agent.Config

	Logger *slog.Logger // slog.Default()
}

// Join runs this machine's agent. It returns nil once the launcher says that the job is over, that
// this host was removed or, without Rejoin, that it stops; else an error that is ErrRefused,
// ErrLost or ctx's cause. No process that it started is left then.
func Join(ctx context.Context, cfg JoinConfig) error {
	return join(ctx, cfg, dialTCP)
}

func join(ctx context.Context, cfg JoinConfig, dial dialFunc) error {
	if cfg.Timeout == 0 {
		cfg.Timeout = 5 * time.Minute
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	if cfg.Info.Build == "" {
		var err error
		if cfg.Info.Build, err = Build(); err != nil {
			return err
		}
	}
	if err := cfg.Info.Check(); err != nil {
		return fmt.Errorf("launch: agent: describe this host: %w", err)
	}
	if cfg.Secret.IsZero() {
		return errors.New("launch: agent: no secret")
	}
	a := &joining{cfg: cfg, dial: dial, lease: 4 * time.Second}
	var err error
	if a.bySecret, err = bySecret(dial, cfg.Secret); err != nil {
		return fmt.Errorf("launch: agent: %w", err)
	}
	for timeout := cfg.Timeout; ; timeout = cfg.Rejoin {
		err := a.serve(ctx, timeout)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		stopped := errors.Is(err, errStopped)
		switch {
		case stopped && cfg.Rejoin == 0:
			return nil
		case !stopped && !errors.Is(err, ErrLost) || cfg.Rejoin == 0 || a.byIdentity == nil:
			return err
		}
		cfg.Logger.Warn(fmt.Sprintf("%v; looking for a new launcher for %s", err, cfg.Rejoin))
	}
}

// joining is an agent that dials in.
type joining struct {
	cfg      JoinConfig
	dial     dialFunc
	bySecret *dialer

	// byIdentity dials the present launcher; nil: it was not reached yet.
	byIdentity *dialer

	lease time.Duration
}

// dialer is how the present launcher is reached.
func (a *joining) dialer() *dialer {
	if a.byIdentity != nil {
		return a.byIdentity
	}
	return a.bySecret
}

// serve serves one launcher: session after session, until the job is over or the launcher is lost.
// timeout is for reaching it.
func (a *joining) serve(ctx context.Context, timeout time.Duration) error {
	a.byIdentity = nil
	for {
		w, c, err := a.enter(ctx, timeout)
		if err != nil || c == nil {
			return err
		}
		if a.byIdentity == nil {
			id, err := identity.Decode(w.Identity)
			if err != nil {
				c.NetConn().Close()
				return fmt.Errorf("launch: agent: %w: %w", ErrRefused, err)
			}
			a.byIdentity = byIdentity(a.dial, id, a.lease)
			a.cfg.Logger.Info(fmt.Sprintf("launch: agent: joined the launcher at %s as %s", c.RemoteAddr(), a.cfg.Info.Name))
		}
		timeout = a.lease
		if err := a.session(ctx, w, c); err != nil || ctx.Err() != nil {
			return err
		}
	}
}

// enter asks for a session until it has one. Without an error and a connection, the job is over.
func (a *joining) enter(ctx context.Context, timeout time.Duration) (w welcome, c conn, err error) {
	began := time.Now()
	pause := backoff{}
	for {
		// refused is how long a launcher's refusals are taken for passing.
		var refused time.Duration
		attempt, cancel := context.WithTimeout(ctx, max(timeout-time.Since(began), a.lease))
		w, c, err = a.dialer().contact(attempt, a.cfg.Addresses, hello{Ask: askSession, Info: a.cfg.Info})
		cancel()
		if err == nil {
			if w.Lease >= minLease && w.Lease <= maxLease {
				a.lease = w.Lease
			}
			switch w.Refused {
			case "":
				return w, c, nil
			case refusedOver:
				return w, nil, nil
			case refusedName:
				// The agent that is there may be dead, and its lease not over yet.
				refused = 2 * a.lease
			case refusedNext:
				if a.byIdentity != nil {
					return w, nil, errStopped
				}

				// The next launcher may come to the same address.
				refused = timeout
			}
			err = fmt.Errorf("launch: agent: %w: %s", ErrRefused, w.Reason)
			if time.Since(began) >= refused {
				return w, nil, err
			}
		} else if errors.Is(err, identity.ErrSecret) {
			return w, nil, fmt.Errorf("launch: agent: %w: %w: give launcher and agents the same secret file", ErrRefused, err)
		}
		if left := timeout - time.Since(began); w.Refused != refusedName && pause.next > left || !pause.wait(ctx) {
			if a.byIdentity != nil {
				return w, nil, fmt.Errorf("launch: agent: %w: not reached for %s: %w", ErrLost, timeout, err)
			}
			return w, nil, neverReached{fmt.Errorf("launch: agent: the launcher was not reached for %s: %w; is launch running, and may this host connect to the port of its --listen?", timeout, err)}
		}
	}
}

// session runs one session. It is nil if the launcher has ended the session, and not itself.
func (a *joining) session(ctx context.Context, w welcome, c conn) error {
	s := resume.New(resume.Config{Lease: a.lease, Holder: true})
	broken := s.Attach(c)
	reconnecting := make(chan struct{})
	go func() {
		defer close(reconnecting)
		a.reconnect(s, w.Session, broken)
	}()
	cfg := a.cfg.Serve

	// The agent has no lease of its own here: the stream below it ends when the launcher is
	// silent.
	cfg.Lease = -1
	err := agent.Serve(ctx, s, s, cfg)
	finishing, cancel := context.WithTimeout(context.WithoutCancel(ctx), a.lease)
	defer cancel()
	s.Finish(finishing)
	<-reconnecting
	switch over := s.Err(); {
	case errors.Is(over, errSessionOver):
		a.cfg.Logger.Warn("launch: agent: the launcher had declared this agent lost; all processes were stopped")
		return nil
	case err != nil && errors.Is(over, resume.ErrLease):
		return fmt.Errorf("launch: agent: %w: %w", ErrLost, over)
	case over == nil || errors.Is(over, context.DeadlineExceeded):
		return nil
	}
	return err
}

// reconnect gives a session new connections until it is over.
func (a *joining) reconnect(s *resume.Stream, id string, broken <-chan struct{}) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() { <-s.Done(); cancel() }()
	for {
		select {
		case <-broken:
		case <-s.Done():
			return
		}
		began := time.Now()
		for pause := (backoff{}); ; {
			w, c, err := a.byIdentity.contact(ctx, a.cfg.Addresses, hello{Ask: askResume, Session: id})
			if err == nil && w.Refused != "" {
				s.Abort(errSessionOver)
				return
			}
			if err == nil {
				broken = s.Attach(c)
				a.cfg.Logger.Info(fmt.Sprintf("launch: agent: the connection to the launcher broke and was restored after %s", time.Since(began).Round(time.Millisecond)))
				break
			}
			if !pause.wait(ctx) {
				return
			}
		}
	}
}

// A backoff is the pause between attempts.
type backoff struct{ next time.Duration }

// wait waits; it reports whether ctx goes on.
func (b *backoff) wait(ctx context.Context) bool {
	t := time.NewTimer(b.next)
	defer t.Stop()
	b.next = min(max(2*b.next, 20*time.Millisecond), time.Second/2)
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
