package control

import (
	"fmt"
	"slices"
)

// The statuses of a host of workers, which are also the actions of events: ADDED comes for each
// worker there that counts from now on.
const (
	AddQueued     = "ADD_QUEUED"     // wanted; no worker there counts yet
	Added         = "ADDED"          // a worker there counts
	RemovalQueued = "REMOVAL_QUEUED" // its workers were asked to leave
	Removed       = "REMOVED"
	HostFailed    = "FAILED" // it could not be added, or its workers were lost
)

// Further actions of events.
const (
	Lost    = "LOST"    // a worker or a server there was lost
	Leaving = "LEAVING" // a worker there is let go, since it was told to end; others stay there
	Left    = "LEFT"    // it has left
	Ranks   = "RANKS"   // workers have other ranks now, which Status tells; of no host
	Taken   = "TAKEN"   // a host is being taken away, and not all can leave it; Reason is a sentence that says so
	Vacated = "VACATED" // a host is being taken away, or no longer; Reason is a sentence that says what the job does

	// Of no host: a number of workers that was asked for.
	Scaling    = "SCALING"     // Workers, Placement, Reason: the job scales, and by which steps
	Scaled     = "SCALED"      // Scale: so many workers count now
	ScaleShort = "SCALE_SHORT" // Scale, Reason: not all could be started
	Wish       = "WISH"        // Workers, Reason: rank 0 wants the job to have so many

	ServerQueued  = "SERVER_QUEUED" // wanted at a rank
	ServerAdded   = "SERVER_ADDED"
	ServerRemoved = "SERVER_REMOVED" // its shards are at others; it ends
	ServerFailed  = "SERVER_FAILED"  // it could not be added
)

// Of a worker: Reason is a sentence that names it.
const (
	BecameSlow = "SLOW"     // the others wait for it
	NotSlow    = "NOT_SLOW" // no longer
)

var hostActions = []string{AddQueued, Added, RemovalQueued, Removed, HostFailed, Lost, Leaving, Left, Taken, Vacated}
var jobActions = []string{Ranks, Scaling, Scaled, ScaleShort, Wish}
var serverActions = []string{ServerQueued, ServerAdded, ServerRemoved, ServerFailed}
var workerActions = []string{BecameSlow, NotSlow}

// An Event is something that happened to a host, to a server that comes or goes as asked, or to a
// worker.
type Event struct {
	Number uint64 `json:"number"` // from 1, without gaps, for the life of the job
	TimeNS int64  `json:"time_ns"`
	Action string `json:"action"`
	Host   string `json:"host"`
	Slots  int    `json:"slots,omitempty"` // of ADD_QUEUED: workers that are asked for; 0: one
	GPUs   int    `json:"gpus,omitempty"`  // of ADD_QUEUED: GPUs that may be used there; 0: all, -1: none
	CPUs   int    `json:"cpus,omitempty"`  // of ADD_QUEUED: processors that may be used there; 0: all
	Role   string `json:"role,omitempty"`  // of ADDED, LEAVING, LEFT, SLOW and NOT_SLOW: worker; of LOST: what was lost, worker or server
	Rank   uint32 `json:"rank,omitempty"`  // of a server that comes or goes, and of SLOW and NOT_SLOW
	PID    uint32 `json:"pid,omitempty"`   // of ADDED, LEAVING, LEFT, LOST, SLOW and NOT_SLOW: that process's, as its host numbers them
	// Process is the number that the launcher gave that process; 0: it was started by hand.
	Process uint32 `json:"process,omitempty"`
	Reason  string `json:"reason,omitempty"`

	Workers   int             `json:"workers,omitempty"`   // of SCALING and WISH: that are wanted in all
	Placement []WorkersOnHost `json:"placement,omitempty"` // of SCALING: on which hosts; none: the scheduler chooses
	Scale     uint64          `json:"scale,omitempty"`     // of SCALED and SCALE_SHORT: the number of the event SCALING
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
	Error  string `json:"error,omitempty"`
	Phase  string `json:"phase"`
	Reason string `json:"reason,omitempty"` // why the job failed, for people
	// Failure is the same as a code with fields.
	Failure *Failure `json:"failure,omitempty"`
	Last    uint64   `json:"last"` // number of the newest event
	Events  []Event  `json:"events"`
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
