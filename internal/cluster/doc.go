// Package cluster is a node's place in a job: it joins through the scheduler, keeps the lease alive, and knows the
// membership and its generation.
//
// A node is one process in one role. Join registers it, waits until the job is complete (or says whom it waits for, and
// gives up after StartTimeout), and from then on heartbeats and watches the membership until Leave or Close. When the job
// fails or the scheduler says that the node is lost, Done is closed and Err says why; every wait of the node ends with it.
//
// The membership may change while the job runs. A worker that joins a running job (Config.Joining) does not count until Ready
// returns. Members look at Pending after each step; when a change is pending and all have agreed on the step after which it
// is made, each calls Arrive, with nothing under way, and is a member of the next generation when it returns. A member that was
// asked to leave, or asked for that itself (AskLeave), gets ErrRemoved instead, and ends. Barriers, signals and declarations go on over such changes.
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

	"github.com/paragon-train/paragon/internal/transport"
)

// A NodeID is unique for the life of a job and never reused.
type NodeID uint64

// A Rank counts the nodes of one role from 0; it may change with the generation.
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

// A Place is a role and a rank in it.
type Place struct {
	Role Role
	Rank Rank
}

// Config says which job a node joins and as what. FromEnv fills it from the environment; programs may fill it themselves.
type Config struct {
	Role       Role
	Scheduler  string // host:port of the scheduler; in the scheduler, the address it listens on
	NumWorkers int
	NumServers int
	Rank       int    // wanted rank within the role; -1: any
	Host       string // name of this host, as in the hosts file; default: os.Hostname
	Listen     string // address servers listen on, and are reached at if it names a host; default: the address that reaches the scheduler, port 0
	Addr       string // of servers: what others reach it at, as Listen tells
	Job        string // the job's ID
	Process    uint32 // the number that launch gave this process, never used again in the job; 0: it was started by hand
	Secret     []byte // the job's secret; empty only on loopback

	// Identity is this process's certificate and key; nil: connections between hosts are not encrypted. All nodes of a job have
	// one, or none has.
	Identity *transport.Identity

	HeartbeatInterval time.Duration // 1 s; the scheduler's counts
	Lease             time.Duration // 10 s; the scheduler's counts
	StartTimeout      time.Duration // 5 min: how long Join waits for the others
	SchedulerTimeout  time.Duration // Lease, or 10 min where State is set: how long the scheduler may be out of reach before the node gives up

	// Joining says that the job may be running already. Join then returns before the node counts; Ready makes it count.
	Joining bool

	// State says where the scheduler keeps what it has decided, so that it can be started again: the path of a file or
	// etcd://host:port/prefix. Empty: nowhere. Other nodes only need to know that it is kept.
	State string

	Elastic Elastic // only the scheduler uses it

	// ExpectedHosts says where nodes should come up, so that the scheduler can name the hosts of those it waits for. Only
	// the scheduler uses it; it may be nil.
	ExpectedHosts map[Place]string

	Network transport.Network // transport.Auto
	Logger  *slog.Logger      // slog.Default()
}

// Elastic says how a job's membership may change while it runs.
type Elastic struct {
	Enabled       bool          // workers may join and leave
	OnWorkerLoss  LossPolicy    // "": LossShrink where Enabled, else LossFail
	MinWorkers    int           // 1: with fewer the job fails; a silent one is waited for before that
	MaxWorkers    int           // 0: any number
	JoinTimeout   time.Duration // 5 min: how long a worker that joins may take until it is ready
	RejoinTimeout time.Duration // 5 min: how long another worker is waited for, by LossWait and where there would be fewer than MinWorkers
	Backups       int           // of every shard, on other servers; 0 or 1
}

// A LossPolicy says what the loss of a worker does to a running job.
type LossPolicy string

// The policies.
const (
	LossFail   LossPolicy = "fail"   // the job fails
	LossShrink LossPolicy = "shrink" // those who live go on, if they are MinWorkers at least
	LossWait   LossPolicy = "wait"   // training stops at its next boundary until another worker has come, or RejoinTimeout is over
)
