package tune

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/paragon-train/paragon/internal/observe/joblog"
	"github.com/paragon-train/paragon/tune/internal/elastic"
	"github.com/paragon-train/paragon/tune/internal/slots"
	"github.com/paragon-train/paragon/tune/internal/trialjob"
	"github.com/paragon-train/paragon/tune/jobs"
)

// Jobs is a Runner that runs each trial as a separate job of workers, servers and a scheduler. The
// launch program starts it on this machine or, over ssh, on hosts. Processors and GPUs are
// allocated to one trial at a time.
//
// The workers run this same program: in each of them tune.Run runs the trainable once and returns,
// and kvstore.Create in the trainable joins the trial's job. All workers report the same steps.
// Rank 0's reports count, and all workers get the same answer, so they stop after the same step. A
// program that does not call tune.Run prints its metrics, one report on each line of rank 0's
// standard output,
//
//	accuracy=0.91 loss=0.3 step=5
//
// and is terminated when the trial must stop.
//
// A job that has not started within Resources.StartTimeout, a killed process and a lost host are
// failures of class NodeLost: the trial is retried from its newest checkpoint. A host that fails a
// trial, or cannot be reached, is set aside: no trials start there. While the search runs it is
// probed at growing intervals, up to a minute, and taken back when it answers. A trial that did not
// begin because a host could not be reached is tried elsewhere (class HostUnreachable).
//
// With an Allocator as the study's scheduler (schedule.Goodput) trials are elastic jobs: their
// replicas come and go while they train, and Hosts and Slots of Resources are left out. On hosts
// CPUsPerSlot may be zero then: replicas share the processors, and slots= says how many there are.
//
// Set the fields before the search begins.
type Jobs struct {
	// Resources are those of one trial; Config.Resources, if any field of it is set, replaces
	// them. Hosts times Slots workers are spread evenly over Hosts different nodes. Zero
	// Servers is one server.
	Resources Resources
	// HostFile names the hosts, one on each line, as for launch:
	//
	//	[user@]host[:port] [slots=N] [gpus=N] [cpus=N]
	//
	// slots is how many workers of trials run there at a time (without it as many as processors
	// and GPUs allow), gpus how many of its GPUs trials may use (0: none) and cpus how many of
	// its processors (without them all). "" is this machine alone.
	HostFile string
	// HostTimeout is how long a search waits when no host is left for a trial. Then it ends
	// with an error that names the hosts, and can be resumed. Zero is 10 minutes.
	HostTimeout time.Duration
	// Cluster has the nodes on which trials run, nil: they run on this machine, or
	// on the hosts of HostFile. Not for elastic trials.
	Cluster *jobs.Cluster
	// Folder is where trials run on hosts; the current folder is copied there for each trial,
	// without the folders of the study and of others beside it. "" is a folder with the path of
	// the current one, which must exist there.
	Folder string
	// MaxCopied bounds the bytes of one checkpoint that a host copies to this machine
	// (Reporter.Checkpoint); a larger one is an error in the trial. Zero is 64 GiB.
	MaxCopied int64
	// Address is the one at which hosts and nodes reach this machine. It is required with
	// HostFile and Cluster.
	Address string
	// Command is the command of the workers; nil is this program with its arguments.
	Command []string
	// CommandFor, if not nil, makes the command of a trial's attempt from Command.
	CommandFor func(command []string, a Attempt) ([]string, error)
	// Checkpoints says that the command, which does not call tune.Run, can go on from a
	// checkpoint. CommandFor gets a folder for it, Attempt.Checkpoint. The command goes on from
	// the files that it finds there, if any, and writes there, each file under another name
	// that it then renames, before it prints a line with metrics. With each report the files
	// are kept as the checkpoint of its step. With HostFile the folder is a temporary one,
	// which all workers of the trial on a host share, and launch copies its files between the
	// host and the search. Where the trial has several hosts (Resources.Hosts) all of them
	// begin with the same files. A checkpoint has the files of rank 0's host, and what the
	// workers on the others have written under names of their own, as worker.Fit does. Where
	// some of it is missing the checkpoint before stays.
	Checkpoints bool
	// NoServers runs each trial as one process, without servers and scheduler.
	NoServers bool
	// Launch is the launch program; "" is the one beside this program, or else in PATH.
	Launch string
	// LaunchFlags are further flags for it.
	LaunchFlags []string
	// SSH is the ssh client with options, in words as in a shell; "" is that of the variable
	// PARAGON_SSH, or ssh.
	SSH string
	// Output gets the lines that workers print, each after "[ worker HOST of trial NUMBER ] :".
	// They are in worker_RANK.log of the attempt's folder in any case.
	Output io.Writer
	// Logger gets messages for people; nil is slog.Default.
	Logger *slog.Logger

	setup jobSetup
	live  elastic.Jobs
}

// Distributed returns a Runner of distributed trials on this machine.
func Distributed(r Resources) *Jobs { return &Jobs{Resources: r} }

// defaultStart is how long a job may take to start.
const defaultStart = 2 * time.Minute

// defaultMaxCopied is Jobs.MaxCopied where it is zero.
const defaultMaxCopied = 64 << 30

// logger is Logger, or its default.
func (j *Jobs) logger() *slog.Logger {
	if j.Logger != nil {
		return j.Logger
	}
	return joblog.Process()
}

// given are the resources of one trial as they were set: Config.Resources, or else the Jobs'.
func (j *Jobs) given(r Resources) Resources {
	if r != (Resources{}) {
		return r
	}
	return j.Resources
}

// resources are those of one trial, with defaults in place of zeros.
func (j *Jobs) resources(given Resources) Resources {
	r := j.given(given)
	r.Hosts, r.Slots, r.CPUsPerSlot = max(r.Hosts, 1), max(r.Slots, 1), max(r.CPUsPerSlot, 1)
	if r.Servers == 0 {
		r.Servers = 1
	}
	if r.StartTimeout == 0 {
		r.StartTimeout = defaultStart
	}
	return r
}

// elasticResources are those of one elastic trial, with defaults in place of zeros. Replicas on
// hosts of the hosts file may share processors: there slots= says how many there are.
func (j *Jobs) elasticResources(given Resources) Resources {
	r := j.resources(given)
	if j.HostFile != "" {
		r.CPUsPerSlot = j.given(given).CPUsPerSlot
	}
	return r
}

// request is what one trial needs of the nodes.
func (j *Jobs) request(given Resources) slots.Request {
	r := j.resources(given)
	return slots.Request{Hosts: r.Hosts, Workers: r.Slots, CPUs: r.Slots * r.CPUsPerSlot, GPUs: r.Slots * r.GPUs}
}

// unit is what one replica of an elastic trial needs of the nodes.
func (j *Jobs) unit(given Resources) slots.Request { return trialjob.Unit(j.elasticResources(given)) }

// launchProgram finds launch.
func (j *Jobs) launchProgram() (string, error) {
	if j.Launch != "" {
		return filepath.Abs(j.Launch)
	}
	if self, err := os.Executable(); err == nil {
		beside := filepath.Join(filepath.Dir(self), "launch")
		if info, err := os.Stat(beside); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return beside, nil
		}
	}
	path, err := exec.LookPath("launch")
	if err != nil {
		return "", fmt.Errorf("tune: the launch program is neither beside this program nor in PATH; build it (go build github.com/paragon-train/paragon/launch) or set Jobs.Launch: %w", err)
	}
	return path, nil
}
