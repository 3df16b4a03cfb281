package dialin

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/paragon-train/paragon/internal/hosts/agent"
	"github.com/paragon-train/paragon/internal/hosts/agent/resume"
)

// forget removes a member; the caller holds the lock.
func (l *Listener) forget(m *member) {
	delete(l.agents, nameKey(m.info.Name))
	if m.expire != nil {
		m.expire.Stop()
	}
	if s := m.session; s != nil {
		m.session = nil
		l.running.Go(func() { s.stream.Abort(errReplaced) })
	}
	if m.joined {
		l.change(Change{m.info, false})
	}
	l.notify()
}

var errReplaced = errors.New("another agent has taken its place")

// run runs a session to its end.
func (l *Listener) run(m *member, s *session) {
	ctx, cancel := context.WithTimeout(l.ctx, max(l.cfg.Lease, handshakeTimeout))
	client, err := agent.NewClient(ctx, s.name, writeEnd{s.stream}, readEnd{s.stream})
	cancel()
	if err != nil {
		s.stream.Abort(err)
	} else {
		l.begun(m, s, client)
		<-client.Gone()
		ctx, cancel := context.WithTimeout(l.ctx, l.cfg.Lease)
		err = s.stream.Finish(ctx)
		cancel()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.sessions, s.id)
	if m.session != s {
		return
	}
	m.session = nil
	if !s.closed || errors.Is(err, resume.ErrLease) {
		l.forget(m)
		return
	}
	m.expire = time.AfterFunc(l.cfg.Lease, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.agents[nameKey(m.info.Name)] == m && m.session == nil {
			l.forget(m)
		}
	})
	l.notify()
}

// begun notes that the agent of a session is there.
func (l *Listener) begun(m *member, s *session, client *agent.Client) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s.client = client
	if m.session == s && !m.joined {
		m.joined = true
		l.change(Change{m.info, true})
	}
	if l.closing != "" || m.dismissed {
		l.closeSession(s)
	}
	l.notify()
}

// closeSession ends an agent's session: it comes back, and is told why. The caller holds the lock.
func (l *Listener) closeSession(s *session) {
	if s.closed = true; s.client == nil {
		// Without a client there is nothing to end yet: begun sees that the session is closed.
		return
	}
	l.running.Go(func() {
		ctx, cancel := context.WithTimeout(l.ctx, closeTime)
		defer cancel()
		s.client.Close(ctx)
	})
}

// told notes that a member's agent was told that it is over.
func (l *Listener) told(m *member) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if m != nil && l.agents[nameKey(m.info.Name)] == m {
		l.forget(m)
	}
}

// Dismiss tells the agent of that name that it is not needed any more: it ends its processes and
// exits with code 0.
func (l *Listener) Dismiss(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	m := l.agents[nameKey(name)]
	if m == nil || m.dismissed || l.closing != "" {
		return
	}
	if m.dismissed = true; m.session != nil {
		l.closeSession(m.session)
	}
	l.notify()
}

// Agents has the agents that are there, idle or in use, in the natural order of their names: n2
// comes before n10.
func (l *Listener) Agents() []Info {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.present()
}

// present are the agents that are there, in the natural order of their names. The caller holds the
// lock.
func (l *Listener) present() []Info {
	var all []Info
	for _, m := range l.agents {
		if m.joined && !m.dismissed {
			all = append(all, m.info)
		}
	}
	slices.SortFunc(all, func(a, b Info) int { return compareNatural(a.Name, b.Name) })
	return all
}

// Wait returns the agents once there are enough of them. The error is ctx's cause.
func (l *Listener) Wait(ctx context.Context, enough func([]Info) bool) (all []Info, err error) {
	err = l.await(ctx, func() bool {
		all = l.present()
		return enough(all)
	})
	return all, err
}
