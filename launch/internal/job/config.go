package job

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"syscall"
	"time"

	"github.com/paragon-train/paragon/internal/hosts/agent"
	"github.com/paragon-train/paragon/internal/hosts/gpus"
	"github.com/paragon-train/paragon/internal/hosts/hosts"
	"github.com/paragon-train/paragon/internal/hosts/lines"
	"github.com/paragon-train/paragon/internal/hosts/process"
	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/internal/observe/joblog"
)

// A Machine starts processes on one host. Its methods may be called together. When it closes, or
// the launcher dies, no process that it started is left.
type Machine interface {
	Start(ctx context.Context, spec process.Spec, out process.Output) (process.Handle, error)
	// Address is where processes there are reached by others: an IP address.
	Address() string
	// LauncherAddress is how the machine sees the launching one; empty on the launching machine
	// itself.
	LauncherAddress() string
	// Gone is closed when the machine is lost; so are the processes that it had.
	Gone() <-chan struct{}
	Close() error
}

// A Dismisser is a Machine whose host wants to know when an operator has removed it from the job.
// Dismiss is called after Close.
type Dismisser interface{ Dismiss() }

// DefaultCheckpointTime is that of Config.CheckpointTime: with the time that processes have to stop
// it is less than the 120 s before a time limit at which batch scripts ask for a signal.
const DefaultCheckpointTime = 100 * time.Second

// A leaver is a Machine that tells when its host is about to be taken away. Whoever calls Leaving
// sees to the processes there.
type leaver interface {
	Machine
	Leaving() <-chan agent.Notice
}

// Config says what to run. Fields without a default must be set.
type Config struct {
	Workers       []hosts.Host // by rank: where each runs
	Hosts         []hosts.Host // where more may run, within their slots; nil: where Workers do
	Servers       []hosts.Host // by rank
	ServerHosts   []hosts.Host // where more may run; nil: on Hosts
	SchedulerHost *hosts.Host  // nil: the launching machine

	Command []string // the workers' program and arguments
	// OwnCommand says that Command are arguments of the launch program, as Role's are.
	OwnCommand bool
	Role       []string // arguments that make the launch program a scheduler or server
	Dir        string   // working directory of servers and workers on their hosts; empty: that of the agent

	Env       []string // NAME=VALUE for every process
	ServerEnv []string // and for servers only
	WorkerEnv []string // and for workers only

	GPUs gpus.Request // of each worker

	// Dial connects to a host of the hosts file, and prepares it; nil: everything runs on the
	// launching machine. Local connects to that.
	Dial  func(ctx context.Context, h hosts.Host) (Machine, error)
	Local func(ctx context.Context) (Machine, error)

	Elastic Elastic // how processes may come and go

	// Listening, if set, is called once the scheduler listens; what it returns is called when
	// the job has ended.
	Listening func(w Where) (ended func(), err error)

	Watcher Watcher // may be nil

	// MetricsListen is the address, host:port, on which the scheduler's host serves the job's
	// metrics to Prometheus; empty: nowhere.
	MetricsListen string

	HostIP    string // the scheduler's address; default: one that all hosts reach
	Interface string // DMLC_INTERFACE of all processes
	TLS       bool   // processes on different hosts encrypt what they say, and show each other certificates of the job

	StartTimeout time.Duration // for reaching all hosts, and for the job to be complete: 5 min
	// HostTimeout is for how long a host may hear nothing from the launcher: then it ends its
	// processes. 0: hosts do not end for that.
	HostTimeout time.Duration
	StopTimeout time.Duration // from SIGTERM to SIGKILL: 4 s
	FinishTime  time.Duration // for servers and scheduler to end after the last worker did: 3 s
	// CheckpointTime is for the checkpoint with which SIGUSR1 stops the job: 100 s.
	CheckpointTime time.Duration

	// ResumeAsked says that PARAGON_RESUME was set for the workers from the beginning: the job
	// goes on from whatever is in its folder.
	ResumeAsked bool

	// ResumeCommand starts the job again so that it resumes, for people; empty: not known.
	ResumeCommand string

	restarts int    // how often the job was started again
	run      string // ID of the run, the same for all of them

	Interrupts <-chan os.Signal // each stops the job: the first by SIGTERM, the next by SIGKILL; SIGUSR1 with a checkpoint
	Output     *lines.Merger
	Logger     *slog.Logger // slog.Default()
}

