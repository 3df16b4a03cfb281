package wire

// Origin opens the head of every request of a worker to a server. (job, generation, node, key,
// shard, seq) names a contribution: sending it again, after a lost answer or over another
// connection, is harmless.
//
//	offset  size  field
//	     0     8  generation  membership the sender believes in
//	     8     8  node        the sender's ID
//	    16     4  rank        the sender's rank in that generation
//	    20     8  key
//	    28     4  shard       index in the key's plan
//	    32     8  seq         number of this sender's pushes of this shard, from 1; in a pull, of those before it
//
// A receiver of another generation answers CodeStaleGeneration; an unknown key or shard is
// CodeUnknownKey. Introduced in version 1.
type Origin struct {
	Generation uint64
	Node       uint64
	Rank       uint32
	Key        uint64
	Shard      uint32
	Seq        uint64
}

// Order is the request's place among those that wait for one connection: keys are numbered as they
// were initialised, and the first ones are the layers that the next forward pass needs first.
func (m *Origin) Order() uint64 { return m.Key }

// The codecs of values in a payload.
const (
	// CodecFloat32: 4 bytes a value, IEEE 754.
	CodecFloat32 uint8 = 0
	// CodecFloat16: 2 bytes a value, IEEE 754 binary16.
	CodecFloat16 uint8 = 1
	// CodecBFloat16: 2 bytes a value, the upper half of a float32.
	CodecBFloat16 uint8 = 2
	// Codec2Bit: 4 values a byte, most significant first: 11 +threshold, 10 -threshold, 00
	// zero; padded to 4 bytes.
	Codec2Bit uint8 = 3
	// Codec1Bit: 8 values a byte, most significant first: 1 is +1, 0 is -1; padded to 4 bytes.
	Codec1Bit uint8 = 4
	// CodecTopK: some values with their indices, the others are 0; see below.
	CodecTopK uint8 = 5
)

// A payload of CodecTopK for n values of a shard has 4n bytes and is all of them, float32; or it is
// shorter and is
//
//	offset  size  field
//	     0     4  count       number of values that follow, at most n
//	     4     4  form        of their indices: 0 gaps, 1 bitmap
//	     8     4c values      float32, in the order of their indices
//	  8+4c     .  indices     rising, in the shorter of the two forms, gaps if they are alike
//
// Gaps: for each value how many were left out since the one before it, or since the start, in
// groups of 7 bits, lowest first, with 0x80 added to each byte but a number's last; no number has
// more bytes than it needs. Bitmap: a bit for each of the n values, lowest bit of a byte first, 1
// for those that follow; padded to a byte with zero bits. Anything else is CodeMalformed.

// InitShard gives a shard its first value; rank 0 sends it. Answer: Ack. If the shard has a value
// already (a load, a rank 0 that was restarted) the value stays and the answer is Ack all the same;
// another length is CodeSize.
//
//	offset  size  field
//	     0    40  origin
//	    40     1  form
//	    41     1  rule
//	    42     8  offset      of the shard in the key; of a key of rows, the shard's index
//	    50     8  length      values of the shard
//	    58     8  rowlen      values of one row; 0 for a dense key
//	    66     8  size        values of the whole key
//	    74     4  shards      shards of the whole key
//	    78     1  zeros       true: no payload, the value is all zeros, or what table says
//	    79     .  name        string: the key's name, for multipliers and messages
//	     .     .  table       string: JSON of shard.Table, decoded strictly: first values and limit of a key of rows; empty: none
//
// Payload: length float32, unless zeros. Introduced in version 1.
type InitShard struct {
	Origin
	Form   uint8
	Rule   uint8
	Offset uint64
	Length uint64
	RowLen uint64
	Size   uint64
	Shards uint32
	Zeros  bool
	Name   string
	Table  string
}

// AwaitShard is answered with Ack when the shard has a value, or with CodeTimeout.
//
//	offset  size  field
//	     0    40  origin
//	    40     4  wait        milliseconds
//
// Introduced in version 1.
type AwaitShard struct {
	Origin
	WaitMillis uint32
}

