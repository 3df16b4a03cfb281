// Package wire defines every byte that crosses a connection between the processes of a job: frames,
// message kinds, codes, and the limits that are checked before memory is allocated.
//
// A connection carries frames. A frame is a 16-byte header, a head and a payload:
//
//	offset  size  field
//	     0     1  version   Version; another one is refused
//	     1     1  kind      which message the head holds
//	     2     2  zero
//	     4     4  head      length of the head in bytes, at most MaxHead
//	     8     4  payload   length of the payload in bytes, at most MaxPayload
//	    12     4  id       number of the request on its connection, chosen by who asks; the answer repeats it
//	    16     h  head      the message, as its struct's comment says
//	  16+h     p  payload   values, rows or other bulk, as the message says
//
// All numbers are little-endian. The head is small and is decoded into a struct of this package;
// the payload is bulk data and is read straight into its final buffer. In a head, a string is a
// uint32 length and that many bytes of UTF-8, a list is a uint32 count and its items, a bool is one
// byte, 0 or 1. A head must be consumed to its last byte.
//
// Each request gets exactly one answer: the kind that its comment names, or Nack. Answers may come
// late (a pull waits for its round) and in another order than the requests.
//
// Kinds and codes are numbered by hand and only ever appended. Golden frames in testdata pin the
// format.
//
// This package keeps plain integers; the packages that give them meaning own the types.
package wire

// Version is the version of the frame format and of all messages. Processes of two versions refuse
// each other when they connect: a message that gets a field takes a new version, once per release.
const Version = 3

// Limits. A frame beyond them is an error, found before memory is allocated for it.
const (
	HeaderSize = 16
	MaxHead    = 1 << 20  // bytes of a head
	MaxPayload = 64 << 20 // bytes of a payload
	// MaxString is the bytes of one string, unless its message has another limit.
	MaxString = 64 << 10

	MaxAdaptation = 4 << 10   // bytes of Heartbeat.Adaptation
	MaxRecord     = 2 << 10   // bytes of Heartbeat.Record and Leave.Record
	MaxWaitText   = 1 << 10   // bytes of Heartbeat.Call, and of WaitsFor
	MaxTraceChunk = 256 << 10 // bytes of TraceChunk.Data and ProfilePart.Data
	MaxList       = 1 << 16   // items of one list
)

// A Kind says which message a frame holds.
type Kind uint8

// The kinds.
const (
	KindAck          Kind = 1
	KindNack         Kind = 2
	KindRegister     Kind = 3
	KindRegistered   Kind = 4
	KindWatch        Kind = 5
	KindMembership   Kind = 6
	KindHeartbeat    Kind = 7
	KindDeclare      Kind = 8
	KindKeyPlan      Kind = 9
	KindBarrier      Kind = 10
	KindLeave        Kind = 11
	KindSignal       Kind = 12
	KindAwait        Kind = 13
	KindReady        Kind = 14
	KindArrive       Kind = 15
	KindLostExamples Kind = 16
	KindControl      Kind = 17
	KindReport       Kind = 18
	KindAskLeave     Kind = 19
	KindInitShard    Kind = 20
	KindAwaitShard   Kind = 21
	KindPush         Kind = 22
	KindPull         Kind = 23
	KindValue        Kind = 24
	KindPushRows     Kind = 25
	KindPullRows     Kind = 26
	KindSetOptimizer Kind = 27
	KindSetRate      Kind = 28
	KindReadState    Kind = 29
	KindState        Kind = 30
	KindWriteState   Kind = 31
	KindReadRows     Kind = 40
	KindRows         Kind = 41
	KindWriteRows    Kind = 42
	KindReadUsage    Kind = 43
	KindUsage        Kind = 44
	KindReplicate    Kind = 50
	KindFill         Kind = 51
	KindFillPart     Kind = 52
	KindFilled       Kind = 53
	KindReadPlaces   Kind = 54
	KindPlaces       Kind = 55
	KindSignalled    Kind = 56
	KindBeat         Kind = 57
	KindTraceChunk   Kind = 58
	KindProfile      Kind = 59
	KindReadProfile  Kind = 60
	KindProfilePart  Kind = 61
	KindStopped      Kind = 62
	KindPushMany     Kind = 63
	KindPushedMany   Kind = 64
	KindClip         Kind = 65
	KindClipped      Kind = 66
)

// A Code says why a request was refused.
type Code uint16

// The codes of a Nack.
const (
	// CodeMalformed: the bytes do not have the format in the kind's comment.
	CodeMalformed Code = 1
	// CodeStaleGeneration: the sender's generation is not the receiver's.
	CodeStaleGeneration Code = 2
	// CodeUnknownKey: no such key or shard, or it has no value yet.
	CodeUnknownKey Code = 3
	// CodeDuplicateInit: the key was initialised with something else.
	CodeDuplicateInit Code = 4
	// CodeSize: the number of values does not fit the key.
	CodeSize Code = 5
	// CodeUnknownNode: the node is not, or no longer, a member.
	CodeUnknownNode Code = 6
	// CodeConflict: another node has sent a different value before (optimizer, number of
	// workers).
	CodeConflict Code = 7
	// CodeTooFarAhead: the round is more than one ahead of the open one.
	CodeTooFarAhead Code = 8
	// CodeUnavailable: the job failed or ended; the text says why.
	CodeUnavailable Code = 9
	// CodeTimeout: the wait's time ran out; the text says whom it waited for.
	CodeTimeout Code = 10
	// CodeUnauthorised: the peer did not prove that it has the job's secret.
	CodeUnauthorised Code = 11
	// CodeUnsupported: known, but not in this mode (rows of a dense key, an optimizer that
	// needs whole keys).
	CodeUnsupported Code = 12
	// CodeInternal: an internal error of the receiver; the text describes it.
	CodeInternal Code = 13
	// CodeBusy: a limit of the receiver is reached; try again later.
	CodeBusy Code = 14
	// CodeFull: the limit of a key's rows, or of a server's bytes, is reached.
	CodeFull Code = 15
	// CodeRemoved: the node was asked to leave, and may now.
	CodeRemoved Code = 16
	// CodeMoved: the shard is at another server; the scheduler knows where.
	CodeMoved Code = 17
	// CodeGap: a backup lacks the rounds before.
	CodeGap Code = 18
	// CodeNoTrace: nobody collects spans of this window, or no longer; the server has no such
	// profile.
	CodeNoTrace Code = 19
	// CodePushAlone: the sum of a host's workers is not taken: each of them pushes for itself.
	CodePushAlone Code = 20
)

// A Message is the head of one frame.
type Message interface {
	Kind() Kind
	// fields codes each field once, in the order of the message's comment.
	fields(c *coder)
}
