// Package allocate divides a cluster's slots among jobs.
//
// A slot runs one replica. Divide is called on a timer and when jobs or nodes come and go. It gets
// all nodes and all jobs with their present allocations, and returns the new allocation of each job
// and the reason. It keeps no state, reads no clock and draws no random numbers: the same nodes,
// jobs and config give the same decisions, in any order of the lists.
//
// # The objective
//
// A job tells its goodput, its useful examples a second, for any number of nodes and replicas
// (package adapt computes it). Its speedup s is the goodput in units of that with the fewest
// replicas that it runs with. Divide looks for the greatest sum over jobs of
//
//	rank · f·s                 Completion: minimises the mean completion time
//	((f·s + ε)^p) / p          Fair: maximises a power mean of speedups, p = Config.Fairness
//
// Completion follows from optimal control: when V is the sum of completion times to come, the best
// allocation has at each moment the greatest Σ −∂V/∂x · (rate of progress), x being the work left
// of a job. For jobs with speedups k^q the best allocation is known (Berg, Vesilo, Harchol-Balter,
// heSRPT, 2019), and in it the derivative grows about as the q-th power of a job's rank, which is 1
// for the job with the most work left, 2 for the next and so on. So short jobs get more than their
// share and end early, and long ones get what others cannot use well; a long job may wait for as
// long as there are enough short ones.
//
// Fair is the objective of Pollux: p = 1 gives slots to the jobs that use them best; the lower p
// is, the more weight the slowest jobs have. ε is the speedup that a waiting job counts with.
//
// The factor f is 1 for a job that stays as it is. For a job that changes it is the share of the
// new allocation's lifetime that the change does not cost. The lifetime is estimated from how often
// the job has changed and from its remaining work.
//
// # The rules
//
//   - A job has no replicas, or Min to Max. Replicas are packed on as few nodes as possible.
//   - A job that is not preemptible keeps its allocation for as long as its nodes are there.
//   - At most one job that spans nodes is on each node, since such jobs would share the node's
//     link.
//   - Replicas on a node that is gone are gone; its job gets a new allocation.
//   - A change must be worth its cost and Config.Hysteresis. Asked again when nothing has happened,
//     Divide soon leaves everything as it is, mostly at once.
//   - A job without a profile (Goodput is nil) is taken to scale perfectly, and gets at most
//     Config.First replicas. Then it explores: it gets at most Config.Growth times as many as it
//     has been profiled with.
package allocate

import (
	"errors"
	"fmt"
	"math"
	"time"
)

// A Node is a place for replicas.
type Node struct {
	Name  string
	Slots int
}

// An Allocation is the number of replicas on each node, by the node's name. A job that waits has
// none.
type Allocation map[string]int

// Replicas is the sum over all nodes.
func (a Allocation) Replicas() int {
	n := 0
	for _, r := range a {
		n += r
	}
	return n
}

// Nodes is the number of nodes with replicas.
func (a Allocation) Nodes() int {
	n := 0
	for _, r := range a {
		if r > 0 {
			n++
		}
	}
	return n
}

// A Job is what Divide knows of a job that has arrived and not ended.
type Job struct {
	ID string
	// Min and Max bound the replicas. A Min of 0 is 1. A Max of 0 is no bound.
	Min, Max int
	// NonPreemptible says that the job keeps the allocation it has, once it has one.
	NonPreemptible bool
	// Profiled is the greatest number of replicas that Goodput rests on; 0: no bound follows
	// from the profile.
	Profiled int
	// Current is the allocation the job has now; empty while it waits.
	Current Allocation
	// Goodput is the job's rate of progress on so many replicas over so many nodes, as it would
	// choose its batch there; any unit that stays the same for the job. nil: there is no
	// profile yet. It must be deterministic, and 0 where the job cannot run.
	Goodput func(nodes, replicas int) float64
	// Remaining is the work left in the unit of Goodput times seconds; 0: not known. A job
	// whose work is not known is taken to have as much before it as behind it.
	Remaining float64
	// Age is the time since the job arrived, Changes how often its allocation changed after its
	// first.
	Age     time.Duration
	Changes int
	// ChangeCost is the time for which the job makes no progress when its allocation changes,
	// as measured.
	ChangeCost time.Duration
}

// An Objective is what a division is good for.
type Objective string

// The objectives.
const (
	Completion Objective = ""     // the least mean completion time
	Fair       Objective = "fair" // the greatest power mean of speedups
)

