package tune

import (
	"context"
	"time"

	"github.com/paragon-train/paragon/tune/jobs"
)

// This file has all abilities that a study looks for in what its Config names, and does without
// where they are missing. A rule inside another (Limit, Any) has an ability only if the outer one
// passes it on.
//
//	Config.Runner     Placer, Scaler, hostKeeper (which is Jobs)
//	Config.Scheduler  Allocator, Staged, SingleObjective, Stepwise
//	Config.Suggester  Recorded, Timed, SingleObjective
//	Config.Pruners    SingleObjective, Stepwise
//	Config.Observers  Ticker, Closer
//
// A Suggester or a Scheduler may also have a method Validate() error, which Config.Validate calls.

// A Placer is a Runner that allocates places, such as hosts that come and go. With
// any other Runner every slot is a place.
type Placer interface {
	Runner
	// Fits returns an error if no trial with these resources can ever run.
	Fits(Resources) error
	// Acquire waits for a place for one attempt.
	Acquire(ctx context.Context, r Resources) (Place, error)
}

// An Allocator is a Scheduler that divides the slots of nodes among the trials of a study, which
// run as elastic jobs: workers (replicas) join and leave them while they train. Run asks it when a
// trial has started or ended, when nodes come and go, after a number of reports, and when some time
// has passed; each decision is an EventAllocate in the log, with all that it depends on.
type Allocator interface {
	Scheduler
	// Replicas are the smallest number of replicas with which a trial can run, and the largest
	// (0: any number).
	Replicas() (least, most int)
	// Pace says how often decisions are made besides those when trials or nodes come and go:
	// after this many reports of all trials together (0: never), and when there was none for an
	// interval (0: never).
	Pace() (reports int, interval time.Duration)
	// Allocate divides the nodes. It returns a share for each of the jobs, in their order. It
	// is called once for each EventAllocate, in the order of the log, and like the scheduler's
	// other methods depends on the events alone.
	Allocate(v View, s jobs.AllocationRequest) []jobs.Share
}

// A Scaler is a Runner of elastic jobs, for an Allocator. Its methods may be called together.
type Scaler interface {
	Runner
	// Scalable says why trials with these resources and at least this many replicas cannot be
	// run; nil: they can.
	Scalable(r Resources, least int) error
	// Nodes are those that can be used, and how many replicas each can run if nothing else runs
	// there.
	Slots(ctx context.Context, r Resources) ([]jobs.NodeSlots, error)
	// States is what is known of running attempts. A job that does not answer must not hold it
	// up.
	States(ctx context.Context, trials []int) map[int]jobs.State
	// Scale gives an attempt its replicas. It does not wait: replicas leave first, and others
	// get a slot when it is free. Run of an attempt waits until it is given some.
	Scale(trial, attempt int, on jobs.Placement)
	// Changes has a cause whenever a decision is due, since nodes came or went.
	Changes() <-chan string
}

// A hostKeeper is a Runner whose hosts come and go.
type hostKeeper interface {
	// keepHosts probes hosts that were set aside until ctx ends. Its error says that there has
	// been no host for a trial for too long. replicas is how many an elastic trial needs at
	// least; 0: trials are not elastic.
	keepHosts(ctx context.Context, r Resources, replicas int) error
	// serveHosts lets commands of this machine ask about the hosts, and change them, through
	// the study's folder.
	serveHosts(folder string) (close func())
}

// Staged is a Scheduler that knows how far a trial it has paused will train when it continues. With
// a Config.Deadline the study then knows whether that ends in time; of another Scheduler it learns
// the rungs from the trials that have reached them.
type Staged interface {
	Scheduler
	// NextStep is the step at which it decides next about a paused trial that continues; 0: not
	// known.
	NextStep(v View, trial int) int
}

// Recorded is a Suggester whose proposals cannot be recomputed, such as an external program: Replay
// takes them from the log.
type Recorded interface {
	Suggester
	// Recorded says whether proposals must be taken from the log.
	Recorded() bool
}

// Timed is a Suggester that knows how long a trial with some parameters is going to train. With a
// Config.Deadline a new trial then starts if this one ends in time, whatever others took.
type Timed interface {
	Suggester
	// Takes is a pure function of the view, as Suggest is. ok is false if it does not know.
	Takes(v View, p Params) (d time.Duration, ok bool)
}

// A SingleObjective is a Suggester, Scheduler or Pruner that may judge trials by View.Result and
// Report.Value alone. If it says so, a study with several Objectives refuses it.
type SingleObjective interface {
	SingleObjective() bool
}

// A Stepwise is a Scheduler or Pruner that follows a trial over its steps: compares what it
// reported at one and at another, or has it go on from a checkpoint. If it says so, a study with a
// Fidelity refuses it.
type Stepwise interface {
	Stepwise() bool
}

// A Ticker is an Observer that Run also calls about every second.
type Ticker interface {
	Observer
	Tick(v View, now time.Time)
}

// A Closer is an Observer that Run closes when the search is over, with the final
// view.
type Closer interface {
	Observer
	Close(v View) error
}
