package elastic

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/paragon-train/paragon/internal/member/jobcontrol"
	"github.com/paragon-train/paragon/tune/internal/remote"
	"github.com/paragon-train/paragon/tune/internal/slots"
	"github.com/paragon-train/paragon/tune/jobs"
)

// A Job is an attempt whose replicas come and go.
//
// want is what was decided, commanded what the launcher was told, and the units what is held. Steer
// brings commanded as near to want as the units allow, and Follow learns what became of it.
type Job struct {
	env            Env
	trial, attempt int
	// due says why another decision is due.
	due func(cause string)
	// launcher has the launcher's process ID, once.
	launcher chan int
	// wake holds one token: Steer is to look again.
	wake chan struct{}

	// mu guards all below.
	mu   sync.Mutex
	want jobs.Placement
	// since is when want last changed, or a unit was taken or given back.
	since time.Time
	// order is what the launcher was told last.
	order order
	units units
	// hosts are the hosts that the job knows, with the most replicas that it may start on each;
	// nil: it runs on this machine.
	hosts    map[string]int
	refusals refusals

	// job asks the launcher; nil: it was not found yet.
	job *jobcontrol.Job
	// complete says that all replicas that the job began with have joined: only then can their
	// number change.
	complete bool
	// profile is what the job said last of its training.
	profile string
	// cost is how long the newest change took that was reached.
	cost time.Duration
}

// An order is a placement that the launcher was told.
type order struct {
	placement jobs.Placement
	at        time.Time
	state     orderState
}

// An orderState says how far the launcher is with an order.
type orderState uint8

const (
	// settled is an order that was reached, or that the launcher has given up.
	settled orderState = iota
	// underWay is an order of which the launcher has not said what became of it.
	underWay
)

// newJob is a job that has no replicas yet.
func newJob(env Env, trial, attempt int, unit slots.Request, due func(cause string)) *Job {
	return &Job{env: env, trial: trial, attempt: attempt, due: due, launcher: make(chan int, 1), wake: make(chan struct{}, 1), units: newUnits(env.Alloc, unit)}
}

// Launched tells the process ID of the job's launcher. Call it once.
func (j *Job) Launched(pid int) { j.launcher <- pid }

// awaken lets Steer look again.
func (j *Job) awaken() {
	select {
	case j.wake <- struct{}{}:
	default:
	}
}

// scale takes a decision.
func (j *Job) scale(on jobs.Placement) {
	j.mu.Lock()
	on = slices.Clone(on)
	for i, x := range on {
		// The launcher knows the slots that a host had when the job began. One that was
		// added to the job later has room for as many replicas as began there.
		if most, ok := j.hosts[x.Node]; ok {
			on[i].Replicas = min(x.Replicas, most)
		}
	}
	if !j.want.Equal(on) {
		j.want, j.since = on, time.Now()
	}
	j.mu.Unlock()
	j.awaken()
}

// exchange makes the units fit want and what was commanded. j.mu is held.
func (j *Job) exchange() {
	if j.units.exchange(j.want, j.order.placement) {
		j.since = time.Now()
	}
}

// Begin waits for replicas and their units, and returns those that the job begins with: all on one
// node, since launch fills its hosts in turn.
func (j *Job) Begin(ctx context.Context, least int) (jobs.NodeReplicas, error) {
	for {
		changed := j.env.Alloc.Changed()
		if first, ok := j.begin(least); ok {
			return first, nil
		}
		select {
		case <-changed:
		case <-j.wake:
		case <-ctx.Done():
			return jobs.NodeReplicas{}, context.Cause(ctx)
		}
	}
}

// begin returns the most replicas on one node that have units, if they are enough.
func (j *Job) begin(least int) (first jobs.NodeReplicas, ok bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.exchange()
	for _, x := range j.units.held() {
		if n := min(x.Replicas, j.want.On(x.Node)); n > first.Replicas {
			first = jobs.NodeReplicas{Node: x.Node, Replicas: n}
		}
	}
	if first.Replicas == 0 || first.Replicas < min(least, j.want.Most()) {
		return first, false
	}
	j.order = order{jobs.Placement{first}, time.Now(), underWay}
	return first, true
}

// Use takes note of the hosts that the job begins with.
func (j *Job) Use(nodes []jobs.NodeSlots) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.hosts = make(map[string]int)
	for _, n := range nodes {
		j.hosts[n.Node] = n.Slots
	}
}

// next is what the launcher should be told: the replicas that are wanted and have units, and of
// those that are there as many as the job needs to go on. j.mu is held.
func (j *Job) next(least int) (p jobs.Placement) {
	have := j.units.held()
	for _, x := range j.want {
		if n := min(x.Replicas, have.On(x.Node)); n > 0 {
			p = append(p, jobs.NodeReplicas{Node: x.Node, Replicas: n})
		}
	}
	for _, x := range j.order.placement {
		if stay := min(least-p.Replicas(), min(x.Replicas, have.On(x.Node))-p.On(x.Node)); stay > 0 {
			p = p.Add(x.Node, stay)
		}
	}
	return p
}

// Hold implements remote.Slots.
func (j *Job) Hold(ctx context.Context, number int, host string) (remote.Held, func(), error) {
	if j.env.Local != "" {
		host = j.env.Local
	}
	for {
		j.mu.Lock()
		u, freed := j.units.hold(number, host)
		j.mu.Unlock()
		if u != nil {
			j.awaken()
			held := remote.Held{CPUs: u.CPUs, GPUs: u.GPUs}
			if held.GPUs == nil {
				held.GPUs = []string{}
			}
			return held, func() { j.left(u) }, nil
		}
		select {
		case <-freed:
		case <-ctx.Done():
			return remote.Held{}, nil, fmt.Errorf("tune: trial %d worker %d on %s: %w", j.trial, number, host, context.Cause(ctx))
		}
	}
}

// left takes note of a worker that has ended.
func (j *Job) left(u *slots.Unit) {
	j.mu.Lock()
	j.units.left(u)
	j.mu.Unlock()
	j.awaken()
}

// state is what decisions are made by.
func (j *Job) state() jobs.State {
	j.mu.Lock()
	defer j.mu.Unlock()
	return jobs.State{Trial: j.trial, On: slices.Clone(j.want), Profile: j.profile, ChangeCost: j.cost, Fixed: j.refusals.fixed(time.Now())}
}

// stay gives up what was decided and could not be carried out: the trial keeps the replicas that it
// has, and gives back slots in which none could be started. j.mu is held.
func (j *Job) stay(why string) {
	j.want, j.since = j.units.used(), time.Now()
	j.env.Logger.Warn("tune: the replicas of a trial could not be changed as decided", "trial", j.trial, "replicas", j.want.String(), "cause", why)
	j.due(fmt.Sprintf("the replicas of trial %d could not be changed", j.trial))
}
