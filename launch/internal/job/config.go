package job

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"time"

	"github.com/paragon-train/paragon/internal/hosts/agent"
	"github.com/paragon-train/paragon/internal/hosts/gpus"
	"github.com/paragon-train/paragon/internal/hosts/hosts"
	"github.com/paragon-train/paragon/internal/hosts/lines"
	"github.com/paragon-train/paragon/internal/hosts/process"
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

// Places are the hosts of a job.
type Places struct {
	// Workers and Servers say by rank where each runs.
	Workers, Servers []hosts.Host
	// Hosts are those on which workers may run, within their slots; nil: those of Workers.
	Hosts []hosts.Host
	// ServerHosts are those on which more servers may run; nil: Hosts.
	ServerHosts []hosts.Host
	// SchedulerHost is nil for the launching machine.
	SchedulerHost *hosts.Host
}

// Times bound what may take long.
type Times struct {
	// StartTimeout is for reaching all hosts, and for the job to be complete: 5 min.
	StartTimeout time.Duration
	// HostTimeout is for how long a host may hear nothing from the launcher: then it ends its
	// processes. 0: hosts do not end for that.
	HostTimeout time.Duration
	// StopTimeout is from SIGTERM to SIGKILL: 4 s.
	StopTimeout time.Duration
	// FinishTime is for servers and scheduler to end after the last worker did: 3 s.
	FinishTime time.Duration
	// CheckpointTime is for the checkpoint with which SIGUSR1 stops the job: 100 s.
	CheckpointTime time.Duration
}

// Config says what to run. Fields without a default must be set.
type Config struct {
	Places
	Times
	// Elastic says how processes may come and go.
	Elastic Elastic

	// Command is the workers' program and its arguments.
	Command []string
	// OwnCommand says that Command are arguments of the launch program, as Role's are.
	OwnCommand bool
	// Role are the arguments that make the launch program a scheduler or server.
	Role []string
	// Dir is the working directory of servers and workers on their hosts; empty: that of the
	// agent.
	Dir string
	// Env has NAME=VALUE for every process, ServerEnv and WorkerEnv for those alone.
	Env, ServerEnv, WorkerEnv []string
	// GPUs are those of each worker.
	GPUs gpus.Request

	// Dial connects to a host of the hosts file, and prepares it; nil: everything runs on the
	// launching machine. Local connects to that.
	Dial  func(ctx context.Context, h hosts.Host) (Machine, error)
	Local func(ctx context.Context) (Machine, error)
	// Listening, if set, is called once the scheduler listens; what it returns is called when
	// the job has ended.
	Listening func(w Where) (ended func(), err error)
	// Observer may be nil.
	Observer Observer

	// MetricsListen is the address, host:port, on which the scheduler's host serves the job's
	// metrics to Prometheus; empty: nowhere.
	MetricsListen string
	// HostIP is the scheduler's address; empty: one that all hosts reach.
	HostIP string
	// Interface is the DMLC_INTERFACE of all processes.
	Interface string
	// TLS says that processes on different hosts encrypt what they say, and show each other
	// certificates of the job.
	TLS bool

	// ResumeAsked says that PARAGON_RESUME was set for the workers from the beginning: the job
	// goes on from whatever is in its folder.
	ResumeAsked bool
	// ResumeCommand starts the job again so that it resumes, for people; empty: not known.
	ResumeCommand string
	// restarts is how often the job was started again, run the ID that all of them share.
	restarts int
	run      string

	// Interrupts stop the job: the first by SIGTERM, the next by SIGKILL; SIGUSR1 does with a
	// checkpoint.
	Interrupts <-chan os.Signal
	Output     *lines.Merger
	// Logger is slog.Default() if it is nil.
	Logger *slog.Logger
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
	if c.Observer == nil {
		c.Observer = nobody{}
	}
	if c.Output == nil {
		c.Output = lines.New(lines.Config{})
	}
	if c.run == "" {
		c.run, _ = newIdentity()
	}
	return nil
}

// Where says how to reach a job.
type Where struct {
	Job string
	// Scheduler is its host:port.
	Scheduler string
	// Credentials are the variables with the job's secrets, NAME=VALUE.
	Credentials []string
}
