package control

import (
	"fmt"
	"slices"
)

// The statuses of a host of workers, which are also the actions of events: ADDED comes for each
// worker there that counts from now on.
const (
	// AddQueued: workers are wanted on the host, and none counts yet.
	AddQueued = "ADD_QUEUED"
	// Added: a worker of the host counts.
	Added = "ADDED"
	// RemovalQueued: the host's workers were asked to leave.
	RemovalQueued = "REMOVAL_QUEUED"
	// Removed: the last worker of the host has left as asked.
	Removed = "REMOVED"
	// HostFailed: the host could not be added, or its workers were lost.
	HostFailed = "FAILED"
)

// Further actions of events.
const (
	// Lost: a worker or a server of the host was lost.
	Lost = "LOST"
	// Leaving: a worker of the host is let go, since it was told to end, or fewer are wanted. Others
	// stay there.
	Leaving = "LEAVING"
	// Left: a worker that was let go has left.
	Left = "LEFT"
	// Ranks is of no host: workers have other ranks now, which Status tells.
	Ranks = "RANKS"
	// Taken: the host is being taken away, and not all can leave it, as the sentence in Reason says.
	Taken = "TAKEN"
	// Vacated: the host is being taken away, or no longer. The sentence in Reason says what the job
	// does.
	Vacated = "VACATED"

	// The next ones are of no host, but of a number of workers that was asked for.

	// Scaling: the job scales to Workers, on the hosts of Placement, by the steps in Reason.
	Scaling = "SCALING"
	// Scaled: as many workers count now as the event of number Scale asked for.
	Scaled = "SCALED"
	// ScaleShort: not all workers that the event of number Scale asked for could be started, as
	// Reason says.
	ScaleShort = "SCALE_SHORT"
	// Wish: rank 0 wants the job to have so many Workers. Reason says why.
	Wish = "WISH"

	// ServerQueued: a server is wanted at a rank.
	ServerQueued = "SERVER_QUEUED"
	// ServerAdded: the server has joined.
	ServerAdded = "SERVER_ADDED"
	// ServerRemoved: the server's shards are at others, and it ends.
	ServerRemoved = "SERVER_REMOVED"
	// ServerFailed: the server could not be added.
	ServerFailed = "SERVER_FAILED"
)

// The actions of events of a worker. Reason is a sentence that names it.
const (
	// BecameSlow: the others wait for the worker.
	BecameSlow = "SLOW"
	// NotSlow: the others no longer wait for the worker.
	NotSlow = "NOT_SLOW"
)

var hostActions = []string{AddQueued, Added, RemovalQueued, Removed, HostFailed, Lost, Leaving, Left, Taken, Vacated}
var jobActions = []string{Ranks, Scaling, Scaled, ScaleShort, Wish}
var serverActions = []string{ServerQueued, ServerAdded, ServerRemoved, ServerFailed}
var workerActions = []string{BecameSlow, NotSlow}

// An Event is something that happened to a host, to a server that comes or goes as asked, or to a
// worker.
type Event struct {
	// Number counts the events of the job's life, from 1, without gaps.
	Number uint64 `json:"number"`
	TimeNS int64  `json:"time_ns"`
	Action string `json:"action"`
	Host   string `json:"host"`
	// Slots is of ADD_QUEUED: the workers that are asked for; 0: one.
	Slots int `json:"slots,omitempty"`
	// GPUs is of ADD_QUEUED: how many may be used there; 0: all, -1: none.
	GPUs int `json:"gpus,omitempty"`
	// CPUs is of ADD_QUEUED: the processors that may be used there; 0: all.
	CPUs int `json:"cpus,omitempty"`
	// Role is worker of ADDED, LEAVING, LEFT, SLOW and NOT_SLOW; of LOST it is what was lost, worker
	// or server.
	Role string `json:"role,omitempty"`
	// Rank is of a server that comes or goes, and of SLOW and NOT_SLOW.
	Rank uint32 `json:"rank,omitempty"`
	// PID is of ADDED, LEAVING, LEFT, LOST, SLOW and NOT_SLOW: the number of that process on its
	// host.
	PID uint32 `json:"pid,omitempty"`
	// Process is the number that the launcher gave that process; 0: it was started by hand.
	Process uint32 `json:"process,omitempty"`
	Reason  string `json:"reason,omitempty"`

	// Workers is of SCALING and WISH: how many are wanted in all.
	Workers int `json:"workers,omitempty"`
	// Placement is of SCALING: the hosts; none: the scheduler chooses.
	Placement []WorkersOnHost `json:"placement,omitempty"`
	// Scale is of SCALED and SCALE_SHORT: the number of the event SCALING.
	Scale uint64 `json:"scale,omitempty"`
}

