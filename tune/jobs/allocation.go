package jobs

import (
	"fmt"
	"time"
)

// An AllocationRequest is what an allocator decides about.
type AllocationRequest struct {
	// Cause says why a decision is due: "trial 3 ended".
	Cause string
	// Nodes are those that can be used. All their slots are for the jobs.
	Nodes []NodeSlots
	// Jobs are the running trials, by number.
	Jobs []State
}

// A State is what is known of a running trial when a decision is made.
type State struct {
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

// A Share is what an allocator gives to a trial.
type Share struct {
	Trial int
	On    Placement
	// Pause lets a trial that runs give up all that it has: it is paused at its next report,
	// and keeps its place until then. On is empty.
	Pause bool
	// Rule explains the share in a plain sentence; "" for one that stays as it is.
	Rule string
}

// Check says which of the shares an allocator must not give: there is one for each job, in their
// order, and no node gives more slots than it has.
func (r AllocationRequest) Check(shares []Share) error {
	if len(shares) != len(r.Jobs) {
		return fmt.Errorf("got %d shares, want %d: one for each running trial", len(shares), len(r.Jobs))
	}
	free := make(map[string]int)
	for _, n := range r.Nodes {
		free[n.Node] = n.Slots
	}
	for i, x := range shares {
		switch {
		case x.Trial != r.Jobs[i].Trial:
			return fmt.Errorf("share %d is trial %d's, want trial %d's", i, x.Trial, r.Jobs[i].Trial)
		case x.Pause && len(x.On) > 0:
			return fmt.Errorf("trial %d is paused, and gets %s", x.Trial, x.On)
		}
		seen := make(map[string]bool)
		for _, p := range x.On {
			if have, ok := free[p.Node]; !ok || seen[p.Node] || p.Replicas < 1 || p.Replicas > have {
				return fmt.Errorf("trial %d gets %s: node %s has %d slots left", x.Trial, x.On, p.Node, have)
			}
			seen[p.Node] = true
			free[p.Node] -= p.Replicas
		}
	}
	return nil
}
