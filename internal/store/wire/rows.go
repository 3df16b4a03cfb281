package wire

// ReadRows asks for some of the rows that an open vocabulary's shard has, with their state, once at
// least Round rounds have closed. Rows are counted from 0 in the order in which they were made;
// they keep their places. Answer: Rows.
//
//	offset  size  field
//	     0    40  origin
//	    40     8  round
//	    48     8  from        the first row
//	    56     8  count       the most rows to answer with; CodeSize if they do not fit a frame
//	    64     4  wait        milliseconds
//
// Introduced in version 1.
type ReadRows struct {
	Origin
	Round      uint64
	From       uint64
	Count      uint64
	WaitMillis uint32
}

// Rows are some rows of an open vocabulary's shard and the optimizer's slots for them.
//
//	offset  size  field
//	     0     8  generation
//	     8     8  round       rounds closed
//	    16     8  total       rows that the shard has
//	    24     8  rows        in this answer
//	    32     .  config      string: the optimizer's JSON; empty: none
//	     .     .  slots       list of strings: names
//
// Payload: rows int64, their IDs; then rows × rowlen float32 of the value, and as many of each slot
// in order. Introduced in version 1.
type Rows struct {
	Generation uint64
	Round      uint64
	Total      uint64
	Rows       uint64
	Config     string
	Slots      []string
}

// WriteRows adds rows to an open vocabulary's shard, creating it if needed; rank 0 sends it in a
// load. The first of a load drops all rows of the shard and the contributions held for open rounds.
// An ID that the shard has already is CodeMalformed. Answer: Ack.
//
//	offset  size  field
//	     0     .  init        an InitShard without payload of its own
//	     .     8  round       rounds closed
//	     .     1  first       true: forget what was there
//	     .     8  rows
//	     .     .  slots       list of strings
//
// Payload: as of Rows, with IDs that increase as unsigned numbers. Introduced in version 1.
type WriteRows struct {
	Init  InitShard
	Round uint64
	First bool
	Rows  uint64
	Slots []string
}

// ReadUsage asks what a server holds. Key and shard of the origin are 0. Answer: Usage.
//
//	offset  size  field
//	     0    40  origin
//
// Introduced in version 1.
type ReadUsage struct {
	Origin
}

// Usage is what a server holds, in bytes, and how many contributions its guard has refused and
// clipped.
//
//	offset  size  field
//	     0     8  generation
//	     8     8  shards
//	    16     8  rows        of open vocabularies
//	    24     8  values
//	    32     8  state       of the optimizer
//	    40     8  index       by which rows of open vocabularies are found
//	    48     .  caught      list of CaughtCount, by node
//
// A CaughtCount is node 8, rank 4, refused 8, clipped 8; its host is a string after these.
// Introduced in version 1.
type Usage struct {
	Generation uint64
	Shards     uint64
	Rows       uint64
	Values     uint64
	State      uint64
	Index      uint64
	Caught     []CaughtCount
}

// CaughtCount says how many contributions of one worker a server's guard has refused or clipped.
type CaughtCount struct {
	Node    uint64
	Rank    uint32
	Refused uint64
	Clipped uint64
	Host    string
}
