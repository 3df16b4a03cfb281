package outcomes

import (
	"syscall"
	"time"

	"github.com/paragon-train/paragon/internal/hosts/hosts"
	"github.com/paragon-train/paragon/internal/hosts/process"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// Cores makes the two cores of one version, and speaks their language.
type Cores interface {
	// Launcher begins a job. host_worker is what Files has.
	Launcher(j *Job, now time.Time, files *Files) Launcher
	// Scheduler begins the job's scheduler, or goes on with what a journal has. A nil journal
	// keeps nothing.
	Scheduler(j *Job, now time.Time, journal Journal) Scheduler
	// Request is what the scheduler is asked for a user's command.
	Request(c Command) string
	// Answered is what became of a command: ok, refused, or later.
	Answered(answer string) string
	// Adaptation is what rank 0 says with its heartbeats that wishes for a number of workers.
	Adaptation(workers int) string
}

// A Journal has the newest value of each key that a scheduler has written.
type Journal map[string][]byte

// A Scheduler is the scheduler's core with what its shell tells the launcher.
type Scheduler interface {
	// Step takes a node's or a user's message, or with a request and no message the news that
	// the sender of an earlier one is gone. Without a request time has passed, or the scheduler
	// was told to stop.
	Step(now time.Time, request uint64, m wire.Message, stop string) Said
	// Next is when it must be stepped again though nothing happens; zero: never.
	Next() time.Time
	Status() Status
}

// Said is what a scheduler answers, and reports to the launcher.
type Said struct {
	Answers []Answer
	Reports []any

	// Phase is that of wire.
	Phase uint8
	// Settled says that the job has ended and all nodes know.
	Settled bool
}

// An Answer is that to a request.
type Answer struct {
	Request uint64
	Message wire.Message
}

// A Status is what users see of a job.
type Status struct {
	Phase   string
	Count   int
	Hosts   map[string]string
	Servers []string
	Scale   string
}

// A Launcher is the launcher's core. It may ask the scheduler with Ask.
type Launcher interface {
	// Step takes one of the events below, or nil if time has passed, and returns actions.
	Step(now time.Time, event any) []any
	Next() time.Time
	Result() Result
}

// A Result is how the job ended.
type Result struct {
	Code    int
	Phase   string
	Failure string
	// Culprit is role and host of the process that decided the code; empty: none did.
	Culprit string
}

// The events that a launcher takes.
type (
	Connected struct {
		ID                int
		Address, Launcher string
		Err               error
	}
	MachineLost struct{ Machine int }
	Noticed     struct {
		Machine   int
		Code      string
		Left      time.Duration
		Withdrawn bool
	}
	MachineClosed struct{ Machine int }
	AddressChosen struct{ Address string }
	Announced     struct{}
	Started       struct {
		Process uint32
		PID     int
	}
	StartFailed struct {
		Process uint32
		Err     error
	}
	Ended struct {
		Process uint32
		Exit    process.Exit
	}
	Listening struct {
		Process uint32
		Line    string
	}
	// Reported has a report of Said.
	Reported struct {
		Process uint32
		Report  any
	}
	// Answered answers Ask.
	Answered struct {
		ID     int
		Answer string
		Err    error
	}
	Edited    struct{ Added, Removed []hosts.Host }
	Signalled struct{ Signal syscall.Signal }
	Cancelled struct{}
	AllClosed struct{}
)

// The actions of a launcher.
type (
	// Connect connects to a host (nil: the launching machine), or with Check finds out whether
	// a host is the launching machine.
	Connect struct {
		ID    int
		Host  *hosts.Host
		Check bool
	}
	// Cancel cancels a Connect or an Ask.
	Cancel        struct{ ID int }
	CloseMachine  struct{ Machine int }
	ChooseAddress struct{}
	Announce      struct{ Address, Port string }
	Start         struct {
		Process uint32
		Machine int
		Role    string
		Rank    int32
		Host    string
		Joins   bool
	}
	CancelStart struct{ Process uint32 }
	Signal      struct {
		Process uint32
		Signal  syscall.Signal
	}
	// Ask asks the scheduler until it answers, for at most Limit (0: until it is cancelled),
	// after a pause.
	Ask struct {
		ID    int
		Body  string
		Limit time.Duration
		Pause time.Duration
	}
	ListHost struct {
		Host  hosts.Host
		Named bool
	}
	CloseAll struct{}
	End      struct{}
)

// The roles of processes.
const (
	scheduler = "scheduler"
	server    = "server"
	worker    = "worker"
	prepare   = "prepare"
)
