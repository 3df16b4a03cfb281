package dialin

import (
	"crypto/rand"
	"crypto/tls"
	"encoding/hex"
	"fmt"
	"net/netip"
	"time"

	"github.com/paragon-train/paragon/internal/hosts/agent/resume"
	"github.com/paragon-train/paragon/internal/hosts/hosts"
	"github.com/paragon-train/paragon/internal/store/identity"
)

// A verdict says why an agent is refused: a code, and a sentence for people. Its zero value refuses
// nothing.
type verdict struct {
	code, reason string

	// over is the member that is forgotten as soon as its agent has been told.
	over *member
}

func refused(code, format string, args ...any) verdict {
	return verdict{code: code, reason: fmt.Sprintf(format, args...)}
}

// admit decides on a hello. There is a session if the connection belongs to it. over is the member
// that is to be forgotten once its agent has the welcome.
func (l *Listener) admit(h hello, c *tls.Conn) (w welcome, s *session, over *member) {
	state := c.ConnectionState()

	// known is the name of an agent that has an identity already.
	known := ""
	if state.ServerName == serverAgent {
		known = state.PeerCertificates[0].Subject.CommonName
	}
	w = welcome{Lease: l.cfg.Lease}
	var no verdict
	l.mu.Lock()
	defer l.mu.Unlock()
	switch h.Ask {
	case askResume:
		if s = l.sessions[h.Session]; s == nil || s.name != known {
			s, no = nil, refused(refusedSession, "the session is over")
		}
	case askSession:
		remote := addressOf(c.RemoteAddr())
		if no = l.check(h.Info, known, remote); no.code == "" {
			w.Identity, s, no = l.join(h.Info, known, remote)
		}
		if s != nil {
			w.Session = s.id
		}
	default:
		no = refused(refusedAsk, "there is no %q here", h.Ask)
	}
	w.Refused, w.Reason = no.code, no.reason
	return w, s, no.over
}

// check says why an agent may not join. mu is held.
func (l *Listener) check(info Info, known string, remote netip.Addr) verdict {
	m := l.agents[nameKey(info.Name)]
	switch err := info.Check(); {
	case err != nil:
		return refused(refusedAsk, "invalid description of the host: %v", err)
	case l.cfg.NoAgents != "":
		return refused(refusedAsk, "%s", l.cfg.NoAgents)
	case known != "" && known != info.Name:
		return refused(refusedAsk, "the agent was %s, and is %s now", known, info.Name)
	case info.Build != l.cfg.Build:
		return refused(refusedBuild, "the agent's launch program is another build (%.8s) than the launcher's (%.8s): start the same program on all hosts", info.Build, l.cfg.Build)
	case l.closing != "":
		no := refused(l.closing, "this launcher is stopping")
		if m != nil && known != "" {
			no.over = m
		}
		return no
	case known != "" && m != nil && m.dismissed:
		no := refused(refusedOver, "this host was removed from the job")
		no.over = m
		return no
	case m != nil && !m.replaceable(remote):
		return refused(refusedName, "an agent named %s has already joined from %s: run one agent on each host, or give them names with --name", info.Name, m.session.remote)
	case m == nil && len(l.agents) >= hosts.MaxSlots:
		return refused(refusedAsk, "%d agents have already joined, the maximum", len(l.agents))
	}
	return verdict{}
}

// join begins the session of an agent that may join. It gives one that is not known an identity. mu
// is held.
func (l *Listener) join(info Info, known string, remote netip.Addr) (newIdentity string, s *session, no verdict) {
	if known == "" {
		id, err := l.authority.Issue(identity.Agent, info.Name)
		if err != nil {
			return "", nil, refused(refusedAsk, "%v", err)
		}
		newIdentity = id.Encode()
	}
	s = &session{
		id: newSessionID(), name: info.Name, remote: remote,
		stream: resume.New(resume.Config{Lease: l.cfg.Lease}),
	}
	m := l.agents[nameKey(info.Name)]

	// The agent is another process on that host, or the same one after its lease expired.
	if m != nil && (m.dismissed || m.session != nil && !m.session.closed) {
		l.forget(m)
		m = nil
	}
	if m == nil {
		m = &member{}
		l.agents[nameKey(info.Name)] = m
	}
	if m.expire != nil {
		m.expire.Stop()
	}
	info.Joined = time.Now()
	m.info, m.session = info, s
	l.sessions[s.id] = s
	l.running.Go(func() { l.run(m, s) })
	return newIdentity, s, verdict{}
}

// newSessionID makes an ID that nobody guesses.
func newSessionID() string {
	var id [16]byte

	// rand.Read never fails.
	rand.Read(id[:])
	return hex.EncodeToString(id[:])
}