// Push carries one worker's gradient for one dense shard.
//
//	offset  size  field
//	     0    40  origin
//	    40     8  round       round this gradient belongs to, from 0; dist_async: same as seq-1
//	    48     4  weight      float32: what the contribution counts in a mean: what its loss was divided by, such as the number of its labels
//	    52     1  codec       of the payload, up to CodecTopK
//	    53     4  threshold   float32, of Codec2Bit
//	    57     8  n           number of values
//	    65     1  answer      0: Ack as soon as the contribution is held; 1: Value once its round is closed
//	    66     1  answercodec codec of the Value
//	    67     4  wait        milliseconds the sender will wait for the answer
//	    71     1  counted     the server adds examples to those that the sender has used, for LostExamples
//	    72     1  judged      the sender held norm against the limit of a Value: the guard does not judge this contribution's norm again
//	    73     8  norm        float64: Euclidean norm of the gradient before it was compressed, over the weight if that is above 0; 0 unless judged
//	    81    39  step        see Step
//	   120     .  contributors  list of Contributor, at most MaxContributors: the workers of one host whose gradients the payload is the sum of, the
//	                          sender among them; empty: it is the sender's gradient alone
//	     .     8  examples    number of examples of which the gradient is
//
// Payload: the values. The server answers when it may: a contribution for the round after the open
// one is held, one further ahead waits for its turn. Sent again: acknowledged (or answered with the
// Value), counted once.
//
// With contributors seq, weight, counted, examples, judged, norm and the step's micro and microsqr
// are 0: each contributor has its own. Either all of them are counted, or none: CodePushAlone if
// some were counted before, if one is not a worker of the generation or cannot contribute to the
// round, if the server has a guard, or if it measures norms of preconditioned gradients. Each
// worker then pushes for itself. If all were counted before it is a repeat.
//
// To the worker of a host that adds up the shard, a push with n 0, answer 0 and no payload says
// that the sender pushes for itself in this round, and until it comes again; the others of the host
// do not wait for it. Answer: Ack.
//
// Introduced in version 1, contributors in version 2, n 0 and examples in version 3; before, the
// weight was the number of examples.
type Push struct {
	Origin
	Round        uint64
	Weight       float32
	Codec        uint8
	Threshold    float32
	N            uint64
	Answer       bool
	AnswerCodec  uint8
	WaitMillis   uint32
	Counted      bool
	Judged       bool
	Norm         float64
	Step         Step
	Contributors []Contributor
	Examples     uint64
}

// MaxContributors is the most workers of one host whose gradients one push carries.
const MaxContributors = 1024

// A Contributor is one worker of a Push that carries the sum of several.
//
//	offset  size  field
//	     0     8  node
//	     8     8  seq         number of this worker's pushes of this shard, from 1
//	    16     4  weight      float32
//	    20     1  counted     as of Push
//	    21     4  micro       as in Step
//	    25     8  microsqr    as in Step
//	    33     8  sqr         float64: squared Euclidean norm of its gradient, if the step is measured; else 0
//	    41     8  early       nanoseconds between its arrival at the sender and the sending of the sum
//	    49     8  examples    as of Push
//
// Introduced in version 2, examples in version 3.
type Contributor struct {
	Node     uint64
	Seq      uint64
	Weight   float32
	Counted  bool
	Micro    uint32
	MicroSqr float64
	Sqr      float64
	Early    uint64
	Examples uint64
}

// Step is what the contributions of one round have in common, and in micro and microsqr what this
// one has measured. It is all zeros for a round that is not measured and whose learning rate is the
// optimizer's own.
//
//	offset  size  field
//	     0     1  measure     the server measures the norms of the round's gradients, if all its contributions ask for it; see Norms
//	     1    26  rate        see RoundRate
//	    27     4  micro       micro-gradients that the sender has summed, at most MaxMicro; 0: one
//	    31     8  microsqr    float64, at least 0, +Inf allowed: the sum over them of ‖s‖²/m, s the sum of the gradients of the m examples of one;
//	                          of the whole key on its first shard, 0 on the others; 0 unless measure and micro above 1
//
// Numbers beyond these limits are CodeMalformed. All contributions of a round have the same rate:
// one with another is CodeConflict, which names both, and does not count.
type Step struct {
	Measure  bool
	Rate     RoundRate
	Micro    uint32
	MicroSqr float64
}

