package tune

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

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
	Allocate(v View, s Situation) []Share
}

// A Situation is what an Allocator decides about.
type Situation struct {
	// Cause says why a decision is due: "trial 3 ended".
	Cause string
	// Nodes are those that can be used. All their slots are for the jobs.
	Nodes []NodeSlots
	// Jobs are the running trials, by number.
	Jobs []JobState
}

// NodeSlots is a node with the number of replicas that it runs at a time.
type NodeSlots struct {
	Node  string
	Slots int
}

// A Placement is how many replicas a trial has on which nodes. No node is in it twice, and none
// with no replica.
type Placement []NodeReplicas

// NodeReplicas is how many replicas run on a node.
type NodeReplicas struct {
	Node     string
	Replicas int
}

// Replicas is how many there are on all nodes together.
func (p Placement) Replicas() (n int) {
	for _, x := range p {
		n += x.Replicas
	}
	return n
}

// On is how many replicas are on a node.
func (p Placement) On(node string) int {
	for _, x := range p {
		if x.Node == node {
			return x.Replicas
		}
	}
	return 0
}

// same says whether both have the same replicas on the same nodes.
func (p Placement) same(q Placement) bool {
	return len(p) == len(q) && !slices.ContainsFunc(p, func(x NodeReplicas) bool { return q.On(x.Node) != x.Replicas })
}

// String is "d1=2,d2=1", or "none".
func (p Placement) String() string {
	if len(p) == 0 {
		return "none"
	}
	all := make([]string, len(p))
	for i, x := range p {
		all[i] = fmt.Sprintf("%s=%d", x.Node, x.Replicas)
	}
	return strings.Join(all, ",")
}

// A JobState is what is known of a running trial when a decision is made.
type JobState struct {
	Trial int
	// On is what the trial has, or is about to have by earlier decisions that can still be
	// carried out. Empty: it has not begun, and waits.
	On Placement
	// Profile is what the job says of its training (a JSON text); "": nothing yet.
	Profile string
	// ChangeCost is how long the job's newest change of replicas took; 0: it had none.
	ChangeCost time.Duration
	// Fixed says why the job's replicas cannot change; "": they can.
	Fixed string
	// Pausable says that the trial has a checkpoint to go on from.
	Pausable bool
}

// A Share is what an Allocator gives to a trial.
type Share struct {
	Trial int
	On    Placement
	// Pause lets a trial that runs give up all that it has: it is paused at its next report,
	// and keeps its place until then. On is empty.
	Pause bool
	// Rule explains the share in a plain sentence; "" for one that stays as it is.
	Rule string
}

// A Scaler is a Runner of elastic jobs, for an Allocator. Its methods may be called together.
type Scaler interface {
	Runner
	// Scalable says why trials with these resources and at least this many replicas cannot be
	// run; nil: they can.
	Scalable(r Resources, least int) error
	// Nodes are those that can be used, and how many replicas each can run if nothing else runs
	// there.
	Slots(ctx context.Context, r Resources) ([]NodeSlots, error)
	// States is what is known of running attempts. A job that does not answer must not hold it
	// up.
	States(ctx context.Context, trials []int) map[int]JobState
	// Scale gives an attempt its replicas. It does not wait: replicas leave first, and others
	// get a slot when it is free. Run of an attempt waits until it is given some.
	Scale(trial, attempt int, on Placement)
	// Changes has a cause whenever a decision is due, since nodes came or went.
	Changes() <-chan string
}
