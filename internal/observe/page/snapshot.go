package page

// What browsers get. Numbers that are not known, or are not finite, are null. Times are Unix
// milliseconds of the scheduler's clock; durations and sizes are in seconds and bytes. Texts are
// those of hosts and people: a page shows them as text, never as HTML.
//
//	GET /api/page    Page: what is shown here
//	GET /api/state   State: all that is known now; 503 Service Unavailable with a Gone if that is nothing
//	GET /api/events  server-sent events, each with one JSON document:
//	    state   State    first, and after the processes of the job, or the scheduler, have changed
//	    update  Update   each second: what replaces or extends the State before
//	    gone    Gone     instead of an update, each second: the scheduler does not answer; what was shown before is old
//	    end     Gone     the job has ended; nothing comes after it
//
// 1,024 workers: a State has 280 KB and an Update 140 KB, 85 bytes a worker and 35 KB for the last
// steps; 8 workers: 90 KB, the most of it curves, and 11 KB, the most of it the last steps.

// MaxSteps is how many steps a page has of each worker.
const MaxSteps = 20

// A Page says what the server shows, which does not change.
type Page struct {
	Kind string `json:"kind"` // KindJob or KindSearch

	// Name is that of a study. It is empty for a job, whose State has its name.
	Name string `json:"name"`

	// Command is what the workers run, as people read it; empty: it is not known.
	Command string `json:"command"`

	// Host is the one that launch runs on.
	Host string `json:"host"`

	Started int64 `json:"started_ms"`
}

// The kinds of Page.
const (
	KindJob    = "job"
	KindSearch = "search"
)

// A State is all that is known of a job.
type State struct {
	Update
	// The processes. A new State comes when they change, so that Updates need no names.
	// WorkerMembers are by rank, those without one last.
	WorkerMembers Members `json:"worker_members"`

	// ServerMembers are by rank.
	ServerMembers Members `json:"server_members"`

	LeftOut int    `json:"processes_left_out,omitempty"`
	Curves  Curves `json:"curves"`
	// EventList are the newest events, oldest first; the Events of an Update come behind them.
	EventList []Event `json:"event_list"`
}

// Members are the processes of a role, a column for each property, all of the same length.
type Members struct {
	// Node has the node IDs, none of which is ever used again.
	Node []uint64 `json:"node"`

	// Rank is -1 if there is none yet.
	Rank []int32 `json:"rank"`

	Host []string `json:"host"`
	PID  []uint32 `json:"pid"`

	// State is counts, joining, ready, leaving, removed, or gone, which is one that ended within
	// the last minute.
	State []string `json:"state"`
}

// An Update is what changes all the time. But for Point and Events it replaces what was there
// before.
type Update struct {
	// Name is the job's name. It is another one after launch has started the job again.
	Name string `json:"name"`

	Now int64 `json:"now_ms"`

	// Since is when the scheduler that answers began.
	Since int64 `json:"since_ms"`

	Incarnation uint64 `json:"incarnation"`
	Generation  uint64 `json:"generation"`
	Phase       string `json:"phase"`            // starting, forming, running, finished or failed
	Reason      string `json:"reason,omitempty"` // why the job failed

	Job     Totals       `json:"job"`
	Workers WorkerValues `json:"workers"`
	Servers ServerValues `json:"servers"`

	// Slow are the workers that others wait for, the worst first.
	Slow []Slow `json:"slow"`

	Waits []Wait `json:"waits"`

	// MoreWaits is how many are not in Waits.
	MoreWaits int `json:"more_waits,omitempty"`

	// Behind are sentences that say what blocks the job besides.
	Behind []string `json:"behind"`

	// Steps are the last steps of some workers, by rank.
	Steps []Timeline `json:"steps"`

	// Point is appended to the Curves; nil: there is nothing new.
	Point *Point `json:"point,omitempty"`

	Events []Event `json:"events,omitempty"` // new ones, oldest first
}

