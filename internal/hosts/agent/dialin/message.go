package dialin

import "time"

// After the TLS handshake the end that dials sends a hello, and the launcher answers with a
// welcome. Then the connection belongs to the stream of a session (package resume), or to launch
// ctl. Each is JSON in a frame (package framing).
//
// The name of the server in the TLS handshake says by what the ends know each other.
const (
	serverJoin  = "join"  // by the secret
	serverAgent = "agent" // by identities of the launcher's authority
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
	refusedBuild   = "build"   // the agent is of another build
	refusedName    = "name"    // another agent has that name
	refusedSession = "session" // there is no such session any more: its lease expired, or another agent has taken the place
	refusedOver    = "over"    // the job is over, or the host was removed: the agent ends with code 0
	refusedNext    = "next"    // this launcher is stopping, the job may go on with another one: the agent looks for that, if it shall, else it ends with code 0
	refusedAsk     = "ask"     // the hello makes no sense, or asks for something that is not there
)

type welcome struct {
	Refused  string        `json:",omitempty"` // empty: the hello is granted
	Reason   string        `json:",omitempty"` // in words
	Session  string        `json:",omitempty"` // of a new session
	Identity string        `json:",omitempty"` // with which the agent comes back, if it has none yet
	Lease    time.Duration `json:",omitempty"`
}

// Leases that make sense.
const (
	minLease = 100 * time.Millisecond
	maxLease = time.Hour
)
