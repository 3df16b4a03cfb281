package dialin

import (
	"crypto/rand"
	"crypto/tls"
	"encoding/hex"
	"fmt"
	"time"

	"github.com/paragon-train/paragon/internal/hosts/agent/resume"
	"github.com/paragon-train/paragon/internal/hosts/hosts"
	"github.com/paragon-train/paragon/internal/store/identity"
)

// admit decides on a hello. There is a session if the connection belongs to it. over is the member
// that is to be forgotten once its agent has the welcome.
func (l *Listener) admit(h hello, c *tls.Conn) (w welcome, s *session, over *member) {
	state := c.ConnectionState()
	known := "" // name of an agent that has an identity already
	if state.ServerName == serverAgent {
		known = state.PeerCertificates[0].Subject.CommonName
	}
	remote := addressOf(c.RemoteAddr())
	refuse := func(code, format string, args ...any) (welcome, *session, *member) {
		return welcome{Refused: code, Reason: fmt.Sprintf(format, args...), Lease: l.cfg.Lease}, nil, over
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch h.Ask {
	case askResume:
		s := l.sessions[h.Session]
		if s == nil || s.name != known {
			return refuse(refusedSession, "the session is over")
		}
		return welcome{Lease: l.cfg.Lease}, s, nil
	case askSession:
	default:
		return refuse(refusedAsk, "there is no %q here", h.Ask)
	}

	info := h.Info
	m := l.agents[nameKey(info.Name)]
	switch err := info.Check(); {
	case err != nil:
		return refuse(refusedAsk, "invalid description of the host: %v", err)
	case l.cfg.NoAgents != "":
		return refuse(refusedAsk, "%s", l.cfg.NoAgents)
	case known != "" && known != info.Name:
		return refuse(refusedAsk, "the agent was %s, and is %s now", known, info.Name)
	case info.Build != l.cfg.Build:
		return refuse(refusedBuild, "the agent's launch program is another build (%.8s) than the launcher's (%.8s): start the same program on all hosts", info.Build, l.cfg.Build)
	case l.closing != "":
		if m != nil && known != "" {
			over = m
		}
		return refuse(l.closing, "this launcher is stopping")
	case known != "" && m != nil && m.dismissed:
		over = m
		return refuse(refusedOver, "this host was removed from the job")
	case m != nil && !m.replaceable(remote):
		return refuse(refusedName, "an agent named %s has already joined from %s: run one agent on each host, or give them names with --name", info.Name, m.session.remote)
	case m == nil && len(l.agents) >= hosts.MaxSlots:
		return refuse(refusedAsk, "%d agents have already joined, the maximum", len(l.agents))
	}
	w = welcome{Lease: l.cfg.Lease}
	if known == "" {
		id, err := l.authority.Issue(identity.Agent, info.Name)
		if err != nil {
			return refuse(refusedAsk, "%v", err)
		}
		w.Identity = id.Encode()
	}
	var id [16]byte
	rand.Read(id[:]) // never fails
	s = &session{
		id: hex.EncodeToString(id[:]), name: info.Name, remote: remote,
		stream: resume.New(resume.Config{Lease: l.cfg.Lease}),
	}
	w.Session = s.id
	if m != nil && (m.dismissed || m.session != nil && !m.session.closed) {
		l.forget(m) // another process on that host, or the same one after its lease expired
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
	return w, s, nil
}
