package tune

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/paragon-train/paragon/internal/member/jobcontrol"
	"github.com/paragon-train/paragon/tune/internal/remote"
	"github.com/paragon-train/paragon/tune/internal/slots"
	"github.com/paragon-train/paragon/tune/jobs"
)

// An elasticJob is an attempt whose replicas come and go. It holds a unit of a node for each
// replica: a replica begins when it has one, and its unit is given back when its processes have
// ended. So replicas are asked for only where units are held.
type elasticJob struct {
	jobs           *Jobs
	trial, attempt int
	unit           slots.Request
	holding        *slots.Holding
	launcher       chan int // its process ID, once
	wake           chan struct{}

	mu        sync.Mutex     // guards all below
	want      jobs.Placement // by the newest decision
	since     time.Time      // when want last changed, or a unit was taken or given back
	commanded jobs.Placement // what the launcher was told last
	under     bool           // it has not been reached
	told      time.Time      // when
	holders   map[*slots.Unit]int
	hosts     map[string]int // those that the job can use, with the replicas that they may have; of hosts files only
	freed     chan struct{}  // closed when next a unit may be free for a worker that waits for one
	job       *jobcontrol.Job
	running   bool // the job is complete: its replicas can change
	profile   string
	cost      time.Duration
	shorts    int    // changes in turn that were not reached
	fixed     string // why no change is tried
	until     time.Time
}

// enter registers an attempt, which decisions then find.
func (j *Jobs) enter(a Attempt) *elasticJob {
	e := &elasticJob{jobs: j, trial: a.Trial, attempt: a.Number, unit: j.unit(a.Resources), holding: j.nodes.Open(), launcher: make(chan int, 1), wake: make(chan struct{}, 1),
		holders: make(map[*slots.Unit]int), freed: make(chan struct{})}
	j.live.Lock()
	defer j.live.Unlock()
	if j.attempts == nil {
		j.attempts = make(map[int]*elasticJob)
	}
	if d := j.decided[a.Trial]; d.attempt == a.Number {
		e.want, e.since = d.on, time.Now()
	}
	j.attempts[a.Trial] = e
	return e
}

// leave ends what enter began. All processes of the attempt have ended.
func (j *Jobs) leave(e *elasticJob) {
	j.live.Lock()
	if j.attempts[e.trial] == e {
		delete(j.attempts, e.trial)
		delete(j.decided, e.trial)
	}
	j.live.Unlock()
	e.holding.Release()
}

// unit is what one replica needs.
func (j *Jobs) unit(given Resources) slots.Request {
	r := j.elasticResources(given)
	return slots.Request{Workers: 1, CPUs: r.CPUsPerSlot, GPUs: r.GPUs}
}

// elasticResources are those of one trial with defaults in place of zeros. Replicas on hosts of the
// hosts file may share processors: there slots= says how many there are.
func (j *Jobs) elasticResources(given Resources) Resources {
	r := j.Resources
	if given != (Resources{}) {
		r = given
	}
	shared := r.CPUsPerSlot == 0 && j.HostFile != ""
	if r = j.resources(given); shared {
		r.CPUsPerSlot = 0
	}
	return r
}

// awaken lets steer look again.
func (e *elasticJob) awaken() {
	select {
	case e.wake <- struct{}{}:
	default:
	}
}

// scale takes a decision.
func (e *elasticJob) scale(on jobs.Placement) {
	e.mu.Lock()
	on = slices.Clone(on)
	for i, x := range on { // a host that was added later has room in the job for as many as began there
		if most, ok := e.hosts[x.Node]; ok {
			on[i].Replicas = min(x.Replicas, most)
		}
	}
	if !e.want.Equal(on) {
		e.want, e.since = on, time.Now()
	}
	e.mu.Unlock()
	e.awaken()
}

// begin waits for replicas and their units, and returns those that the job begins with: all on one
// node, since launch fills its hosts in turn.
func (e *elasticJob) begin(ctx context.Context, least int) (jobs.NodeReplicas, error) {
	for {
		changed := e.jobs.nodes.Changed()
		e.mu.Lock()
		e.exchange()
		first := jobs.NodeReplicas{}
		for _, x := range e.held() {
			if n := min(x.Replicas, e.want.On(x.Node)); n > first.Replicas {
				first = jobs.NodeReplicas{Node: x.Node, Replicas: n}
			}
		}
		if first.Replicas >= min(least, e.want.Most()) && first.Replicas > 0 {
			e.commanded, e.under, e.told = jobs.Placement{first}, true, time.Now()
			e.mu.Unlock()
			return first, nil
		}
		e.mu.Unlock()
		select {
		case <-changed:
		case <-e.wake:
		case <-ctx.Done():
			return jobs.NodeReplicas{}, context.Cause(ctx)
		}
	}
}