// Totals are of the whole job.
type Totals struct {
	// Workers counts those that are members.
	Workers int `json:"workers"`

	Servers         int    `json:"servers"`
	Step            Number `json:"step"`
	Epoch           Number `json:"epoch"`
	StepsASecond    Number `json:"steps_per_second"`
	ExamplesASecond Number `json:"examples_per_second"`
	GlobalBatch     Number `json:"global_batch"`

	// Loss is the mean of the workers' newest training losses.
	Loss Number `json:"loss"`

	LearningRate Number `json:"learning_rate"`

	// TestLoss is the loss of the newest evaluation.
	TestLoss Number `json:"test_loss"`

	TestAccuracy   Number  `json:"test_accuracy"` // 0 to 1
	Checkpoints    Number  `json:"checkpoints"`
	CheckpointAge  Number  `json:"checkpoint_age_seconds"`
	CheckpointTook Number  `json:"checkpoint_seconds"`
	Changes        Changes `json:"changes"`

	// Restarts is how often launch started the job again.
	Restarts int `json:"restarts"`
}

// Changes count the processes that came and went since this scheduler began.
type Changes struct {
	Joined  uint64 `json:"joined"`
	Left    uint64 `json:"left"`
	Lost    uint64 `json:"lost"`
	Removed uint64 `json:"removed"`
}

// WorkerValues are columns in the order of the workers' Members. Rates and times of a step are
// means of the last seconds.
type WorkerValues struct {
	// Age is how old these values are; null: none came.
	Age Numbers `json:"age_seconds"`

	Step     Numbers `json:"step"`
	Epoch    Numbers `json:"epoch"`
	Loss     Numbers `json:"loss"`
	Examples Numbers `json:"examples_per_second"`

	// StepTime is more than its parts, by checkpoints and by what nobody measures.
	StepTime Numbers `json:"step_seconds"`

	Compute Numbers `json:"compute_seconds"`
	Wait    Numbers `json:"wait_seconds"`
	Data    Numbers `json:"data_seconds"`

	// Last is the blame: the share of the last half minute's rounds to which this worker
	// contributed last.
	Last Numbers `json:"last_share"`

	// Gap is how long it came after the last but one, on average.
	Gap Numbers `json:"last_gap_seconds"`

	Sent     Numbers `json:"sent_bytes_per_second"`
	Received Numbers `json:"received_bytes_per_second"`
	// Details come in each tenth Update and in each State; else null, and those before are
	// still right.
	Details *WorkerDetails `json:"details"`
}

// WorkerDetails are columns that change slowly.
type WorkerDetails struct {
	Memory       Numbers `json:"memory_bytes"` // resident
	CPU          Numbers `json:"cpu_cores"`
	GradientNorm Numbers `json:"gradient_norm"`
	Staleness    Numbers `json:"staleness_mean"`
	StalenessMax Numbers `json:"staleness_max"`

	// GPUs are those of the workers that have some, by worker.
	GPUs []GPU `json:"gpus"`
}

// A GPU is one that a worker uses.
type GPU struct {
	Worker      int    `json:"worker"` // index in Members
	Index       int    `json:"index"`
	MemoryUsed  Number `json:"memory_used_bytes"`
	MemoryTotal Number `json:"memory_total_bytes"`
	Load        Number `json:"load"` // 0 to 1
	Temperature Number `json:"temperature_celsius"`
	Power       Number `json:"power_watts"`
}

// ServerValues are columns in the order of the servers' Members.
type ServerValues struct {
	Age Numbers `json:"age_seconds"`

	// Rounds are those of all its shards.
	Rounds Numbers `json:"rounds_per_second"`

	// RoundTime is from the first contribution to the close, on average.
	RoundTime Numbers `json:"round_seconds"`

	Waiting  Numbers `json:"waiting_requests"`
	Held     Numbers `json:"held_bytes"`  // contributions to open rounds
	Values   Numbers `json:"value_bytes"` // parameters
	Sent     Numbers `json:"sent_bytes_per_second"`
	Received Numbers `json:"received_bytes_per_second"`
	Memory   Numbers `json:"memory_bytes"`
	CPU      Numbers `json:"cpu_cores"`
}