// A Config says what is fair and when a change is worthwhile. The zero value is usable.
type Config struct {
	Objective Objective
	// Fairness is the exponent p of Fair's power mean, at most 1. Zero is -1, the harmonic
	// mean; for the geometric mean take a number close to 0.
	Fairness float64
	// Hysteresis is the part by which a job's goodput must rise, beyond the cost of the change,
	// for its allocation to change. Zero is 0.02; below zero is none.
	Hysteresis float64
	// First is how many replicas a job without a profile gets at most. Zero is its share of the
	// slots, at least 1 and at most the largest node.
	First int
	// Growth is how many times the replicas that a job was profiled with it gets at most, at
	// least 1. Zero is 4.
	Growth float64
	// Interval is the time until Divide is asked again, at least. Zero is a minute.
	Interval time.Duration
}

// Validate says which field is wrong.
func (c Config) Validate() error {
	switch {
	case c.Objective != Completion && c.Objective != Fair:
		return fmt.Errorf("allocate: Objective is %q, want %q or %q", c.Objective, Completion, Fair)
	case !(c.Fairness <= 1) || math.IsInf(c.Fairness, 0):
		return fmt.Errorf("allocate: Fairness is %v, want at most 1", c.Fairness)
	case math.IsNaN(c.Hysteresis) || c.Hysteresis >= 1:
		return fmt.Errorf("allocate: Hysteresis is %v, want less than 1", c.Hysteresis)
	case c.First < 0:
		return fmt.Errorf("allocate: First is %d, want at least 1, or 0 for a share", c.First)
	case c.Growth != 0 && !(c.Growth >= 1) || math.IsInf(c.Growth, 0):
		return fmt.Errorf("allocate: Growth is %v, want at least 1, or 0 for 4", c.Growth)
	case c.Interval < 0:
		return fmt.Errorf("allocate: Interval is %v, want at least 0", c.Interval)
	}
	return nil
}

func (c Config) withDefaults() Config {
	if c.Fairness == 0 {
		c.Fairness = -1
	}
	if c.Hysteresis == 0 {
		c.Hysteresis = 0.02
	}
	c.Hysteresis = max(c.Hysteresis, 0)
	if c.Growth == 0 {
		c.Growth = 4
	}
	if c.Interval == 0 {
		c.Interval = time.Minute
	}
	return c
}

// A Decision is what one job shall have.
type Decision struct {
	ID         string
	Allocation Allocation // empty: the job waits
	Changed    bool       // other than Current
	// Reason says why in plain words, for logs; for a job that stays as it is, too.
	Reason string
}

// Divide decides what each job shall have. Decisions come in the order of jobs.
func Divide(c Config, nodes []Node, jobs []Job) ([]Decision, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if err := validate(nodes, jobs); err != nil {
		return nil, err
	}
	d := newDivision(c.withDefaults(), nodes, jobs)
	d.place(d.sizes())
	if !d.better() {
		d.keep()
	}
	return d.decisions(), nil
}

func validate(nodes []Node, jobs []Job) error {
	names := map[string]bool{}
	for _, n := range nodes {
		switch {
		case names[n.Name]:
			return fmt.Errorf("allocate: node %q is listed twice", n.Name)
		case n.Slots < 0:
			return fmt.Errorf("allocate: node %q has %d slots, want at least 0", n.Name, n.Slots)
		}
		names[n.Name] = true
	}
	ids := map[string]bool{}
	for _, j := range jobs {
		switch {
		case j.ID == "":
			return errors.New("allocate: a job has no ID")
		case ids[j.ID]:
			return fmt.Errorf("allocate: job %q is listed twice", j.ID)
		case j.Min < 0 || j.Max < 0 || j.Max > 0 && j.Max < j.Min:
			return fmt.Errorf("allocate: job %q: Min is %d and Max %d, want 0 ≤ Min ≤ Max, or a Max of 0 for no bound", j.ID, j.Min, j.Max)
		case !(j.Remaining >= 0) || math.IsInf(j.Remaining, 0):
			return fmt.Errorf("allocate: job %q: Remaining is %v, want a number that is not negative", j.ID, j.Remaining)
		case j.Age < 0 || j.ChangeCost < 0 || j.Changes < 0:
			return fmt.Errorf("allocate: job %q: Age is %v, ChangeCost %v, Changes %d, want none negative", j.ID, j.Age, j.ChangeCost, j.Changes)
		}
		for node, r := range j.Current {
			if r < 0 {
				return fmt.Errorf("allocate: job %q has %d replicas on node %q", j.ID, r, node)
			}
		}
		ids[j.ID] = true
	}
	return nil
}