// use takes note of the hosts that the job begins with.
func (e *elasticJob) use(nodes []jobs.NodeSlots) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.hosts = make(map[string]int)
	for _, n := range nodes {
		e.hosts[n.Node] = n.Slots
	}
}

// held is what is held of each node. e.mu is held.
func (e *elasticJob) held() jobs.Placement { return placementOf(e.holding.Units()) }

// used is what workers hold; held while none does. e.mu is held.
func (e *elasticJob) used() jobs.Placement {
	units := slices.DeleteFunc(e.holding.Units(), func(u *slots.Unit) bool { _, used := e.holders[u]; return !used })
	if len(units) == 0 {
		return e.held()
	}
	return placementOf(units)
}

func placementOf(units []*slots.Unit) (p jobs.Placement) {
	for _, u := range units {
		if i := slices.IndexFunc(p, func(x jobs.NodeReplicas) bool { return x.Node == u.Node }); i >= 0 {
			p[i].Replicas++
		} else {
			p = append(p, jobs.NodeReplicas{Node: u.Node, Replicas: 1})
		}
	}
	return p
}

// exchange gives back units that are not needed and takes those that are wanted and free. A unit is
// needed while a worker holds it, and while the launcher may start one for it. e.mu is held.
func (e *elasticJob) exchange() {
	units := e.holding.Units()
	for u := range e.holders { // of a node that was lost
		if !slices.Contains(units, u) {
			delete(e.holders, u)
		}
	}
	have := e.held()
	for _, u := range units {
		i := slices.IndexFunc(have, func(x jobs.NodeReplicas) bool { return x.Node == u.Node })
		if _, used := e.holders[u]; !used && have[i].Replicas > max(e.want.On(u.Node), e.commanded.On(u.Node)) {
			have[i].Replicas--
			e.holding.GiveBack(u, e.unit)
			e.since = time.Now()
		}
	}
	for _, x := range e.want {
		if lack := x.Replicas - have.On(x.Node); lack > 0 && len(e.holding.Take(x.Node, e.unit, lack)) > 0 {
			e.since = time.Now()
			close(e.freed)
			e.freed = make(chan struct{})
		}
	}
}

// next is what the launcher should be told: the replicas that are wanted and have units, and of
// those that are there as many as the job needs to go on.
func (e *elasticJob) next(least int) (p jobs.Placement) {
	have := e.held()
	for _, x := range e.want {
		if n := min(x.Replicas, have.On(x.Node)); n > 0 {
			p = append(p, jobs.NodeReplicas{Node: x.Node, Replicas: n})
		}
	}
	for _, x := range e.commanded {
		stay := min(least-p.Replicas(), min(x.Replicas, have.On(x.Node))-p.On(x.Node))
		if stay <= 0 {
			continue
		}
		if i := slices.IndexFunc(p, func(y jobs.NodeReplicas) bool { return y.Node == x.Node }); i >= 0 {
			p[i].Replicas += stay
		} else {
			p = append(p, jobs.NodeReplicas{Node: x.Node, Replicas: stay})
		}
	}
	return p
}

// Hold implements remote.Slots.
func (e *elasticJob) Hold(ctx context.Context, number int, host string) (remote.Held, func(), error) {
	if e.jobs.HostFile == "" {
		host = localName
	}
	for {
		e.mu.Lock()
		freed := e.freed
		for _, u := range e.holding.Units() {
			if _, used := e.holders[u]; used || u.Node != host {
				continue
			}
			e.holders[u] = number
			e.mu.Unlock()
			e.awaken()
			held := remote.Held{CPUs: u.CPUs, GPUs: u.GPUs}
			if held.GPUs == nil {
				held.GPUs = []string{}
			}
			return held, func() { e.left(u) }, nil
		}
		e.mu.Unlock()
		select {
		case <-freed:
		case <-ctx.Done():
			return remote.Held{}, nil, fmt.Errorf("tune: trial %d worker %d on %s: %w", e.trial, number, host, context.Cause(ctx))
		}
	}
}

// left takes note of a worker that has ended.
func (e *elasticJob) left(u *slots.Unit) {
	e.mu.Lock()
	delete(e.holders, u)
	close(e.freed)
	e.freed = make(chan struct{})
	e.mu.Unlock()
	e.awaken()
}

// state is what decisions are made by.
func (e *elasticJob) state() jobs.State {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.fixed != "" && time.Now().After(e.until) {
		e.fixed, e.shorts = "", 0
	}
	return jobs.State{Trial: e.trial, On: slices.Clone(e.want), Profile: e.profile, ChangeCost: e.cost, Fixed: e.fixed}
}

