package wire

// Copy opens the head of every request of a shard's primary to its backup.
//
//	offset  size  field
//	     0     8  generation  membership the sender believes in
//	     8     8  node        the sender's ID
//	    16     8  placement   the sender's Membership.Placement
//	    24     8  key
//	    32     4  shard
//
// A receiver that does not know the placement yet waits for it. One that knows a newer placement,
// in which the sender is no longer the shard's primary or the receiver not its backup, answers
// CodeMoved. So a primary that was declared lost closes no round. Introduced in version 1.
type Copy struct {
	Generation uint64
	Node       uint64
	Placement  uint64
	Key        uint64
	Shard      uint32
}

// Order is the request's place among those that wait for one connection.
func (m *Copy) Order() uint64 { return m.Key }

// The forms of a Replicate's payload.
const (
	// RecordNone: nothing: the value stays.
	RecordNone uint8 = 0
	// RecordSum: float32 for each value: the sum, to which the optimizer is applied.
	RecordSum uint8 = 1
	// RecordValue: float32 for each value: the value.
	RecordValue uint8 = 2
	// RecordRows: rows int64, their numbers or IDs; then rows × rowlen float32, their sums.
	RecordRows uint8 = 3
	// RecordNewest: float32 for each value: the one contributor's newest contribution
	// (ModeAsync, RuleAverage).
	RecordNewest uint8 = 4
)

// Replicate sends a closed round to the shard's backup, which changes its value as the primary did.
// A round that it has already is acknowledged and not counted again; one that is not the next is
// CodeGap, as is a shard that it does not have. Answer: Ack.
//
//	offset  size  field
//	     0    36  copy
//	    36     8  number      of the Fill by which the backup has the shard; another one is CodeGap
//	    44     8  round       its number
//	    52     8  closed      generation under which it closed
//	    60     1  form        of the payload
//	    61     8  rows        of RecordRows
//	    69     8  weight      float64: sum of the weights
//	    77    26  rate        see RoundRate: that of the contributions
//	   103    29  norms       see Norms
//	   132     1  keep        keep the sum: the next round's norms are measured against it
//	   133     1  configured  the optimizer is that of config; false: as in the round before
//	   134     1  clipped     the round was held, and norm, factor and rank are those of the Clip that let it close
//	   135     8  norm        float64
//	   143     8  factor      float64
//	   151     4  rank        of the worker that brought it
//	   155     .  config      string, JSON of optim.Config; empty: none
//	     .     .  counts      list of node 8, seq 8, weight 4 (float32), counted 1 (as of Push), norm 8 (float64: over the weight; 0: nobody
//	                          looked), verdict 1 (of the guard; package shard), examples 8 (as of Push): the contributions, in the order of their sum
//
// Introduced in version 1, examples and clipped to rank in version 3.
type Replicate struct {
	Copy
	Number     uint64
	Round      uint64
	Closed     uint64
	Form       uint8
	Rows       uint64
	Weight     float64
	Rate       RoundRate
	Norms      Norms
	Keep       bool
	Configured bool
	Clipped    bool
	ClipNorm   float64
	ClipFactor float64
	ClipRank   uint32
	Config     string
	Counts     []CountedPush
}

// CountedPush is one contribution that a round counts.
type CountedPush struct {
	Node    uint64
	Seq     uint64
	Weight  float32
	Counted bool
	Norm    float64
	Verdict uint8

	Examples uint64
}