// RoundRate changes the learning rate of one round. The optimizer's own rate and schedule stay as
// they are.
//
//	offset  size  field
//	     0     1  scaled      factor multiplies the learning rate; false: 1
//	     1     8  factor      float64, 0 to MaxFactor; 0 unless scaled
//	     9     1  byprogress  the schedule is read at progress; false: at the round's number
//	    10     8  progress    float64, 0 to MaxProgress; 0 unless byprogress
//	    18     8  gain        float64, 0 to MaxFactor: how many times larger the gradient's mean square would be at the batch size for which the
//	                          learning rate was chosen, for rules with a second moment; 0: 1
type RoundRate struct {
	Scaled     bool
	Factor     float64
	ByProgress bool
	Progress   float64
	Gain       float64
}

// The limits of a Step.
const (
	MaxFactor   = 1 << 20
	MaxProgress = 1 << 53
	MaxMicro    = 1<<16 - 1
)

// Pull asks for a dense shard's value once at least Round rounds have closed. In dist_async it is
// answered at once, or, with a bound on staleness, when the slowest worker is at most Staleness
// pushes behind the sender's Seq. Answer: Value.
//
//	offset  size  field
//	     0    40  origin
//	    40     8  round       number of rounds that the value must contain
//	    48     1  codec       of the answer
//	    49     4  wait        milliseconds
//	    53     8  staleness   bound in pushes; MaxUint64: none
//
// Introduced in version 1.
type Pull struct {
	Origin
	Round      uint64
	Codec      uint8
	WaitMillis uint32
	Staleness  uint64
}

// Value answers Push, Pull and PullRows.
//
//	offset  size  field
//	     0     8  generation  under which the newest round in it closed
//	     8     8  round       number of rounds it contains
//	    16     1  codec
//	    17     8  n           number of values
//	    25     8  missed      dist_async: rounds that other workers made between the value before the asker's newest push and that push
//	    33     8  lead        dist_async: how many more pushes of the asker's it contains than of the slowest worker's
//	    41     8  caught      how many of the asker's pushes to the shard its guard has refused or clipped
//	    49     8  limit       float64: the largest norm that the guard takes as it is in the round after this value's; 0: any
//	    57    29  norms       of the newest round in it, see Norms
//	    86     8  weight      float64: sum of the weights of the contributions in the newest round; those that the guard refused are left out
//	    94     8  examples    sum of their examples
//
// Payload: the values. Missed and lead are 0 in dist_sync and for keys of rows, limit, norms,
// weight and examples are for keys of rows. Introduced in version 1, examples in version 3.
type Value struct {
	Generation uint64
	Round      uint64
	Codec      uint8
	N          uint64
	Missed     uint64
	Lead       uint64
	Caught     uint64
	Limit      float64
	Norms      Norms
	Weight     float64
	Examples   uint64
}

// Norms is what a server measured of a shard's gradients in one round: all zeros if it did not.
// With s the sum of the gradients of the m examples of a micro-gradient, meansqr is (Σ ‖s‖²/m) / Σ
// m, and sqrmean is ‖Σ s‖² / (Σ m)². Those of a key are the sums over its shards.
//
//	offset  size  field
//	     0     4  count       micro-gradients; 0: the round was not measured
//	     4     1  biased      there was one: the other is the gradient of the round before
//	     5     8  examples    float64: Σ m
//	    13     8  meansqr     float64; like sqrmean not finite if a gradient was not
//	    21     8  sqrmean     float64
type Norms struct {
	Count    uint32
	Biased   bool
	Examples float64
	MeanSqr  float64
	SqrMean  float64
}