// A Slow is a worker that the others wait for.
type Slow struct {
	Node uint64 `json:"node"`
	Rank int32  `json:"rank"`
	Host string `json:"host"`

	// Share is that of the rounds in which one worker came last by far.
	Share Number `json:"share"`

	// Gap is how long it came after the last but one.
	Gap Number `json:"gap_seconds"`

	Cause string `json:"cause,omitempty"` // compute, data or network
	Text  string `json:"text"`            // the sentence of launch ctl why
}

// A Wait is who waits at what for whom.
type Wait struct {
	Who     string `json:"who"` // "worker 0"
	At      string `json:"at"`  // "barrier epoch"
	For     string `json:"for"` // "worker 3"
	Seconds Number `json:"seconds"`
}

// A Timeline are the last steps of a worker, oldest first: columns of the same length. A step
// begins where the one before ended, or later; its end is when it was reported. Within it come
// data, compute, wait, save: a page may draw them in this order, and what is left as other.
type Timeline struct {
	Node uint64   `json:"node"`
	Rank int32    `json:"rank"`
	Step []uint64 `json:"step"`

	// End is in microseconds before or after Now, mostly negative: the time is Now·1000 + End.
	End []int64 `json:"end_us"`

	Total   Numbers `json:"total_seconds"`
	Compute Numbers `json:"compute_seconds"`
	Wait    Numbers `json:"wait_seconds"`
	Data    Numbers `json:"data_seconds"`
	Save    Numbers `json:"save_seconds"`
}

// Curves are the past. All lines share the times.
type Curves struct {
	// Times rise, but not evenly: each second of late, and up to a minute and more apart for older
	// ones.
	Times []int64 `json:"times_ms"`

	Lines []Line `json:"lines"`
}

// A Line is one curve.
type Line struct {
	ID string `json:"id"`

	// Values are by time; null: it was not known then, which is a gap.
	Values Numbers `json:"values"`
}

// The IDs of Lines. Those of a server have its rank behind the name and a slash:
// "server_sent_bytes_per_second/0"; there are those of the first 8 ranks. Those of metrics of one's
// own have their name there: "test_score/top5"; there are at most 12.
const (
	LineLoss         = "loss"
	LineTestLoss     = "test_loss"
	LineTestAccuracy = "test_accuracy"
	LineTestScore    = "test_score"
	LineLearningRate = "learning_rate"
	LineGradientNorm = "gradient_norm"
	LineExamples     = "examples_per_second"
	LineStepTime     = "step_seconds"
	LineCompute      = "compute_seconds"
	LineWait         = "wait_seconds"
	LineData         = "data_seconds"
	LineSent         = "server_sent_bytes_per_second"
	LineReceived     = "server_received_bytes_per_second"
)

// A Point is what the lines are at one more time. A line that it does not name has a gap there; one
// that is new has gaps before. If Time is not behind the newest of the Curves the point is the new
// value of that one.
type Point struct {
	Time int64 `json:"time_ms"`

	// Values are by ID.
	Values map[string]Number `json:"values"`
}

// An Event is something that happened to a host or a process.
type Event struct {
	Number uint64 `json:"number"`
	Time   int64  `json:"time_ms"`

	// Action is ADDED, LOST and so on, as in launch ctl.
	Action string `json:"action"`

	// Text is for people, with the action: "LOST worker 2 on h3 lost: signal 9 (killed)".
	Text string `json:"text"`
}

// A Gone says that no new values come.
type Gone struct {
	// Since is when the first request failed, by this machine's clock.
	Since int64 `json:"since_ms"`

	// Now is by the same clock.
	Now int64 `json:"now_ms"`

	// Newest is Now of the newest State or Update; 0: there is none.
	Newest int64 `json:"newest_ms"`

	// Error says why, for people. That of end says how the job ended.
	Error string `json:"error"`

	// Phase is that of end, finished or failed; empty: launch does not know.
	Phase string `json:"phase"`
}
