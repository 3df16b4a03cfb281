package control

import (
	"fmt"
	"slices"
)

// Starting is the phase of a job some of whose first processes have not been started. The others
// are those of the scheduler.
const Starting = "starting"

// MaxResult bounds the JSON of a Result, in bytes. The Result of a job of 5000 processes with last
// lines of full length fits.
const MaxResult = 64 << 20

// ExitCheckpointed is the exit code of launch where the job was stopped with a checkpoint, so that
// it can go on later. A script that gets it puts the job into its queue again. It is in no range of
// the shell's, of signals' or of sysexits.h.
const ExitCheckpointed = 85

// maxSeconds bounds the life of a process, in seconds: 100 years.
const maxSeconds = 100 * 365 * 24 * 3600

// A Result is how a job ended, as `launch --result FILE` writes it. Of a job that was started again
// by --restarts it is the last run.
type Result struct {
	Version int `json:"version"`
	// Job is the job's ID; empty: it had none yet.
	Job string `json:"job,omitempty"`
	// ExitCode is that of launch.
	ExitCode int `json:"exit_code"`
	// Phase is the last one that was reached: starting, forming (all processes were started) or
	// running (the job was complete).
	Phase string `json:"phase"`
	// Restarts is how often --restarts started the job again.
	Restarts int `json:"restarts,omitempty"`
	// Scales is how often the number of workers was changed as asked, without a restart.
	Scales int `json:"scales,omitempty"`
	// Signal is the one that launch got, and stopped the job for.
	Signal int `json:"signal,omitempty"`
	// Cancelled says that the job was stopped, by no signal.
	Cancelled bool `json:"cancelled,omitempty"`

	// Failure is why the job did not end well; nil: it did.
	Failure *Failure `json:"failure,omitempty"`
	// Culprit is the process whose exit decided ExitCode; nil: none did.
	Culprit *ProcessEnd `json:"culprit,omitempty"`

	// LostHosts are the hosts that were not reached, or whose connection was lost, each once.
	LostHosts []LostHost `json:"lost_hosts,omitempty"`
	// Processes are those of the job, in the order of their numbers.
	Processes []ProcessEnd `json:"processes"`
	LeftOut   int          `json:"processes_left_out,omitempty"`

	// Metrics are the newest finite ones that worker 0 printed, in all runs; nil: none.
	Metrics *Metrics `json:"metrics,omitempty"`

	// Adaptation is the newest one of the last run; nil: it did not adapt.
	Adaptation *Adaptation `json:"adaptation,omitempty"`

	// Changes are the scheduler's events of hosts and servers that came or went while the job
	// ran.
	Changes []Event `json:"changes,omitempty"`
	// ChangesLeftOut is how many older ones are not in Changes.
	ChangesLeftOut int `json:"changes_left_out,omitempty"`
}

// A LostHost is a host that launch lost, or did not reach.
type LostHost struct {
	Host   string `json:"host"`
	Reason string `json:"reason"` // for people
	// Unreached: at the start of the job there was no connection to it, and so nothing of the
	// job.
	Unreached bool `json:"unreached,omitempty"`
}

// A Fate is what became of a process.
type Fate string

// The fates.
const (
	// FateEnded: the process ended by itself.
	FateEnded Fate = "ended"
	// FateStopped: the launcher stopped the process, as the job was over.
	FateStopped Fate = "stopped"
	// FateOutside: the process ended cleanly after a SIGTERM from outside the launcher.
	FateOutside Fate = "stopped_outside"
	// FateRemoved: the job removed the process as asked.
	FateRemoved Fate = "removed"
	// FateLost: the job went on without the process.
	FateLost Fate = "lost"
	// FateRestarted: another process took the place of this one, with its rank.
	FateRestarted Fate = "restarted"
	// FateNotJoined: the process ended before it had joined the running job.
	FateNotJoined Fate = "not_joined"
	// FateUnneeded: the launcher stopped the process before it had joined the running job.
	FateUnneeded Fate = "unneeded"
	// FateRefused: the scheduler gave the process up before it had joined the running job.
	FateRefused Fate = "refused"
	// FateNotStarted: the process could not be started.
	FateNotStarted Fate = "not_started"
)

var fates = []Fate{FateEnded, FateStopped, FateOutside, FateRemoved, FateLost, FateRestarted, FateNotJoined, FateUnneeded, FateRefused, FateNotStarted}