// stay gives up what was decided and could not be carried out: the trial keeps the replicas that it
// has, and gives back slots in which none could be started. e.mu is held.
func (e *elasticJob) stay(why string) {
	e.want, e.since = e.used(), time.Now()
	e.jobs.logger().Warn("tune: the replicas of a trial could not be changed as decided", "trial", e.trial, "replicas", e.want.String(), "cause", why)
	e.jobs.change(fmt.Sprintf("the replicas of trial %d could not be changed", e.trial))
}

// Scalable implements Scaler.
func (j *Jobs) Scalable(r Resources, least int) error {
	given := j.Resources
	if r != (Resources{}) {
		given = r
	}
	switch {
	case j.NoServers:
		return fmt.Errorf("trials are elastic jobs with servers: got Jobs.NoServers, want it off")
	case given.Hosts > 0 || given.Slots > 0:
		return fmt.Errorf("Resources has %d hosts and %d slots for a trial: leave both out, since the scheduler decides how many replicas a trial has", given.Hosts, given.Slots)
	}
	for _, f := range j.LaunchFlags {
		if slices.Contains([]string{"elastic-training-enabled", "min-workers", "max-workers", "adapt-workers", "on-worker-loss", "n", "num-workers", "H", "hostfile"}, cutFlag(f)) {
			return fmt.Errorf("Jobs.LaunchFlags has %s: the trials are elastic jobs, and their replicas are the scheduler's", f)
		}
	}
	if err := j.prepare(context.Background()); err != nil {
		return err
	}
	unit := j.unit(r)
	if err := j.nodes.Fits(unit); err != nil {
		return err
	}
	all, err := j.Slots(context.Background(), r)
	if err != nil {
		return err
	}
	total := 0
	for _, n := range all {
		total += n.Slots
	}
	if total < least {
		return fmt.Errorf("a trial needs at least %d replicas, and the nodes have %d slots", least, total)
	}
	return nil
}

// Slots implements Scaler.
func (j *Jobs) Slots(ctx context.Context, r Resources) (all []jobs.NodeSlots, err error) {
	if err := j.prepare(ctx); err != nil {
		return nil, err
	}
	unit := j.unit(r)
	for _, u := range j.nodes.Usage() {
		if n := u.Fit(unit); n > 0 && !u.Leaving {
			all = append(all, jobs.NodeSlots{Node: u.Name, Slots: min(n, maxReplicas)})
		}
	}
	return all, nil
}

// maxReplicas bounds the replicas on a node without a number of slots.
const maxReplicas = 1 << 16

// States implements Scaler.
func (j *Jobs) States(ctx context.Context, trials []int) map[int]jobs.State {
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	var mu sync.Mutex
	all := make(map[int]jobs.State)
	var asking sync.WaitGroup
	for _, n := range trials {
		j.live.Lock()
		e := j.attempts[n]
		j.live.Unlock()
		if e == nil {
			continue
		}
		asking.Go(func() {
			e.refresh(ctx)
			mu.Lock()
			defer mu.Unlock()
			all[n] = e.state()
		})
	}
	asking.Wait()
	return all
}

// statusTimeout bounds the questions to all jobs before a decision.
const statusTimeout = 2 * time.Second

// A decided placement waits for the attempt that it is for.
type decidedPlacement struct {
	attempt int
	on      jobs.Placement
}

// Scale implements Scaler.
func (j *Jobs) Scale(trial, attempt int, on jobs.Placement) {
	j.live.Lock()
	e := j.attempts[trial]
	if e == nil || e.attempt != attempt {
		if j.decided == nil {
			j.decided = make(map[int]decidedPlacement)
		}
		j.decided[trial] = decidedPlacement{attempt, on}
	}
	j.live.Unlock()
	if e != nil && e.attempt == attempt && len(on) > 0 {
		e.scale(on)
	}
}

// Changes implements Scaler.
func (j *Jobs) Changes() <-chan string {
	j.live.Lock()
	defer j.live.Unlock()
	if j.changes == nil {
		j.changes = make(chan string, 16)
	}
	return j.changes
}

// change says why a decision about replicas is due.
func (j *Jobs) change(cause string) {
	j.live.Lock()
	defer j.live.Unlock()
	select {
	case j.changes <- cause: // a nil channel: nobody divides nodes
	default: // a decision is due anyway
	}
}

// cutFlag is the name of a flag of a command line, without its dashes and its value; "": it is
// none.
func cutFlag(word string) string {
	name, _, _ := strings.Cut(strings.TrimLeft(word, "-"), "=")
	if !strings.HasPrefix(word, "-") {
		return ""
	}
	return name
}