// OfJob reports whether the event is of no host and of no server.
func (e *Event) OfJob() bool { return slices.Contains(jobActions, e.Action) }

// OfServer reports whether the event is of a server that comes or goes as asked, and not of a host.
func (e *Event) OfServer() bool { return slices.Contains(serverActions, e.Action) }

// OfWorker reports whether the event is of one worker that stays as it is, and not of its host.
func (e *Event) OfWorker() bool { return slices.Contains(workerActions, e.Action) }

func (e *Event) check() error {
	switch {
	case !e.OfJob() && !slices.Contains(hostActions, e.Action) && !e.OfServer() && !e.OfWorker():
		return fmt.Errorf("control: event %d: action %q is not known", e.Number, e.Action)
	case e.Role != "" && e.Role != Worker && e.Role != Server:
		return fmt.Errorf("control: event %d: role %q: want worker or server", e.Number, e.Role)
	case e.Slots < 0 || e.Slots > MaxSlots:
		return fmt.Errorf("control: event %d: %d slots, want 0 to %d", e.Number, e.Slots, MaxSlots)
	case e.GPUs < -1 || e.GPUs > MaxGPUs || e.CPUs < 0 || e.CPUs > MaxCPUs:
		return fmt.Errorf("control: event %d: gpus %d and cpus %d, want -1 to %d and 0 to %d", e.Number, e.GPUs, e.CPUs, MaxGPUs, MaxCPUs)
	case e.Rank > maxRank:
		return fmt.Errorf("control: event %d: rank %d, want at most %d", e.Number, e.Rank, maxRank)
	case e.Workers < 0 || e.Workers > MaxWorkers:
		return fmt.Errorf("control: event %d: %d workers, want 0 to %d", e.Number, e.Workers, MaxWorkers)
	}
	if _, err := checkPlacement(e.Placement); err != nil {
		return fmt.Errorf("control: event %d: %w", e.Number, err)
	}
	return nil
}

// Events is the answer to OpEvents.
type Events struct {
	Error string `json:"error,omitempty"`
	Phase string `json:"phase"`
	// Reason is why the job failed, for people.
	Reason string `json:"reason,omitempty"`
	// Failure is the same as a code with fields.
	Failure *Failure `json:"failure,omitempty"`
	// Last is the number of the newest event.
	Last   uint64  `json:"last"`
	Events []Event `json:"events"`
}

func (e *Events) refusal() (string, bool) { return e.Error, false }

func (e *Events) check() error {
	if e.Failure != nil {
		if err := e.Failure.check("events"); err != nil {
			return err
		}
	}
	if err := checkEvents("events", e.Events); err != nil {
		return err
	}
	return checkPhase("events", e.Phase)
}

// checkEvents refuses events that are not in their order, or are none.
func checkEvents(of string, events []Event) error {
	last := uint64(0)
	for i := range events {
		if n := events[i].Number; n <= last {
			return fmt.Errorf("control: %s: number %d comes after %d", of, n, last)
		}
		last = events[i].Number
		if err := events[i].check(); err != nil {
			return err
		}
	}
	return nil
}
