package dialin

import (
	"net/netip"
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

// The two ends of a stream as package agent uses them.
type (
	writeEnd struct{ stream *resume.Stream }
	readEnd  struct{ stream *resume.Stream }
)

func (e writeEnd) Write(p []byte) (int, error) { return e.stream.Write(p) }

func (e writeEnd) Close() error { return e.stream.CloseWrite() }

func (e readEnd) Read(p []byte) (int, error) { return e.stream.Read(p) }

func (e readEnd) Close() error {
	e.stream.Abort(nil)
	return nil
}
