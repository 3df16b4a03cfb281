package schedulernode

import (
	"time"

	"github.com/paragon-train/paragon/wire"
)

// An Event is something that happened to the scheduler. It holds all that the Core may know of it.
type Event struct {
	At time.Time
	// Request is the number under which a message is to be answered, never used before; 0 if only time passed.
	Request uint64
	// Message is what a node asks. Nil with a Request: whoever asked is gone, and needs no answer any more.
	Message wire.Message
	// Stop fails the job for a reason of the scheduler's own.
	Stop string
}

// An Output is what the Core says to an Event.
type Output struct {
	Answers []Answer
	Notes   []string // for people
}

// An Answer goes to whoever made a request, which may be an earlier one than the event's.
type Answer struct {
	Request uint64
	Message wire.Message
}

// Settings are what the Core is told of the job. All fields must be set, but for Hosts.
type Settings struct {
	Job          string
	Workers      int
	Servers      int
	Heartbeat    time.Duration // nodes are told to send one so often
	Lease        time.Duration // silence after which a node is lost
	StartTimeout time.Duration // how long the job may be forming
	Hosts        Hosts         // where nodes are expected, if it is known
}

// Hosts says on which host the node of a role and rank is expected.
type Hosts map[Place]string

// A Place is a role, as in package wire, and a rank in it.
type Place struct {
	Role uint8
	Rank int
}

func roleName(role uint8) string {
	switch role {
	case wire.RoleServer:
		return "server"
	case wire.RoleWorker:
		return "worker"
	}
	return "scheduler"
}
