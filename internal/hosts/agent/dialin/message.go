package dialin

import "time"

// After the TLS handshake the end that dials sends a hello, and the launcher answers with a
// welcome. Then the connection belongs to the stream of a session (package resume), or to launch
// ctl. Each is JSON in a frame (package framing).
//
// The name of the server in the TLS handshake says by what the ends know each other.
const (
	// serverJoin is a server that knows the caller by the secret alone.
	serverJoin = "join"

	// serverAgent is a server to which the caller shows an identity that the launcher gave it.
	serverAgent = "agent"
)

const (
	maxMessage       = 64 << 10
	handshakeTimeout = 5 * time.Second
)

// What a hello asks for.
const (
	askSession = "session" // a new session, described by Info
	askResume  = "resume"  // the connection belongs to Session
	askControl = "control" // the connection is launch ctl's
)

type hello struct {
	Ask     string
	Info    Info   `json:",omitzero"`
	Session string `json:",omitempty"`
}

// Why a launcher refuses.
const (
	refusedBuild = "build" // the agent is of another build
	refusedName  = "name"  // another agent has that name

	// refusedSession says that there is no such session any more: its lease expired, or another
	// agent has taken the place.
	refusedSession = "session"

	// refusedOver says that the job is over, or the host was removed: the agent ends with code 0.
	refusedOver = "over"

	// refusedNext says that this launcher is stopping, and the job may go on with another one. The
	// agent looks for that one if it shall, and else ends with code 0.
	refusedNext = "next"

	// refusedAsk says that the hello makes no sense, or asks for something that is not there.
	refusedAsk = "ask"
)

type welcome struct {
	// Refused is empty if the hello is granted.
	Refused string `json:",omitempty"`

	// Reason says why, in words.
	Reason string `json:",omitempty"`

	// Session is the ID of a new session.
	Session string `json:",omitempty"`

	// Identity is the one with which the agent comes back, if it has none yet.
	Identity string `json:",omitempty"`

	Lease time.Duration `json:",omitempty"`
}

// Leases that make sense.
const (
	minLease = 100 * time.Millisecond
	maxLease = time.Hour
)
