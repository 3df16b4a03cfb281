package scheduler

import (
	"cmp"
	"log/slog"
	"time"

	"github.com/paragon-train/paragon/internal/member/cluster"
	"github.com/paragon-train/paragon/internal/observe/joblog"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// An Event is one input of the Core, with all that the Core may know of it.
type Event struct {
	At time.Time
	// Read says how far the requests of the nodes have been read: all that came before are
	// among the events up to this one. Leases that run out later are left, for the node's
	// request may be waiting. Zero: At.
	Read time.Time
	// Stalled is how long before At the scheduler took no events: it was stopped, or waited for
	// its journal. Leases do not run out by that.
	Stalled time.Duration
	// Request is the number under which a message is to be answered, never used before; 0 if
	// only time passed.
	Request uint64
	// Message is the request of a node. Nil with a Request: its sender is gone and needs no
	// answer.
	Message wire.Message
	// Stop fails the job, for this reason.
	Stop string
}

// An Output is the result of an Event.
type Output struct {
	Answers []Answer
	// Notes and Warnings are for people. Who reads a warning should look at the job.
	Notes    []Note
	Warnings []Note
	// Presence says which nodes come and go while the job is forming.
	Presence []Presence
	// Records must be kept before anybody gets an answer.
	Records []Record
}

// A Note is a line for the log.
type Note struct {
	Text string
	// Event is what package joblog makes of an event; the zero Attr: it is none.
	Event slog.Attr
}

func (n Note) String() string { return n.Text }

// attrs is the note's event for the log, if it is one.
func (n Note) attrs() []slog.Attr {
	if joblog.IsEvent(n.Event) {
		return []slog.Attr{n.Event}
	}
	return nil
}

// A Presence reports that a node has registered or disconnected.
type Presence struct {
	// Place is what it wants; rank -1: any.
	Place Place
	// Process is the number that the launcher gave it; 0: it was started by hand.
	Process uint32
	Here    bool
}

// A Record is a piece of what the Core has decided. Restore makes a Core of the newest value of
// each key.
type Record struct {
	Key string
	// Value is nil if the record is no longer needed.
	Value []byte
}

// An Answer is for a request, which may be an earlier one than the event's.
type Answer struct {
	Request uint64
	Message wire.Message
}

// Settings describe the job to the Core. All fields must be set, except Patience, Hosts and
// Elastic.
type Settings struct {
	Job string
	// Workers and Servers are how many the job begins with.
	Workers int
	Servers int
	// Heartbeat is how often nodes are told to send one.
	Heartbeat time.Duration
	// Lease is the silence after which a node is lost.
	Lease time.Duration
	// StartTimeout is how long the job may be forming.
	StartTimeout time.Duration
	// Patience is how long nodes go on without the scheduler; zero: Lease.
	Patience time.Duration
	// Hosts says where nodes are expected, if it is known.
	Hosts   Hosts
	Elastic cluster.Elastic
	// Unkept says that there is no journal: no records are made.
	Unkept bool
}

// withDefaults returns the settings with what zero fields of Elastic stand for.
func (s Settings) withDefaults() Settings {
	s.Patience = cmp.Or(s.Patience, s.Lease)
	s.Elastic = cluster.Config{Elastic: s.Elastic}.WithDefaults().Elastic
	return s
}

// mostWorkers is how many workers may count; 0: any number.
func (s Settings) mostWorkers() int {
	if s.Elastic.Enabled {
		return s.Elastic.MaxWorkers
	}
	return s.Workers
}

// count is how many nodes of a role the job begins with.
func (s Settings) count(role uint8) int {
	if role == wire.RoleServer {
		return s.Servers
	}
	return s.Workers
}

// joins reports whether workers may join the job while it runs.
func (s Settings) joins() bool {
	return s.Elastic.Enabled || s.Elastic.OnWorkerLoss != cluster.LossFail
}

// Hosts says on which host the node of a role and rank is expected.
type Hosts map[Place]string

// A Place is a role, as in package wire, and a rank in it.
type Place struct {
	Role uint8
	Rank int
}
