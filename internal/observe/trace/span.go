package trace

import "fmt"

// A Kind says what a Span shows. The numbers are part of the format: they are only ever appended.
type Kind uint8

// The kinds.
const (
	// Of a worker.
	Step     Kind = 1 // from the end of the step before to its own end
	Data     Kind = 2 // wait for the next batch
	Forward  Kind = 3
	Backward Kind = 4
	Push     Kind = 5 // a shard's contribution, from the send to the acknowledgement; of a push-pull, until it was sent
	Pull     Kind = 6 // a shard's value, from the request to the answer; of a push-pull, from when the contribution was sent
	Wait     Kind = 7 // wait of the training loop for the store
	Save     Kind = 8 // write of a checkpoint
	Evaluate Kind = 9

	// Of a server.
	Round   Kind = 10 // of a shard, from the first contribution to the close
	Apply   Kind = 11 // the sum and the optimizer's update, after the last contribution; it ends with its Round
	Receive Kind = 12 // a contribution, from its header to its last byte
	Answer  Kind = 13 // a value, from when it was ready until it was written to the connection

	// Of the membership.
	Change Kind = 14 // pause of a worker for a change of the membership
	Join   Kind = 15 // wait of a process until it is a member
	Other  Kind = 16

	// Of a worker.
	Compute Kind = 17 // a forward and backward pass together, where the device does not tell when the backward pass begins

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
	if rounds == 0 { // asynchronous, or the first value
		return contributions
	}
	return rounds
}

// A Span is what a process did from Begin to End.
type Span struct {
	Begin, End int64  // nanoseconds of Unix time, by the process's telemetry.Clock
	Step       uint64 // of a worker, from 0; 0 on servers
	Round      uint64 // of the shard; see the package comment
	Peer       uint64 // of Push and Pull: the server's rank; of Receive, Answer and asynchronous Round and Apply: the worker's node ID
	Bytes      uint64 // size of the contribution or value, as sent
	Key        uint32 // the key's number, from Recorder.Name; 0: none
	Shard      uint32 // index in the key's plan; of Forward, Backward and Compute the device
	Kind       Kind
}