// PushRows carries one worker's gradient for some rows of one shard. A contribution may have no
// rows.
//
//	offset  size  field
//	     0    40  origin
//	    40     8  round
//	    48     4  weight      float32
//	    52     8  rows        number of rows
//	    60     4  wait        milliseconds
//	    64     1  counted     as of Push
//	    65    39  step        as of Push; measure is CodeUnsupported
//	   104     8  examples    as of Push
//
// Payload: rows int64, the shard's row numbers, strictly increasing; then rows × rowlen float32.
// Answer: Ack. Rows of an open vocabulary are named by their IDs, which increase as unsigned
// numbers; those that are new are made, and CodeFull refuses all of the contribution if they would
// be more than the key or the server may have. Introduced in version 1, examples in version 3.
type PushRows struct {
	Origin
	Round      uint64
	Weight     float32
	Rows       uint64
	WaitMillis uint32
	Counted    bool
	Step       Step
	Examples   uint64
}

// PullRows asks for rows of one shard, as Pull does for a dense one.
//
//	offset  size  field
//	     0    40  origin
//	    40     8  round
//	    48     8  rows        number of rows
//	    56     4  wait        milliseconds
//	    60     8  staleness
//
// Payload: rows int64, the shard's row numbers, or IDs, in any order. Answer: Value with rows ×
// rowlen values in the same order. A row of an open vocabulary to which no worker has pushed has
// its first value, and is not made. Introduced in version 1.
type PullRows struct {
	Origin
	Round      uint64
	Rows       uint64
	WaitMillis uint32
	Staleness  uint64
}

// SetOptimizer gives a server the update rule: JSON of optim.Config, decoded strictly. Every worker
// sends it; the first counts, the same again is acknowledged and keeps all state, another one is
// CodeConflict. Key and shard of the origin are 0. Mode is the type of the sender's store, and
// Guard the JSON of its guard; servers refuse different modes or guards in one job with
// CodeConflict.
//
//	offset  size  field
//	     0    40  origin
//	    40     1  mode        ModeSync, ModeAsync or ModeAnyOrder
//	    41     .  config      string, JSON; empty: only mode and guard are set
//	     .     .  guard       string: JSON of shard.Guard, decoded strictly; empty: none
//
// Answer: Ack. Introduced in version 1.
type SetOptimizer struct {
	Origin
	Mode   uint8
	Config string
	Guard  string
}

// The modes of aggregation.
const (
	ModeSync  uint8 = 1
	ModeAsync uint8 = 2
	// ModeAnyOrder: rounds as in ModeSync, contributions added as they come.
	ModeAnyOrder uint8 = 3
)

// SetRate sets the learning rate of all rounds from Round on, in place of the optimizer's own and
// its schedule's; a later one replaces an earlier one. CodeConflict if a key has already closed
// that round. Answer: Ack.
//
//	offset  size  field
//	     0    40  origin      key and shard 0
//	    40     8  round
//	    48     8  rate        float64
//
// Introduced in version 1.
type SetRate struct {
	Origin
	Round uint64
	Rate  float64
}

// ReadState asks for the whole state of a shard, once at least Round rounds have closed. Answer:
// State.
//
//	offset  size  field
//	     0    40  origin
//	    40     8  round
//	    48     4  wait        milliseconds
//
// Introduced in version 1.
type ReadState struct {
	Origin
	Round      uint64
	WaitMillis uint32
}

// State is a shard's value and the optimizer's slots for it.
//
//	offset  size  field
//	     0     8  generation
//	     8     8  round       rounds closed
//	    16     8  n           values of the shard
//	    24     .  config      string: the optimizer's JSON; empty: none
//	     .     .  slots       list of strings: names; each slot has n values
//
// Payload: the value, then the slots in order, float32. Introduced in version 1.
type State struct {
	Generation uint64
	Round      uint64
	N          uint64
	Config     string
	Slots      []string
}

// WriteState replaces the state of a shard, creating it if needed; rank 0 sends it in a load.
// Contributions held for open rounds are dropped, and the next round is Round. Answer: Ack.
//
//	offset  size  field
//	     0     .  init        an InitShard without payload of its own
//	     .     8  round       rounds closed
//	     .     .  slots       list of strings
//
// Payload: the value, then the slots in order, float32. Introduced in version 1.
type WriteState struct {
	Init  InitShard
	Round uint64
	Slots []string
}