// Fill begins to copy a shard's state to its backup; FillParts bring the arrays. The backup keeps
// its old state of the shard until the last FillPart. Answer: Ack.
//
//	offset  size  field
//	     0    36  copy
//	    36     8  number      of this fill, from 1; its FillParts repeat it
//	    44     .  init        an InitShard; of its origin only key and shard are read
//	     .     8  round       rounds closed
//	     .     8  closed      generation under which the newest of them closed
//	     .     1  mode
//	     .     8  rows        of an open vocabulary
//	     .     1  pushed      contributions have come
//	     .     1  anyseq      a member's first contribution may have any sequence number
//	     .     .  config      string, the optimizer's JSON; empty: none
//	     .     .  base        string, the JSON that SetOptimizer gave the server
//	     .     .  slots       list of strings: names
//	     .     .  members     list of node 8, lastseq 8, base 8, examples 8, known 1, newest 1, weight 4 (float32), caught 8
//	     .     1  counted     contributions have counted examples
//	     .     .  left        list of node 8, count 8: examples of workers that have left
//	     .     .  guard       string, JSON of shard.Guard; empty: none
//	     .     .  norms       list of float64: those that the guard holds others against, the oldest first
//	     .     4  barren      contributions refused for their norm since one was taken
//	     .     .  newest      Norms of the newest round
//	     .     8  weight      float64: sum of the newest round's weights
//	     .     1  kept        the last array is the sum of a round, against which the next round's norms are measured
//	     .     8  keptround   its round; 0 unless kept
//	     .     8  keptweight  float64: sum of its weights; 0 unless kept
//	     .     8  examples    sum of the newest round's examples, as of Value
//	     .     4  whole       values in the payload: all arrays of a dense shard, one behind the other as FillParts have them, and no
//	                          FillPart follows; 0: FillParts follow
//
// Payload: whole float32. Repeating it is harmless. Introduced in version 1, examples and whole in
// version 3.
type Fill struct {
	Copy
	Number  uint64
	Init    InitShard
	Round   uint64
	Closed  uint64
	Mode    uint8
	Rows    uint64
	Pushed  bool
	AnySeq  bool
	Config  string
	Base    string
	Slots   []string
	Members []FillMember
	Counted bool
	Left    []NodeCount
	Guard   string
	Norms   []float64
	Barren  uint32

	Newest     Norms
	Weight     float64
	Kept       bool
	KeptRound  uint64
	KeptWeight float64
	Examples   uint64
	Whole      uint32
}

// FillMember is a shard's state of one worker.
type FillMember struct {
	Node uint64
	// LastSeq is the highest sequence number that counts.
	LastSeq uint64
	// Base is, in ModeAsync, the slowest member's contributions when this one joined, counted
	// as its own.
	Base uint64
	// Examples are those in closed rounds.
	Examples uint64
	Known    bool
	// Newest says, in ModeAsync with RuleAverage, that its newest contribution is one of the
	// arrays.
	Newest bool
	Weight float32
	// Caught is the number of contributions that the guard has refused or clipped.
	Caught uint64
}

// FillPart brings a part of an array to the backup. With last the new state is complete and
// replaces the old one. The number of another fill is CodeGap. Answer: Ack.
//
//	offset  size  field
//	     0    36  copy
//	    36     8  number
//	    44     4  array       0: the value; then the slots in order; then the newest contributions of the members that have one;
//	                          then the kept sum, if there is one
//	    48     8  from        first value; of an open vocabulary, the number of rows before these
//	    56     8  count       values; of an open vocabulary, rows
//	    64     1  last
//
// Payload: count float32; of an open vocabulary as of Rows. Parts come in order. Introduced in
// version 1.
type FillPart struct {
	Copy
	Number uint64
	Array  uint32
	From   uint64
	Count  uint64
	Last   bool
}

// Filled reports to the scheduler that the backups of some shards have the whole state, or (ok
// false) no longer have it. After such a report a server answers a round only when the backup has
// it, too. Answer: Ack; CodeMoved if the sender is not the primary of one of them, or its backup is
// another one.
//
//	offset  size  field
//	     0     8  node
//	     8     8  placement   by which the shards were filled
//	    16     1  ok
//	    17     .  shards      list of key 8, shard 4, backup 8 (node)
//
// Introduced in version 1.
type Filled struct {
	Node      uint64
	Placement uint64
	OK        bool
	Shards    []FilledShard
}

// FilledShard is one shard of a Filled.
type FilledShard struct {
	Key    uint64
	Shard  uint32
	Backup uint64
}

// ReadPlaces asks the scheduler where the shards of keys are, beginning with key From. Answer:
// Places.
//
//	offset  size  field
//	     0     8  node
//	     8     8  from
//
// Introduced in version 1.
type ReadPlaces struct {
	Node uint64
	From uint64
}

// Places says where shards are, by the ranks of their servers.
//
//	offset  size  field
//	     0     8  placement   Membership.Placement that these are of
//	     8     8  next        the first key that is not here; as many as the job has: none is missing
//	    16     8  keys        how many the job has
//	    24     .  places      list of key 8, shard 4, server 4, backup 4 (NoServer: none), sorted by key and shard
//
// Introduced in version 1.
type Places struct {
	Placement uint64
	Next      uint64
	Keys      uint64
	Places    []Place
}

// Place is where one shard is.
type Place struct {
	Key    uint64
	Shard  uint32
	Server uint32
	Backup uint32
}

// NoServer stands for no server.
const NoServer = 0xffffffff

// NodeCount is a number of examples of one node.
type NodeCount struct {
	Node  uint64
	Count uint64
}
