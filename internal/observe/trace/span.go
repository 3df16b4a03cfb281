package trace

import "fmt"

// A Kind says what a Span shows. The numbers are part of the format: they are only ever appended.
type Kind uint8

// The kinds.
const (
	// Workers have spans of these kinds.

	// Step lasts from the end of the step before to its own end.
	Step Kind = 1

	Data     Kind = 2 // wait for the next batch
	Forward  Kind = 3
	Backward Kind = 4

	// Push is a shard's contribution, from the send to the acknowledgement. That of a push-pull
	// lasts until it was sent.
	Push Kind = 5

	// Pull is a shard's value, from the request to the answer. That of a push-pull begins when the
	// contribution was sent.
	Pull Kind = 6

	// Wait is the wait of the training loop for the store.
	Wait Kind = 7

	Save     Kind = 8 // write of a checkpoint
	Evaluate Kind = 9

	// Servers have spans of these kinds.

	// Round is a shard's, from the first contribution to the close.
	Round Kind = 10

	// Apply is the sum and the optimizer's update, after the last contribution. It ends with its
	// Round.
	Apply Kind = 11

	// Receive is a contribution, from its header to its last byte.
	Receive Kind = 12

	// Answer is a value, from when it was ready until it was written to the connection.
	Answer Kind = 13

	// These are about the membership.

	// Change is the pause of a worker for a change of the membership.
	Change Kind = 14

	// Join is the wait of a process until it is a member.
	Join Kind = 15

	Other Kind = 16

	// Compute is a worker's forward and backward pass together, where the device does not tell when
	// the backward pass begins.
	Compute Kind = 17

	numKinds = 18
)

var kindNames = [numKinds]string{Step: "step", Data: "data", Forward: "forward", Backward: "backward", Push: "push", Pull: "pull", Wait: "wait", Save: "save",
	Evaluate: "evaluate", Round: "round", Apply: "apply", Receive: "receive", Answer: "answer", Change: "change", Join: "join", Other: "other", Compute: "compute"}

func (k Kind) String() string {
	if !k.Valid() {
		return fmt.Sprintf("kind %d", uint8(k))
	}
	return kindNames[k]
}

// Valid reports whether this version knows the kind.
func (k Kind) Valid() bool { return k > 0 && k < numKinds }

// OfServer reports whether spans of the kind are a server's, where it is in one process with a
// worker.
func (k Kind) OfServer() bool { return k >= Round && k <= Answer }

// Wanted is the Round of a Pull and an Answer that ask for so many closed rounds and so many of the
// worker's own contributions.
func Wanted(rounds, contributions uint64) uint64 {
	// In asynchronous training, and of the first value, there is no round to wait for.
	if rounds == 0 {
		return contributions
	}
	return rounds
}

// A Span is what a process did from Begin to End.
type Span struct {
	// Begin and End are in nanoseconds of Unix time, by the process's telemetry.Clock.
	Begin, End int64

	// Step is a worker's, from 0. It is 0 on servers.
	Step uint64

	// Round is the shard's (see the package comment).
	Round uint64

	// Peer is the server's rank for Push and Pull, and the worker's node ID for Receive, Answer and
	// asynchronous Round and Apply.
	Peer uint64

	// Bytes is the size of the contribution or value, as sent.
	Bytes uint64

	// Key is the key's number, from Recorder.Name; 0: there is none.
	Key uint32

	// Shard is the index in the key's plan, and the device for Forward, Backward and Compute.
	Shard uint32

	Kind Kind
}