func (c *Config) setDefaults() error {
	if len(c.Workers) == 0 {
		return fmt.Errorf("launch: a job needs a worker, got none")
	}
	if len(c.Command) == 0 {
		return fmt.Errorf("launch: no command for the workers")
	}
	for _, d := range []struct {
		field *time.Duration
		name  string
		value time.Duration
	}{
		{&c.StartTimeout, "start timeout", 5 * time.Minute},
		{&c.StopTimeout, "stop timeout", 4 * time.Second},
		{&c.FinishTime, "finish time", 3 * time.Second},
		{&c.CheckpointTime, "checkpoint timeout", DefaultCheckpointTime},
	} {
		switch {
		case *d.field == 0:
			*d.field = d.value
		case *d.field < 0:
			return fmt.Errorf("launch: %s is %s, want more than 0", d.name, *d.field)
		}
	}
	if err := c.Elastic.setDefaults(); err != nil {
		return err
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	if c.Hosts == nil {
		c.Hosts = slices.Clone(c.Workers)
		for i := range c.Hosts {
			c.Hosts[i].Slots = 0
		}
	}
	if c.ServerHosts == nil {
		c.ServerHosts = c.Hosts
	}
	if c.Watcher == nil {
		c.Watcher = nobody{}
	}
	if c.Output == nil {
		c.Output = lines.New(lines.Config{})
	}
	if c.run == "" {
		c.run, _ = newIdentity()
	}
	return nil
}

// A Node is one process of the job, and how it ended.
type Node struct {
	Role string // scheduler, server or worker
	Rank int    // its present or last rank; of a joining worker its number, until it has a rank
	Host string
	PID  int          // 0: it was never started
	Exit process.Exit // how it ended
	Last string       // its last line of output

	host        hosts.Host
	process     uint32 // unique in the job, also among processes that have ended
	number      int    // of a worker: how many workers were created before it; of a server: its rank
	machine     *machine
	goal        *access // of a preparation: what it is for
	started     time.Time
	ended       bool
	stopped     bool           // launch asked it to end, not because it failed
	signalled   bool           // launch sent it a signal
	owed        syscall.Signal // sent as soon as it has been started; 0: none
	joining     bool           // a worker or a server that has not joined yet
	early       bool           // it replaces a process that ended before the job was complete, and has its rank
	arriving    bool           // it is wanted, and not being started yet
	try         int            // of its host's connections, the one that it waits for
	prepare     bool           // its host is prepared before it is started there
	unwanted    fate           // it is being started, and not wanted any more
	awaited     bool           // it has ended, and the scheduler has not said yet what that means
	lossTold    bool           // people were told that it was lost
	leaving     bool           // it leaves the job, or left it, as asked
	member      bool           // a worker that is in the job, or was
	lost        bool           // a worker that was in the job; the job goes on without it
	lostMachine bool           // at the end of the job the connection to its machine was lost
	attempt     int            // how many times in a row it was started again
	fate        fate
}

// Where says how to reach a job.
type Where struct {
	Job         string
	Scheduler   string   // host:port
	Credentials []string // the variables with the job's secrets, NAME=VALUE
}

// Name is "worker 0", "server 1" or "scheduler".
func (n *Node) Name() string {
	switch n.Role {
	case roleScheduler:
		return n.Role
	case rolePrepare:
		return n.Role + " " + n.host.Name
	}
	return fmt.Sprintf("%s %d", n.Role, n.Rank)
}

// logged is what the log's events say of the node.
func (n *Node) logged() joblog.Node {
	return joblog.Node{Role: n.Role, Rank: n.Rank, Host: n.host.Name, Process: n.process}
}

// source is the node as its output names it.
func (n *Node) source() lines.Source { return lines.Source{Name: n.Name(), Role: n.Role, Rank: n.Rank} }

const (
	roleScheduler = "scheduler"
	roleServer    = "server"
	roleWorker    = "worker"
	rolePrepare   = "prepare" // not a process of the job: it prepares a host
)

// A Result is how a job ended.
type Result struct {
	Code  int // exit code: 0, that of the first process that failed, or 128 + the signal that stopped the job
	Nodes []*Node

	job        string
	phase      string             // control.Starting, Forming or Running
	signal     os.Signal          // that stopped it
	cancelled  bool               // its context ended
	stops      bool               // it was to stop with a checkpoint
	final      bool               // a worker says that no restart can mend its error
	failure    *control.Failure   // nil: it ended well, was cancelled, or failed for the culprit
	culprit    *Node              // whose exit decided the code
	lostHosts  []control.LostHost // hosts that were not reached
	changes    []control.Event
	restarts   int
	scales     int
	adaptation *control.Adaptation
	leftOut    [2]int // processes and changes
}
