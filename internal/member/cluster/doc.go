// Package cluster is a node's membership in a job: it joins through the scheduler, renews its
// lease, and follows the membership and its generation.
//
// A node is one process in one role. Join registers it and waits until the job is complete;
// meanwhile it logs whom it waits for, and after StartTimeout it returns an error. From then on the
// node sends heartbeats and watches the membership until Leave or Close. When the job fails or the
// scheduler declares the node lost, Done is closed, Err says why, and every wait of the node ends.
//
// The membership may change while the job runs. A worker that joins a running job (Config.Joining)
// is not a member until Ready returns. Members read Pending after each step. When a change is
// pending and all have agreed on the step after which it is made, each calls Arrive, with nothing
// under way; when Arrive returns it is a member of the next generation. A member that was asked to
// leave, or has asked to (AskLeave), gets ErrRemoved instead, and ends. Barriers, signals and
// declarations continue across such changes.
//
// A Node is the sum of parts, each with its own lock, which is held for no call to another process:
//
//	life         whether the node still takes part, and why not: it ends once
//	membership   the newest membership known, the node's rank and generation in it
//	peers        the Clients to servers and to workers of this host
//	report       what the heartbeats say of the process
//	reach        for how long the scheduler has not answered
//
// Every request to the scheduler may be repeated, after a lost answer and by a scheduler that was
// started again: ask does that until the node ends. Two goroutines tell whether the node still
// takes part, heartbeats and watch; everyone else learns it from life. When it has ended nobody
// gets a new Client, and the Clients that there are are closed.
//
//	cfg, err := cluster.FromEnv(os.Getenv)
//	node, err := cluster.Join(ctx, cfg)
//	defer node.Close()
//	node.Rank(), node.Membership().Workers, node.Server(0) // a Caller to the server of rank 0
package cluster

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/paragon-train/paragon/internal/observe/telemetry"
	"github.com/paragon-train/paragon/internal/observe/trace"
	"github.com/paragon-train/paragon/internal/store/transport"
)

// A NodeID is unique for the life of a job and never reused.
type NodeID uint64

// A Rank numbers the nodes of one role from 0; it may change with the generation.
type Rank uint32

// A Generation is a version of the membership.
type Generation uint64

// A Role is what a process does in a job.
type Role uint8

// The roles; their values are those of package wire.
const (
	Scheduler Role = 1
	Server    Role = 2
	Worker    Role = 3
)

func (r Role) String() string {
	switch r {
	case Scheduler:
		return "scheduler"
	case Server:
		return "server"
	case Worker:
		return "worker"
	}
	return fmt.Sprintf("role %d", uint8(r))
}

// A Place is a role and a rank in that role.
type Place struct {
	Role Role
	Rank Rank
}

// Config says which job a node joins, and in which role. FromEnv fills it from the environment;
// programs may fill it themselves.
type Config struct {
	Role Role
	// Scheduler is the host:port of the scheduler; in the scheduler, the address it listens on.
	Scheduler  string
	NumWorkers int
	NumServers int
	// Rank is the wanted rank within the role; -1: any.
	Rank int
	// Host is the name of this host, as in the hosts file; empty: os.Hostname.
	Host string
	// Listen is the address that servers listen on, and that others dial if it names a host;
	// empty: this host's address on the route to the scheduler, port 0.
	Listen string
	// Addr is the address of a server that others dial, from Listen.
	Addr string
	// Job is the job's ID. Run is that of its run, which outlives the job where launch starts
	// that again; empty: none. RunAgain says that it has.
	Job      string
	Run      string
	RunAgain bool
	// Process is the number that launch gave this process, never used again in the job; 0: it
	// was started by hand.
	Process uint32
	// PID is the process that people know this node by; 0: this one.
	PID int
	// Secret is the job's secret. It is empty only on loopback.
	Secret []byte

	// Identity is this process's certificate and key; nil: connections between hosts are not
	// encrypted. Either all nodes of a job have one or none.
	Identity *transport.Identity

	// HeartbeatInterval is how often nodes send a heartbeat, and Lease the silence after which
	// they are lost. Zero: 1 s and 10 s. Nodes use the scheduler's.
	HeartbeatInterval time.Duration
	Lease             time.Duration
	// StartTimeout is how long Join waits for the others; zero: 5 min.
	StartTimeout time.Duration
	// SchedulerTimeout is how long the scheduler may be unreachable before the node ends; zero:
	// Lease, or 10 min with State.
	SchedulerTimeout time.Duration

	// Joining (PARAGON_JOIN in the environment): the job may be running already. Then Join
	// returns before the node is a member; Ready makes it one.
	Joining bool

	// State is where the scheduler keeps its journal, so that it can be restarted: the path of
	// a file or etcd://host:port/prefix. Empty: nowhere. Other nodes only need to know whether
	// there is one.
	State string

	// Elastic is used by the scheduler; workers use AdaptWorkers and its limits.
	Elastic Elastic

	// ExpectedHosts says where nodes will be started, so that the scheduler can name the hosts
	// of missing nodes. Only the scheduler uses it; it may be nil.
	ExpectedHosts map[Place]string

	Measuring

	// Network is nil for transport.Auto.
	Network transport.Network
	// Logger is nil for slog.Default(), or JSON as the environment says (package joblog).
	Logger *slog.Logger
}

// Measuring says where a process puts what it measures.
type Measuring struct {
	// Recorder takes what the process measures, which its heartbeats carry; nil: Join makes
	// one, and connections made before are not counted.
	Recorder *telemetry.Recorder
	// Trace takes the spans of the process, and its clock is the node's; nil: Join makes one.
	Trace *trace.Recorder

	// Metrics is the address, host:port, of this process's own endpoint for Prometheus; empty:
	// none. With port 0 the system chooses one.
	Metrics string
}

// Elastic says how a job's membership may change while it runs.
type Elastic struct {
	// Enabled says that workers may join and leave.
	Enabled bool
	// OnWorkerLoss is what the loss of a worker does; empty: LossShrink where Enabled, else
	// LossFail.
	OnWorkerLoss LossPolicy
	// MinWorkers is how many there must be: with fewer the job fails, after a wait for workers
	// that are only silent. Zero: 1.
	MinWorkers int
	// MaxWorkers is how many there may be; zero: any number.
	MaxWorkers int
	// JoinTimeout is how long a joining worker may take until Ready; zero: 5 min.
	JoinTimeout time.Duration
	// RejoinTimeout is how long the job waits for a replacement, with LossWait or below
	// MinWorkers; zero: 5 min.
	RejoinTimeout time.Duration
	// AdaptWorkers says that the number of workers follows what rank 0 asks for, from
	// MinWorkers to MaxWorkers.
	AdaptWorkers bool
	// Rejoin is how often a worker that was lost is started again where it was.
	Rejoin int
	// Backups is how many backups every shard has, on other servers: 0 or 1.
	Backups int
}

// A LossPolicy says what the loss of a worker does to a running job.
type LossPolicy string

// The policies.
const (
	// LossFail: the job fails.
	LossFail LossPolicy = "fail"
	// LossShrink: the others go on, if there are at least MinWorkers. Nobody waits for the
	// replacement, but as far as Rejoin allows one is started and joins.
	LossShrink LossPolicy = "shrink"
	// LossWait: training pauses after the current step until a replacement has joined, for up
	// to RejoinTimeout.
	LossWait LossPolicy = "wait"
)
