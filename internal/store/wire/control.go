package wire

// Ack says that a request was carried out.
//
//	offset  size  field
//	     0     8  generation  the receiver's
//	     8     8  revision    the scheduler's revision of the membership; from servers, in answers to InitShard and AwaitShard, how many rounds of the shard
//	                           have closed; else 0
//
// Introduced in version 1.
type Ack struct {
	Generation uint64
	Revision   uint64
}

// Nack says that a request was refused, and why. The connection stays usable.
//
//	offset  size  field
//	     0     2  code
//	     2     8  generation  the receiver's, so that a stale sender learns how far behind it is
//	    10     4  n           length of the text
//	    14     n  text        for people: what came, what was wanted, what to do
//
// Introduced in version 1.
type Nack struct {
	Code       Code
	Generation uint64
	Text       string
}

// The roles, as bytes.
const (
	RoleScheduler uint8 = 1
	RoleServer    uint8 = 2
	RoleWorker    uint8 = 3
)

// Register asks the scheduler for membership. A node sends it first, and again after a reconnect
// with the node ID it got. Answer: Registered. CodeConflict if the number of workers or servers
// differs from the scheduler's, or if the rank is taken by another living node.
//
//	offset  size  field
//	     0     8  node        0: a new node; else the ID it was given
//	     8     1  role
//	     9     4  rank        wanted rank within the role (int32); -1: any
//	    13     4  workers     number of workers it was told of
//	    17     4  servers     number of servers it was told of
//	    21     4  pid
//	    25     4  process     number that the launcher gave the process, never used again in the job; 0: it was started by hand
//	    29     8  nonce       drawn once by the process, so that its registration, sent again after a lost answer, is known again
//	    37     1  joining     the job may be running already: the node counts only once it is ready and a change was committed
//	    38     .  job         string: the job's ID
//	     .     .  host        string: for people, as in the hosts file
//	     .     .  addr        string: host:port others reach it at; of a worker, "host:port#id", at which the workers with the same host and the same
//	                          id, which is the host's own, hand it gradients for their common sum; empty: it takes no part in that
//
// Repeating it with the same node, or as a new node with the same nonce, is harmless. Introduced in
// version 1.
type Register struct {
	Node    uint64
	Role    uint8
	Rank    int32
	Workers uint32
	Servers uint32
	PID     uint32
	Process uint32
	Nonce   uint64
	Joining bool
	Job     string
	Host    string
	Addr    string
}

// Registered gives a node its ID, unique for the life of the job, and the times it must keep.
//
//	offset  size  field
//	     0     8  node
//	     8     4  heartbeat   milliseconds between heartbeats
//	    12     4  lease       milliseconds of silence after which the node counts as lost
//
// Introduced in version 1.
type Registered struct {
	Node            uint64
	HeartbeatMillis uint32
	LeaseMillis     uint32
}

// Watch asks the scheduler for the membership as soon as its revision is above the one the node
// knows, or when the wait is over (then with the old revision). Answer: Membership.
//
//	offset  size  field
//	     0     8  node
//	     8     8  revision    the newest the node knows; 0: none
//	    16     4  wait        milliseconds, at most 60,000
//
// Introduced in version 1.
type Watch struct {
	Node       uint64
	Revision   uint64
	WaitMillis uint32
}

// The phases of a job.
const (
	// PhaseForming: nodes are missing; Membership.Waiting names them.
	PhaseForming uint8 = 1
	PhaseRunning uint8 = 2
	// PhaseFinished: all workers left; servers end.
	PhaseFinished uint8 = 3
	// PhaseFailed: Membership.Reason says why; everyone ends.
	PhaseFailed uint8 = 4
)

