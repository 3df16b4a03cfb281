package dialin

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

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
	queue changeQueue

	// changed is closed and replaced when agents or queue change.
	changed chan struct{}

	// closing is what agents are told at the end, refusedOver or refusedNext; empty: it has not
	// come.
	closing string
}

// closeTime bounds how long Close waits for agents that are connected; one that hears that the job
// is over needs milliseconds.
const closeTime = 5 * time.Second

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
