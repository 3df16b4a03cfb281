package trialjob

import (
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/paragon-train/paragon/tune/internal/elastic"
	"github.com/paragon-train/paragon/tune/internal/nodes"
	"github.com/paragon-train/paragon/tune/internal/remote"
	"github.com/paragon-train/paragon/tune/internal/slots"
	"github.com/paragon-train/paragon/tune/jobs"
)

// A Place is where the processes of a search's trials run.
type Place uint8

const (
	// ThisMachine is the machine of the search.
	ThisMachine Place = iota
	// Hosts are reached by ssh.
	Hosts
	// ClusterNodes are those of a cluster's scheduler, which starts tasks there.
	ClusterNodes
)

// Settings say how the trials of a search are started. See the fields of tune.Jobs with the same
// names.
type Settings struct {
	Place       Place
	NoServers   bool
	Checkpoints bool
	Address     string
	Folder      string
	SSH         string
	LaunchFlags []string
	// Connects says that the workers are this program, and call tune.Run.
	Connects bool
	// Launch returns the path of the launch program.
	Launch func() (string, error)
	// MaxCopied bounds the bytes of one checkpoint that is copied between machines.
	MaxCopied int64
	// Show gets each line of a worker, with its node; nil: nobody sees them.
	Show   io.Writer
	Logger *slog.Logger
}

// A Runner runs the attempts of a search. Its methods may be called together.
type Runner struct {
	Nodes   *nodes.Set
	Elastic *elastic.Jobs

	// measured says the size of the current folder once.
	measured sync.Once
	// showing is held while a line goes to Settings.Show.
	showing sync.Mutex
}

// An Attempt is one run of a trial.
type Attempt struct {
	// Study is the name of the study by which the program's processes know it.
	Study         string
	Trial, Number int
	// Params are the trial's parameters, in JSON.
	Params []byte
	Seed   uint64
	// Metric is the study's; "": any.
	Metric string
	// Resources are the trial's, with defaults in place of zeros.
	Resources jobs.Resources
	// Grant is what the attempt was allocated; nil: it is elastic, and has Least replicas at
	// least.
	Grant *slots.Grant
	Least int
	// Grace is how long the search waits for an attempt that was asked to return; 0: it waits.
	Grace time.Duration
	// Folder is the trial's, StudyFolder the study's.
	Folder, StudyFolder string
	// Restore is the checkpoint to go on from; nil: there is none.
	Restore *remote.Restore
	// Command makes the command of the workers. checkpoint stands for the folder of the
	// command's state; "": it keeps none.
	Command func(checkpoint string) ([]string, error)
	Search  Search
}

// A Search is what an attempt reports to.
type Search interface {
	remote.Backend
	// Asks says whether an error of Checkpoint only asks the attempt to return.
	Asks(err error) bool
}

// goOn is the action of an answer that lets an attempt go on. Any other ends it.
const goOn = "continue"

// elastic says whether the attempt's replicas come and go.
func (a *Attempt) elastic() bool { return a.Grant == nil }

// Unit is what one replica of an elastic trial needs.
func Unit(r jobs.Resources) slots.Request {
	return slots.Request{Workers: 1, CPUs: r.CPUsPerSlot, GPUs: r.GPUs}
}

// stopTimeout is how long a trial's processes have to end when they are told to; less if the search
// gives a trial up before.
const stopTimeout = 10 * time.Second

// stopAfter is how long the processes of an attempt have to end: they are to be gone before the
// search gives the attempt up.
func (a *Attempt) stopAfter() time.Duration {
	if a.Grace > 0 {
		return min(stopTimeout, a.Grace/2)
	}
	return stopTimeout
}