// Membership describes the job. The generation goes up by one when other nodes count: at once when
// one is lost, with the ranks of the others as they were, and again when a change is committed (see
// Arrive), which makes ranks dense and lets nodes join. The revision goes up with all that a
// Membership says, also the phase and the nodes.
//
// A worker that is done and has left is no longer among the nodes, while the generation, the ranks
// of the others and the number of workers do not change: rounds and barriers close over the listed
// members, and requests under way in this generation stay valid. A lost worker is no longer among
// the nodes of the generation that its loss makes, and is in LostToCount from the time on at which
// the servers are to tell what they have of it.
//
//	offset  size  field
//	     0     8  generation  0 while forming
//	     8     8  revision
//	    16     1  phase
//	    17     4  workers     how many the job has (forming: wants)
//	    21     4  servers
//	    25     .  reason      string: why it failed
//	     .     .  waiting     list of strings: "worker 1 on d2 (12 s)"
//	     .     .  nodes       list of Member
//	     .     8  change      number of the change that is pending; 0: none
//	     .     8  placement   counts the times that plans were issued anew
//	     .     4  backups     of every shard
//	     .     .  lost        list of uint64: lost workers of which every server tells with LostExamples
//	     .     .  division    a Division
//	     .     1  stopping    the job stops: all workers write a checkpoint after a step that they agree on, say Stopped, and leave
//
// A Member is node 8, role 1, rank 4 (int32), pid 4, state 1, host string, addr string. Members
// come sorted by role, then by rank; joining nodes have rank -1 and come last. A Division is epoch
// 8, steps 8, cuts: list of Cut; change 8, step 8, stop 1, order string. A Cut is parts 4, used:
// list of uint64. Introduced in version 1; stopping in version 2, order in version 3.
type Membership struct {
	Generation  uint64
	Revision    uint64
	Phase       uint8
	Workers     uint32
	Servers     uint32
	Reason      string
	Waiting     []string
	Nodes       []Member
	Change      uint64
	Placement   uint64
	Backups     uint32
	LostToCount []uint64
	Division    Division
	Stopping    bool
}

// The states of a member.
const (
	MemberCounts uint8 = 0
	// MemberJoining: joining, and not ready.
	MemberJoining uint8 = 1
	// MemberReady: joining and ready; the next change makes it a member.
	MemberReady uint8 = 2
	// MemberLeaving: a member until the next change.
	MemberLeaving uint8 = 3
)

// Member is one node of a Membership.
type Member struct {
	Node  uint64
	Role  uint8
	Rank  int32
	PID   uint32
	State uint8
	Host  string
	Addr  string
}

// Counts reports whether rounds, barriers and changes wait for this member.
func (m *Member) Counts() bool { return m.State == MemberCounts || m.State == MemberLeaving }

// Division says which worker has which examples of an epoch. Examples, in the epoch's order, are
// first shared by the Parts of the first cut, of which part i used the first Used[i]; what remains
// after a cut are the unused ends of the shares, in the order of parts. What remains after the last
// cut is shared by the workers of the generation, part i for rank i. Used beyond the length of a
// share stands for all of it. An epoch after Epoch has no cuts.
type Division struct {
	// Epoch is the one to which the cuts belong.
	Epoch uint64 `json:"epoch"`
	// Steps is how many were done in all when the division was made.
	Steps uint64 `json:"steps"`
	Cuts  []Cut  `json:"cuts"`
	// Change is the number of the change that made the division; 0: none did.
	Change uint64 `json:"change"`
	// Step is the next one of Epoch.
	Step uint64 `json:"step,omitempty"`
	// Stop says that all workers agreed to stop at this step.
	Stop bool `json:"stop,omitempty"`
	// Order is the name of the order of the epoch's examples, as workers said it; empty: they
	// said none.
	Order string `json:"order,omitempty"`
}

// Cut is one point in an epoch at which what was left of it was divided anew.
type Cut struct {
	Parts uint32 `json:"parts"`
	// Used has what is used of each part.
	Used []uint64 `json:"used"`
}

// Heartbeat renews a node's lease and reports its progress. Answer: Beat.
//
//	offset  size  field
//	     0     8  node
//	     8     8  generation
//	    16     8  step        last step finished (workers), rounds closed (servers)
//	    24     8  epoch
//	    32     4  length      of the adaptation, at most MaxAdaptation
//	    36     n  adaptation  what a worker that adapts its batch size says of itself, as JSON (control.Adaptation); empty: nothing
//	     .     8  sent        the node's clock when it sent this, in nanoseconds of Unix time (int64)
//	     .     4  length      of the record, at most MaxRecord
//	     .     n  record      what the process measures of itself (telemetry.Record); empty: nothing
//	     .     4  waits       milliseconds that the longest of the worker's calls has waited for others; 0: none has waited for long
//	     .     4  length      of the call, at most MaxWaitText
//	     .     n  call        that call; empty: there is none
//	     .     4  length      of whom it waits for, at most MaxWaitText
//	     .     n  waitsfor    whom it waits for
//
// The scheduler keeps the newest adaptation of rank 0. Introduced in version 1; sent, record and
// the answer in version 2; waits, call and waitsfor in version 3.
type Heartbeat struct {
	Node       uint64
	Generation uint64
	Step       uint64
	Epoch      uint64
	Adaptation string
	Sent       int64
	Record     []byte

	WaitsMillis uint32
	Call        string
	WaitsFor    string
}

