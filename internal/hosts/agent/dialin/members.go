package dialin

import (
	"cmp"
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/paragon-train/paragon/internal/hosts/agent"
	"github.com/paragon-train/paragon/internal/hosts/agent/resume"
	"github.com/paragon-train/paragon/internal/hosts/hosts"
)

// A member is an agent by its name, over all its sessions. Its fields are guarded by Listener.mu.
type member struct {
	info Info

	// session is nil if the last one was closed here, and the agent dials in anew.
	session *session

	// joined says that a Change has told of this agent.
	joined bool

	dismissed bool

	// expire is set while session is nil.
	expire *time.Timer
}

// nameKey is the same for all spellings of a host's name, as it is in hosts files: n1 and N1 are
// one host.
func nameKey(name string) string { return hosts.Host{Name: name}.Key().Name }

// A session is one run of agent.Serve on the agent's side.
type session struct {
	id     string
	name   string
	remote netip.Addr
	stream *resume.Stream

	// Guarded by Listener.mu:
	// client is nil if the agent has not begun yet.
	client *agent.Client

	// inUse says that somebody has dialled the agent.
	inUse bool

	// closed says that the session was closed from here: the agent comes back in another one.
	closed bool
}

// replaceable reports whether a new session from remote may take the place of the member's: that
// one was closed, or its agent is no longer connected.
func (m *member) replaceable(remote netip.Addr) bool {
	s := m.session
	return s == nil || s.closed || m.dismissed || !s.stream.Connected() && s.remote == remote
}

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

// compareNatural compares names; the digits in them count as numbers.
func compareNatural(a, b string) int {
	for a != "" && b != "" {
		x, y := digits(a), digits(b)
		if x == "" || y == "" {
			if a[0] != b[0] {
				return cmp.Compare(a[0], b[0])
			}
			a, b = a[1:], b[1:]
			continue
		}
		p, q := strings.TrimLeft(x, "0"), strings.TrimLeft(y, "0")
		if c := cmp.Or(cmp.Compare(len(p), len(q)), cmp.Compare(p, q), cmp.Compare(len(x), len(y))); c != 0 {
			return c
		}
		a, b = a[len(x):], b[len(y):]
	}
	return cmp.Compare(len(a), len(b))
}

// digits returns the digits at the beginning of s.
func digits(s string) string { return s[:len(s)-len(strings.TrimLeft(s, "0123456789"))] }

// Wait returns the agents once there are enough of them. The error is ctx's cause.
func (l *Listener) Wait(ctx context.Context, enough func([]Info) bool) (all []Info, err error) {
	err = l.await(ctx, func() bool {
		all = l.present()
		return enough(all)
	})
	return all, err
}

// addressOf is the IP address of a, or none.
func addressOf(a net.Addr) netip.Addr {
	ap, err := netip.ParseAddrPort(a.String())
	if err != nil {
		return netip.Addr{}
	}
	return ap.Addr().Unmap().WithZone("")
}

// addressText is the IP address of a as text, or empty.
func addressText(a net.Addr) string {
	if ip := addressOf(a); ip.IsValid() {
		return ip.String()
	}
	return ""
}
