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
	Version   int    `json:"version"`
	Job       string `json:"job,omitempty"`       // ID; empty: it had none yet
	ExitCode  int    `json:"exit_code"`           // of launch
	Phase     string `json:"phase"`               // the last one that was reached: Starting, Forming (all processes were started) or Running (the job was complete)
	Restarts  int    `json:"restarts,omitempty"`  // by --restarts
	Scales    int    `json:"scales,omitempty"`    // how often the number of workers was changed as asked, without a restart
	Signal    int    `json:"signal,omitempty"`    // that launch got, and stopped the job for
	Cancelled bool   `json:"cancelled,omitempty"` // the job was stopped, by no signal

	Failure *Failure    `json:"failure,omitempty"` // why the job did not end well; nil: it did
	Culprit *ProcessEnd `json:"culprit,omitempty"` // the process whose exit decided ExitCode; nil: none did

	LostHosts []LostHost   `json:"lost_hosts,omitempty"` // hosts that were not reached, or whose connection was lost, each once
	Processes []ProcessEnd `json:"processes"`            // by Process
	LeftOut   int          `json:"processes_left_out,omitempty"`

	// Metrics are the newest finite ones that worker 0 printed, in all runs; nil: none.
	Metrics *Metrics `json:"metrics,omitempty"`

	// Adaptation is the newest one of the last run; nil: it did not adapt.
	Adaptation *Adaptation `json:"adaptation,omitempty"`

	// Changes are the scheduler's events of hosts and servers that came or went while the job
	// ran.
	Changes        []Event `json:"changes,omitempty"`
	ChangesLeftOut int     `json:"changes_left_out,omitempty"` // older ones
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
	FateEnded      Fate = "ended"           // it ended by itself
	FateStopped    Fate = "stopped"         // the launcher stopped it, as the job was over
	FateOutside    Fate = "stopped_outside" // it ended cleanly after a SIGTERM from outside the launcher
	FateRemoved    Fate = "removed"         // the job removed it as asked
	FateLost       Fate = "lost"            // the job went on without it
	FateRestarted  Fate = "restarted"       // another process took its place, with its rank
	FateNotJoined  Fate = "not_joined"      // it ended before it had joined the running job
	FateUnneeded   Fate = "unneeded"        // the launcher stopped it before it had joined the running job
	FateRefused    Fate = "refused"         // the scheduler gave it up before it had joined the running job
	FateNotStarted Fate = "not_started"
)

var fates = []Fate{FateEnded, FateStopped, FateOutside, FateRemoved, FateLost, FateRestarted, FateNotJoined, FateUnneeded, FateRefused, FateNotStarted}

// A ProcessEnd is how one process of a job ended.
type ProcessEnd struct {
	Process  uint32  `json:"process"` // its number
	Role     string  `json:"role"`
	Rank     int     `json:"rank"` // the last one; of a worker that never joined its number among the workers
	Host     string  `json:"host"`
	PID      int     `json:"pid,omitempty"` // 0: it was never started
	Fate     Fate    `json:"fate"`
	Cause    Cause   `json:"cause,omitzero"`      // Exit, Signal, Machine or Start; none: it was never started, and nothing is wrong with it
	HostLost bool    `json:"host_lost,omitempty"` // the connection to its host was lost, and the process with it
	Seconds  float64 `json:"seconds"`             // from its start to its end
	LastLine string  `json:"last_line,omitempty"` // of its output: of its standard error if it failed
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