// Beat is the answer to Heartbeat.
//
//	offset  size  field
//	     0     8  generation   the scheduler's
//	     8     8  revision     the newest of the membership
//	    16     8  incarnation  another number after each start of the scheduler
//	    24     8  at           the scheduler's clock when it took the heartbeat, in nanoseconds of Unix time (int64)
//	    32    24  window       in which the node records spans, see TraceWindow; all zero: none
//
// The scheduler's clock minus the node's is at minus the middle between sent and the time the
// answer came, and wrong by at most half of the time between the two.
//
// A node records spans from the window's start on. A worker ends with its steps, every node with
// the window's time, and at the latest when a Beat no longer names the window. Then it sends the
// spans as TraceChunks. Introduced in version 2.
type Beat struct {
	Generation  uint64
	Revision    uint64
	Incarnation uint64
	At          int64
	Window      TraceWindow
}

// TraceWindow is a time in which nodes record spans.
//
//	offset  size  field
//	     0     8  id
//	     8     8  start   the scheduler's clock, in nanoseconds of Unix time (int64)
//	    16     4  steps   that a worker records, and one more, since they do not begin at the same time; 0: as long as the window takes
//	    20     4  limit   milliseconds from the start, after which all nodes end
//
// Introduced in version 2.
type TraceWindow struct {
	ID          uint64
	StartAt     int64
	Steps       uint32
	LimitMillis uint32
}

// TraceChunk carries spans that a node has recorded in a window. Answer: Ack; CodeNoTrace if nobody
// collects them (the asker is gone, or the scheduler was started again), CodeFull if the scheduler
// has no more room, CodeMalformed for another sequence number than the next one: the node then
// drops its spans.
//
//	offset  size  field
//	     0     8  id      of the window
//	     8     8  node
//	    16     4  seq     number of the chunk, from 0
//	    20     1  last    whether it is the node's last one
//	    21     8  dropped spans that the node had no room for
//	    29     8  offset  the scheduler's clock minus the node's, of which the times of the spans are, in nanoseconds (int64)
//	    37     8  bound   how wrong that may be, in nanoseconds (int64)
//	    45     4  length  of the data, at most MaxTraceChunk
//	    49     n  data    the spans, as package internal/observe/trace has them; only the last chunk may have none
//
// Repeating a chunk after a lost answer is harmless. Introduced in version 2.
type TraceChunk struct {
	ID          uint64
	Node        uint64
	Seq         uint32
	Last        bool
	Dropped     uint64
	ClockOffset int64
	ClockBound  int64
	Data        []byte
}

// Ready says that a joining worker can take part: the next change makes it a member. Answer: Ack
// once it is one, or CodeTimeout, whose text names whom the change waits for. Repeating it is
// harmless.
//
//	offset  size  field
//	     0     8  node
//	     8     4  wait        milliseconds
//
// Introduced in version 1.
type Ready struct {
	Node       uint64
	WaitMillis uint32
}

