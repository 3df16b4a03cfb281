package wire

// Profile runs, stops or ends a profile: the spans of a server that a worker asked for. A server
// has one profile at a time; that of another worker is CodeConflict, whose text names it. A newer
// one of the same worker replaces its older one. A profile ends with its worker's membership, and
// records for MaxProfileSeconds at most. Key and shard of the origin are 0.
//
//	offset  size  field
//	     0    40  origin
//	    40     8  id      number of the profile, rising with the profiles of one worker
//	    48     1  command ProfileRun, ProfileStop or ProfileEnd
//	    49     4  spans   of ProfileRun: how many there is room for, 1 to MaxProfileSpans
//
// Answer: Ack; of ProfileStop CodeNoTrace if the server has no such profile. Repeating one is
// harmless: a profile that has ended does not run again. Introduced in version 2.
type Profile struct {
	Origin
	ID      uint64
	Command uint8
	Spans   uint32
}

// The commands of a Profile.
const (
	ProfileRun uint8 = 1
	// ProfileStop: its spans can be read.
	ProfileStop uint8 = 2
	// ProfileEnd: nobody wants the spans any more.
	ProfileEnd uint8 = 3
)

// Limits of a profile.
const (
	MaxProfileSpans   = 1 << 18 // 20 MB
	MaxProfileSeconds = 3600
)

// ReadProfile asks for spans of a profile that was stopped. Answer: ProfilePart; CodeNoTrace if the
// server has no such profile, CodeConflict while it runs.
//
//	offset  size  field
//	     0    40  origin      key and shard 0
//	    40     8  id          of the profile
//	    48     8  from        number of the first span that is wanted, at most the number of all
//
// Introduced in version 2.
type ReadProfile struct {
	Origin
	ID   uint64
	From uint64
}

// ProfilePart has the spans of a profile from a number on, as many as fit.
//
//	offset  size  field
//	     0     8  generation
//	     8     8  next        number of the first span behind these
//	    16     8  total       number of all spans
//	    24     8  dropped     spans that there was no room for
//	    32     8  offset      the scheduler's clock minus the server's, of which the times of the spans are, in nanoseconds (int64)
//	    40     8  bound       how wrong that may be, in nanoseconds (int64)
//	    48     1  overdue     the recording ended after MaxProfileSeconds, before it was stopped
//	    49     4  length      of the data, at most MaxTraceChunk
//	    53     n  data        the spans, as package internal/observe/trace has them
//
// Introduced in version 2.
type ProfilePart struct {
	Generation  uint64
	Next        uint64
	Total       uint64
	Dropped     uint64
	ClockOffset int64
	ClockBound  int64
	Overdue     bool
	Data        []byte
}