// A ProcessEnd is how one process of a job ended.
type ProcessEnd struct {
	// Process is the number that the launcher or the scheduler gave it.
	Process uint32 `json:"process"`
	Role    string `json:"role"`
	// Rank is the last one that it had; of a worker that never joined its number among the workers.
	Rank int    `json:"rank"`
	Host string `json:"host"`
	// PID is the process's number on its host; 0: it was never started.
	PID  int  `json:"pid,omitempty"`
	Fate Fate `json:"fate"`
	// Cause is of kind exit, signal, machine or start; none: the process was never started, and
	// nothing is wrong with it.
	Cause Cause `json:"cause,omitzero"`
	// HostLost says that the connection to the host was lost, and the process with it.
	HostLost bool `json:"host_lost,omitempty"`
	// Seconds is the time from its start to its end.
	Seconds float64 `json:"seconds"`
	// LastLine is the last line of its output: of its standard error if it failed.
	LastLine string `json:"last_line,omitempty"`
}

// EncodeResult returns the JSON of a result, and a newline.
func EncodeResult(r *Result) ([]byte, error) {
	c := *r
	c.Version = ResultVersion
	if err := c.check(); err != nil {
		return nil, err
	}
	b, err := encode("result", &c)
	if err == nil && len(b) >= MaxResult {
		return nil, fmt.Errorf("control: result: %d bytes, want fewer than %d", len(b), MaxResult)
	}
	return append(b, '\n'), err
}

// DecodeResult reads a result.
func DecodeResult(text []byte) (*Result, error) {
	r := &Result{}
	if err := decode("result", text, MaxResult, r); err != nil {
		return nil, err
	}
	return r, r.check()
}

func (r *Result) check() error {
	switch {
	case r.Version != ResultVersion:
		return fmt.Errorf("control: result: version %d, want %d", r.Version, ResultVersion)
	case r.Phase != Starting && r.Phase != Forming && r.Phase != Running:
		return fmt.Errorf("control: result: phase %q: want %s, %s or %s", r.Phase, Starting, Forming, Running)
	case r.ExitCode < 0 || r.ExitCode > maxCode || r.Signal < 0 || r.Signal > maxCode:
		return fmt.Errorf("control: result: exit code %d, signal %d: one is out of range", r.ExitCode, r.Signal)
	case r.Restarts < 0 || r.Scales < 0 || r.LeftOut < 0 || r.ChangesLeftOut < 0:
		return fmt.Errorf("control: result: %d restarts, %d scales, %d processes and %d changes left out: want none below 0", r.Restarts, r.Scales, r.LeftOut, r.ChangesLeftOut)
	case r.ExitCode == 0 && (r.Failure != nil || r.Culprit != nil):
		return fmt.Errorf("control: result: exit code 0 with a failure or a culprit")
	}
	if r.Failure != nil {
		if err := r.Failure.check("result"); err != nil {
			return err
		}
	}
	if r.Culprit != nil {
		if err := r.Culprit.check("culprit"); err != nil {
			return err
		}
	}
	if r.Metrics != nil {
		if err := r.Metrics.check(); err != nil {
			return err
		}
	}
	if r.Adaptation != nil {
		if err := r.Adaptation.check("result"); err != nil {
			return err
		}
	}
	last := uint32(0)
	for i := range r.Processes {
		p := &r.Processes[i]
		if p.Process <= last {
			return fmt.Errorf("control: result: process %d comes after %d", p.Process, last)
		}
		last = p.Process
		if err := p.check("process"); err != nil {
			return err
		}
	}
	return checkEvents("result", r.Changes)
}

func (p *ProcessEnd) check(what string) error {
	switch {
	case p.Process == 0:
		return fmt.Errorf("control: result: %s 0: want a number from 1 on", what)
	case p.Role != Scheduler && p.Role != Server && p.Role != Worker:
		return fmt.Errorf("control: result: %s %d: role %q: want %s, %s or %s", what, p.Process, p.Role, Scheduler, Server, Worker)
	case p.Rank < 0 || p.PID < 0:
		return fmt.Errorf("control: result: %s %d: rank %d, pid %d: want none below 0", what, p.Process, p.Rank, p.PID)
	case !slices.Contains(fates, p.Fate):
		return fmt.Errorf("control: result: %s %d: fate %q is not known", what, p.Process, p.Fate)
	case !(p.Seconds >= 0 && p.Seconds <= maxSeconds):
		return fmt.Errorf("control: result: %s %d: %g seconds, want 0 to %d", what, p.Process, p.Seconds, maxSeconds)
	case p.HostLost != (p.Cause.Kind == CauseMachine):
		return fmt.Errorf("control: result: %s %d: cause %q and host_lost %t contradict each other", what, p.Process, p.Cause.Kind, p.HostLost)
	}
	return p.Cause.check("result")
}