// Arrive says that a worker is at the boundary at which the pending change is made: it has nothing
// under way, and contributes to nothing until the answer. Answer: Ack once the change was
// committed, which it is when all workers that count have arrived and lost ones are settled;
// CodeTimeout, whose text names who is missing; or, for a worker that was asked to leave,
// CodeRemoved. Repeating it after a lost answer is harmless. All workers that arrive at a change
// say the same, but for node and used.
//
//	offset  size  field
//	     0     8  generation
//	     8     8  node
//	    16     8  change      Membership.Change
//	    24     8  steps       done in all
//	    32     8  epoch       in which the next step is
//	    40     8  step        of the epoch, the next one
//	    48     8  used        examples of its share of this division that its steps of the epoch used, all of them accepted by the servers
//	    56     1  stop        all workers agreed to stop at this step
//	    57     4  wait        milliseconds
//	    61     .  earlier     list of uint64, by part of the division: examples that its worker used since the division was made, in
//	                          epochs before this one; empty: none
//	     .     .  resumed     list of uint64, by part: how many of the examples used of its share were used before this job, by the run
//	                          that it resumes; empty: none
//	     .     .  cuts        list of Cut: those of the epoch that were made before this job; taken until the job's first change
//	     .     .  order       string: the name of the order of the epochs' examples; empty: the workers share no examples
//
// The scheduler adds up what each worker has used. Of a worker that was lost the servers tell the
// sum (see LostExamples): what is beyond the examples used before this division is what it used of
// its share. Introduced in version 1, order in version 3.
type Arrive struct {
	Generation uint64
	Node       uint64
	Change     uint64
	Steps      uint64
	Epoch      uint64
	Step       uint64
	Used       uint64
	Stop       bool
	WaitMillis uint32
	Earlier    []uint64
	Resumed    []uint64
	Cuts       []Cut
	Order      string
}

// LostExamples reports how many examples of a lost worker (Membership.LostToCount) all shards of a
// server have: the least, over its shards, of the sums of examples of the contributions that count
// them (Push.Counted). Answer: Ack. Repeating it is harmless; the first one counts. A report under
// another placement than the scheduler's is acknowledged and ignored: the server will learn of the
// new placement and report again, because newly promoted shards lack contributions to open rounds.
//
//	offset  size  field
//	     0     8  node        the server
//	     8     8  placement   Membership.Placement under which it counted
//	    16     8  lost        the worker
//	    24     8  examples    MaxUint64: no shard here ever had a contribution that counts examples
//
// Introduced in version 1.
type LostExamples struct {
	Node      uint64
	Placement uint64
	Lost      uint64
	Examples  uint64
}

// Control is a request to the scheduler from people's tools, which are not nodes. Package
// internal/member/control has the requests. Answer: Report, or CodeMalformed.
//
//	offset  size  field
//	     0     .  request     string, JSON
//
// Introduced in version 1.
type Control struct {
	Request string
}

// Report is the answer to Control.
//
//	offset  size  field
//	     0     .  answer      string, JSON, of any length that fits a head
//
// Introduced in version 1.
type Report struct {
	Answer string
}

// AskLeave asks to leave the job while the others go on. The worker leaves at the next change, when
// its Arrive is answered with CodeRemoved; a joining worker may leave at once. Answer: Ack; or
// CodeConflict, whose text says why the job cannot go on without it, or that the whole job is being
// stopped. Repeating it is harmless.
//
//	offset  size  field
//	     0     8  node
//	     8     .  reason      string, why it leaves, for people
//
// Introduced in version 1.
type AskLeave struct {
	Node   uint64
	Reason string
}

// Stopped says that a worker ends because the job stops (Membership.Stopping), and what the job can
// go on from. The scheduler keeps the first one with a checkpoint, and passes it on to the
// launcher. Answer: Ack. Repeating it is harmless.
//
//	offset  size  field
//	     0     8  node
//	     8     8  steps       of the job's checkpoint that is complete now; 0: this worker knows of none
//	    16     .  reason      string, why there is none, for people
//
// Introduced in version 2.
type Stopped struct {
	Node   uint64
	Steps  uint64
	Reason string
}

// Leave says that a node ends. A worker that leaves with OK no longer counts at barriers and
// rounds; when the last worker has left, the job is finished. With OK false the job fails with the
// reason. Answer: Ack.
//
//	offset  size  field
//	     0     8  node
//	     8     1  ok
//	     9     .  reason      string
//	     .     4  length      of the record, at most MaxRecord
//	     .     n  record      the last one, as in Heartbeat; empty: none
//
// Introduced in version 1; record in version 2.
type Leave struct {
	Node   uint64
	OK     bool
	Reason string
	Record []byte
}

// Barrier waits until every worker of the generation has sent the same name. Answer: Ack when the
// last one came, or CodeTimeout, whose text names who is missing. Repeating it after a lost answer
// is harmless: names are used once (the sender numbers them), and the scheduler remembers the
// closed ones of this job.
//
//	offset  size  field
//	     0     8  generation
//	     8     8  node
//	    16     4  wait        milliseconds
//	    20     .  name        string
//
// Introduced in version 1.
type Barrier struct {
	Generation uint64
	Node       uint64
	WaitMillis uint32
	Name       string
}

