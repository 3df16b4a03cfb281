package trace

import "fmt"

// A Kind says what a Span shows. The numbers are part of the format: they are only ever appended.
type Kind uint8

// The kinds.
const (
	// Of a worker.
	Step     Kind = 1 // from the end of the step before to its own
	Data     Kind = 2 // waits for the next batch
	Forward  Kind = 3
	Backward Kind = 4
	Push     Kind = 5 // a shard's contribution, from the send to the acknowledgement; of a push-pull, until it was sent
	Pull     Kind = 6 // a shard's value, from the request to the answer; of a push-pull, from when the contribution was sent
	Wait     Kind = 7 // the training loop waits for the store
	Save     Kind = 8 // writes a checkpoint
	Evaluate Kind = 9

	// Of a server.
	Round   Kind = 10 // of a shard, from the first contribution to the close
	Apply   Kind = 11 // adding up and the optimizer's update once the last contribution was there: the end of its Round
	Receive Kind = 12 // a contribution, from its header to its last byte
	Answer  Kind = 13 // a value, from the time at which it was ready until it was written

	// Of the membership.
	Change Kind = 14 // a worker stops for a change of the membership
	Join   Kind = 15 // a process waits until it is a member
	Other  Kind = 16

	// Of a worker.
	Compute Kind = 17 // a forward and backward pass on a device that does not tell where one ends

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

// Valid reports whether the kind is known.
func (k Kind) Valid() bool { return k > 0 && k < numKinds }

// OfServer reports whether spans of the kind are a server's, where it is in one process with a worker.
func (k Kind) OfServer() bool { return k >= Round && k <= Answer }

// Wanted is the Round of a Pull and an Answer that ask for so many closed rounds and so many of the worker's own contributions.
func Wanted(rounds, contributions uint64) uint64 {
	if rounds == 0 { // asynchronous, or the first value
		return contributions
	}
	return rounds
}

// A Span is what a process did from Begin to End.
type Span struct {
	Begin, End int64  // nanoseconds of the process's telemetry.Clock
	Step       uint64 // of a worker, from 0; 0 on servers
	Round      uint64 // of the shard, see the package's comment
	Peer       uint64 // node: of Push and Pull the server's rank, of Receive, Answer and an asynchronous Round the worker
	Bytes      uint64 // of the contribution or value, as sent
	Key        uint32 // Recorder.Name of the key; 0: none
	Shard      uint32 // piece of the key; of Forward, Backward and Compute the device
	Kind       Kind
}
