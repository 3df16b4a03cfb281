package control

import (
	"fmt"
	"slices"
	"time"
)

// A Goal is what the scheduler wants of a process.
type Goal string

// The goals. A process that the wanted state does not name is to end at once.
const (
	// GoalRun: the process is to be started, once, and to run.
	GoalRun Goal = "run"
	// GoalLeave: the process leaves the job by itself; it is not started any more.
	GoalLeave Goal = "leave"
	// GoalEnd: the process gets SIGTERM when the grace is over, and SIGKILL later.
	GoalEnd Goal = "end"
	// GoalKill: the process gets SIGKILL when the grace is over.
	GoalKill Goal = "kill"
	// GoalOver: the process has ended, and its Fate says what that means for the job.
	GoalOver Goal = "over"
)

var goals = []Goal{GoalRun, GoalLeave, GoalEnd, GoalKill, GoalOver}

// FateFailed is the fate of a process whose end the job does not survive. It is in no Result: there
// the process has ended, and is to blame.
const FateFailed Fate = "failed"

// Wanted is the answer to OpWanted: all that should be. It is a state and not a list of commands,
// so a Wanted that is lost, or comes twice, does no harm.
type Wanted struct {
	Error string `json:"error,omitempty"`
	// Revision goes up with each change of Processes and Hosts.
	Revision uint64 `json:"revision"`
	Phase    string `json:"phase"`
	// Processes are servers and workers by number: those that should run, and those whose end
	// the launcher has not seen judged. It names none before the first report.
	Processes []WantedProcess `json:"processes,omitempty"`
	// Hosts are those on which the job wants workers, as host_worker should list them.
	Hosts []WantedHost `json:"hosts,omitempty"`
	// Dismissed are hosts that were removed by name: the job does not need them any more.
	Dismissed []string `json:"dismissed,omitempty"`
	// Events are those after the request's After, at most 1000. They command nothing.
	Events []Event `json:"events,omitempty"`
}

// WantedProcess is one server or worker as it should be.
type WantedProcess struct {
	Process uint32 `json:"process"`
	Role    string `json:"role"`
	Rank    int    `json:"rank"` // -1: a worker that has none yet
	// Number is a worker's number among all workers that the job has had, and a server's rank.
	Number int    `json:"number"`
	Host   string `json:"host"`
	GPUs   int    `json:"gpus,omitempty"` // as in Request
	CPUs   int    `json:"cpus,omitempty"`
	Slots  int    `json:"slots,omitempty"` // workers that share the host's GPUs; 0: not known
	// Prepare says that the host is prepared before the process is started there.
	Prepare bool `json:"prepare,omitempty"`
	// Early: the process has the rank of one that ended before the job was complete.
	Early bool `json:"early,omitempty"`
	// Attempt is how many times in a row the process was started again; 0: it is the first.
	Attempt int `json:"attempt,omitempty"`
	// DelayMillis is how long after it reads of the process the launcher starts it.
	DelayMillis int64 `json:"delay_ms,omitempty"`
	Goal        Goal  `json:"goal"`
	GraceMillis int64 `json:"grace_ms,omitempty"` // of GoalEnd and GoalKill
	// Joined says that the process is, or was, in the job.
	Joined bool `json:"joined,omitempty"`
	// Fate is what becomes of the process, or became of it; empty: nothing special. Note says
	// more, for people, and Reason why.
	Fate   Fate   `json:"fate,omitempty"`
	Note   string `json:"note,omitempty"`
	Reason string `json:"reason,omitempty"`
}

// Delay is how long after it reads of the process the launcher starts it.
func (p *WantedProcess) Delay() time.Duration { return time.Duration(p.DelayMillis) * time.Millisecond }

// Grace is how long a process that is to end may go on.
func (p *WantedProcess) Grace() time.Duration { return time.Duration(p.GraceMillis) * time.Millisecond }

// WantedHost is a host on which the job wants workers.
type WantedHost struct {
	Host  string `json:"host"`
	Slots int    `json:"slots,omitempty"` // workers; 0: one
	GPUs  int    `json:"gpus,omitempty"`  // as in Request
	CPUs  int    `json:"cpus,omitempty"`
	// Again grows when host_worker is to list the host although nothing else has changed: an edit
	// may have taken it out.
	Again int `json:"again,omitempty"`
}

func (w *Wanted) refusal() (string, bool) { return w.Error, false }

func (w *Wanted) check() error {
	last := uint32(0)
	for i := range w.Processes {
		p := &w.Processes[i]
		switch {
		case p.Process <= last:
			return fmt.Errorf("control: wanted: process %d comes after %d", p.Process, last)
		case p.Role != Worker && p.Role != Server:
			return fmt.Errorf("control: wanted: process %d: role %q: want worker or server", p.Process, p.Role)
		case p.Rank < -1 || p.Rank > maxRank || p.Number < 0:
			return fmt.Errorf("control: wanted: process %d: rank %d, number %d: one is out of range", p.Process, p.Rank, p.Number)
		case !slices.Contains(goals, p.Goal):
			return fmt.Errorf("control: wanted: process %d: goal %q is not known", p.Process, p.Goal)
		case p.Fate != "" && p.Fate != FateFailed && !slices.Contains(fates, p.Fate):
			return fmt.Errorf("control: wanted: process %d: fate %q is not known", p.Process, p.Fate)
		case p.GPUs < -1 || p.GPUs > MaxGPUs || p.CPUs < 0 || p.CPUs > MaxCPUs || p.Slots < 0 || p.Slots > MaxSlots:
			return fmt.Errorf("control: wanted: process %d: gpus %d, cpus %d, slots %d: one is out of range", p.Process, p.GPUs, p.CPUs, p.Slots)
		case p.Attempt < 0 || p.DelayMillis < 0 || p.DelayMillis > maxDelayMillis || p.GraceMillis < 0 || p.GraceMillis > maxDelayMillis:
			return fmt.Errorf("control: wanted: process %d: attempt %d, delay_ms %d, grace_ms %d: one is out of range", p.Process, p.Attempt, p.DelayMillis, p.GraceMillis)
		}
		last = p.Process
	}
	for _, h := range w.Hosts {
		if h.Slots < 0 || h.Slots > MaxSlots || h.GPUs < -1 || h.GPUs > MaxGPUs || h.CPUs < 0 || h.CPUs > MaxCPUs {
			return fmt.Errorf("control: wanted: host %s: slots %d, gpus %d, cpus %d: one is out of range", h.Host, h.Slots, h.GPUs, h.CPUs)
		}
	}
	if err := checkEvents("wanted", w.Events); err != nil {
		return err
	}
	return checkPhase("wanted", w.Phase)
}

// maxDelayMillis bounds delays and graces: an hour.
const maxDelayMillis = 3600_000

// Over reports whether the job has finished or failed.
func (w *Wanted) Over() bool { return w.Phase != Forming && w.Phase != Running }