// Signal marks a name as happened, with a value; Await waits for the mark. Rank 0 uses them to tell
// the others that a load is complete, and what it broadcasts. The first signal of a name counts.
// Answer to Signal: Ack, or CodeFull if the values that the scheduler keeps would be too long.
// Answer to Await: Signalled, or CodeTimeout.
//
//	offset  size  field (Signal)
//	     0     8  node
//	     8     .  name        string
//	     .     .  value       string, of any length that fits a head
//
// Introduced in version 1.
type Signal struct {
	Node  uint64
	Name  string
	Value string
}

// Await waits for a Signal of the same name.
//
//	offset  size  field
//	     0     8  node
//	     8     4  wait        milliseconds
//	    12     .  name        string
//
// Introduced in version 1.
type Await struct {
	Node       uint64
	WaitMillis uint32
	Name       string
}

// Signalled is the answer to Await.
//
//	offset  size  field
//	     0     .  value       string: that of the signal, of any length that fits a head
//
// Introduced in version 1.
type Signalled struct {
	Value string
}

// The forms of a key.
const (
	FormDense uint8 = 1
	FormRows  uint8 = 2
	// FormOpen: rows of an open vocabulary: each named by a 64-bit ID and made when it is first
	// pushed to.
	FormOpen uint8 = 3
)

// The rules by which a closed round changes a key's value.
const (
	// RuleOptimizer: the job's optimizer; while there is none, the sum replaces the value.
	RuleOptimizer uint8 = 1
	// RuleAverage: the sum over the sum of weights replaces the value, whatever the optimizer.
	RuleAverage uint8 = 2
)

// Declare asks the scheduler to place a key. The first declaration makes the plan; later ones get
// the same. Answer: KeyPlan. CodeSize if form, rule, size or row length differ from the first
// one's: the text names the key, both nodes and both sizes.
//
//	offset  size  field
//	     0     8  generation
//	     8     8  node
//	    16     1  form
//	    17     1  rule
//	    18     8  size        number of values, all rows together
//	    26     8  rowlen      values of one row; 0 for a dense key
//	    34     1  whole       the key must not be cut (optimizers that need norms of whole keys)
//	    35     .  name        string, 1 to MaxKeyName bytes
//	     .     .  table       string: what InitShard says of it; all workers say the same, else CodeConflict
//
// A key of an open vocabulary has size 0.
//
// Introduced in version 1.
type Declare struct {
	Generation uint64
	Node       uint64
	Form       uint8
	Rule       uint8
	Size       uint64
	RowLen     uint64
	Whole      bool
	Name       string
	Table      string
}

// MaxKeyName is the longest name of a key, in bytes.
const MaxKeyName = 1024

// KeyPlan says where the shards of one key are. It is the same on all nodes.
//
// A dense key's shard i holds Length values from Offset on; shards are in order of offset and cover
// the key. Of a key of R rows over n shards, row r is row q = r / n of shard (r + t) mod n, where t
// is the upper half of the 128-bit product of n and mix(q), but 0 in the last group of n rows if it
// is not whole; Offset is the shard's index and Length its number of values. mix(x) is SplitMix64's
// finaliser of x + 0x9e3779b97f4a7c15. Of an open vocabulary over n shards, the row of an ID
// belongs to the shard that is the upper half of the product of n and mix(ID); Offset is the
// shard's index, and size and Length are 0.
//
//	offset  size  field
//	     0     8  key         ID, from 0, unique for the life of the job
//	     8     1  form
//	     9     1  rule
//	    10     8  size
//	    18     8  rowlen
//	    26     8  hash        of this plan and all of lower ID: nodes with equal hashes hold equal plans
//	    34     .  name        string
//	     .     .  shards      list of server 4 (rank), offset 8, length 8
//
// Introduced in version 1.
type KeyPlan struct {
	Key    uint64
	Form   uint8
	Rule   uint8
	Size   uint64
	RowLen uint64
	Hash   uint64
	Name   string
	Shards []ShardPlace
}

// ShardPlace is one shard of a KeyPlan.
type ShardPlace struct {
	Server uint32
	Offset uint64
	Length uint64
}
