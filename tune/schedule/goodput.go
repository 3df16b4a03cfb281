package schedule

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/paragon-train/paragon/adapt/allocate"
	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/tune"
	"github.com/paragon-train/paragon/tune/jobs"
)

// Goodput divides the slots of nodes among the trials, which run as elastic jobs (tune.Jobs):
// replicas join and leave them while they train, by the goodput that each job predicts for itself
// and by what is fair (package adapt/allocate has the rules). It stops no trial; Inner may.
//
// A trial without a profile is taken to scale perfectly and explored: it gets at most First
// replicas, and then at most Growth times as many as those with which it has reported. A trial that
// is to give up all of its slots is paused at its next report if it has a checkpoint, and continues
// from there; without one it keeps MinReplicas.
type Goodput struct {
	// Fairness is the exponent p of the power mean of the trials' speedups that is maximized: 1
	// is the sum, and the lower it is, the more the worst off count. Zero is −1, the harmonic
	// mean. At most 1.
	Fairness float64
	// Completion seeks the least mean time until trials end in place of that mean: short trials
	// get most and end early, while long ones may wait.
	Completion bool
	// First and Growth limit how fast a trial is given replicas that it has not had yet. Zero
	// is as in allocate.Config.
	First  int
	Growth float64
	// MinReplicas and MaxReplicas bound a trial's replicas while it runs. Zero is one, and no
	// bound.
	MinReplicas, MaxReplicas int
	// NonPreemptible lets all trials keep the replicas that they were given first; Pinned are
	// numbers of trials that do.
	NonPreemptible bool
	Pinned         []int
	// Interval is the time after which a decision is due, whatever happened. Zero is a minute.
	Interval time.Duration
	// ReportsPerDecision is after how many reports of all trials together a decision is due.
	// Zero is 100, below zero is never.
	ReportsPerDecision int
	// Hysteresis is the part by which a trial's goodput must rise, beyond the cost of the
	// change, for its replicas to change. Zero is as in allocate.Config; below zero is none.
	Hysteresis float64
	// ChangeCost is the time for which a trial makes no progress when its replicas change. Zero
	// is what its job has measured, 2 seconds before its first change.
	ChangeCost time.Duration
	// MaxStep is the last step of a trial, by which the work that is left is known. Zero is
	// Inner's, if that is an ASHA; else it is not known.
	MaxStep int
	// Inner stops and pauses trials; nil is tune.FIFO.
	Inner tune.Scheduler

	trials map[int]*goodputTrial
	// parked are the trials that this scheduler has paused, the oldest first.
	parked []int
}

// A goodputTrial is what Goodput remembers of a trial.
type goodputTrial struct {
	on jobs.Placement
	// since is when on was decided.
	since   time.Duration
	changes int
	// explored is the most replicas with which the trial has reported.
	explored int
	// parking says that the trial was told to give up what it has.
	parking bool
}

const (
	defaultDecisionReports = 100
	defaultInterval        = time.Minute
	defaultChangeCost      = 2 * time.Second
)

// Validate says what is wrong with the fields.
func (g *Goodput) Validate() error {
	switch {
	case g.MinReplicas < 0 || g.MaxReplicas < 0:
		return fmt.Errorf("schedule: Goodput: MinReplicas is %d and MaxReplicas %d: want 0 or more", g.MinReplicas, g.MaxReplicas)
	case g.MaxReplicas > 0 && g.MinReplicas > g.MaxReplicas:
		return fmt.Errorf("schedule: Goodput: MinReplicas %d is above MaxReplicas %d", g.MinReplicas, g.MaxReplicas)
	case g.ChangeCost < 0:
		return fmt.Errorf("schedule: Goodput: ChangeCost is %v: want 0 (as measured) or more", g.ChangeCost)
	case g.MaxStep < 0:
		return fmt.Errorf("schedule: Goodput: MaxStep is %d: want 0 (not known) or more", g.MaxStep)
	case slices.ContainsFunc(g.Pinned, func(n int) bool { return n < 0 }):
		return fmt.Errorf("schedule: Goodput: Pinned is %v: want numbers of trials, from 0", g.Pinned)
	}
	if g.Completion && g.Fairness != 0 {
		return fmt.Errorf("schedule: Goodput: Fairness is %v, and Completion is set: want one of them", g.Fairness)
	}
	if err := g.config().Validate(); err != nil {
		return fmt.Errorf("schedule: Goodput: %w", err)
	}
	if _, ok := g.Inner.(tune.Allocator); ok {
		return fmt.Errorf("schedule: Goodput: Inner is %T, which divides nodes, too: want a scheduler that stops trials, such as ASHA", g.Inner)
	}
	return validate(g.Inner)
}

// config is the configuration of package allocate.
func (g *Goodput) config() allocate.Config {
	objective := allocate.Fair
	if g.Completion {
		objective = allocate.Completion
	}
	return allocate.Config{Objective: objective, Fairness: g.Fairness, Hysteresis: g.Hysteresis, First: g.First, Growth: g.Growth, Interval: g.Interval}
}

// Replicas implements tune.Allocator.
func (g *Goodput) Replicas() (least, most int) { return max(g.MinReplicas, 1), g.MaxReplicas }

// Pace implements tune.Allocator.
func (g *Goodput) Pace() (reports int, interval time.Duration) {
	return max(cmp.Or(g.ReportsPerDecision, defaultDecisionReports), 0), cmp.Or(g.Interval, defaultInterval)
}

// Started implements tune.Scheduler.
func (g *Goodput) Started(v tune.View, trial int) {
	g.parked = slices.DeleteFunc(g.parked, func(n int) bool { return n == trial })
	// Another attempt begins with nothing.
	if t := g.trials[trial]; t != nil {
		t.on, t.parking = nil, false
	}
	if g.Inner != nil {
		g.Inner.Started(v, trial)
	}
}

// Reported implements tune.Scheduler.
func (g *Goodput) Reported(v tune.View, trial int, rng *rand.Rand) tune.Decision {
	if g.Inner == nil {
		return tune.Go()
	}
	return g.Inner.Reported(v, trial, rng)
}

// Ended implements tune.Scheduler.
func (g *Goodput) Ended(v tune.View, trial int) {
	g.parked = slices.DeleteFunc(g.parked, func(n int) bool { return n == trial })
	if g.Inner != nil {
		g.Inner.Ended(v, trial)
	}
}

// Next implements tune.Scheduler: trials that were paused to give up their slots continue first.
func (g *Goodput) Next(v tune.View) tune.TrialChoice {
	for _, n := range g.parked {
		if t := v.Trial(n); t != nil && t.State == tune.Paused {
			return tune.TrialChoice{Kind: tune.ChoosePaused, Trial: n, Rule: "goodput: it waits for slots again"}
		}
	}
	if g.Inner != nil {
		return g.Inner.Next(v)
	}
	return tune.TrialChoice{}
}

// Allocate implements tune.Allocator.
func (g *Goodput) Allocate(v tune.View, s jobs.AllocationRequest) []jobs.Share {
	asking := make([]allocate.Job, len(s.Jobs))
	for i, j := range s.Jobs {
		asking[i] = g.job(v, j)
	}
	nodes := make([]allocate.Node, len(s.Nodes))
	for i, n := range s.Nodes {
		nodes[i] = allocate.Node{Name: n.Node, Slots: n.Slots}
	}
	decisions, err := g.divide(nodes, asking, s)
	shares := make([]jobs.Share, len(s.Jobs))
	for i, j := range s.Jobs {
		shares[i] = jobs.Share{Trial: j.Trial, On: remaining(j.On, s.Nodes)}
		if err != nil {
			// No division meets the request: all trials keep what they have.
			shares[i].Rule = err.Error()
			continue
		}
		d := decisions[i]
		t := g.trials[j.Trial]
		switch {
		case len(d.Allocation) == 0 && len(j.On) > 0 && j.Pausable:
			shares[i].On, shares[i].Pause, shares[i].Rule = nil, true, d.Reason+"; it continues from its checkpoint"
			if !t.parking {
				t.parking = true
				g.parked = append(g.parked, j.Trial)
			}
			continue
		case d.Changed:
			shares[i].On, shares[i].Rule = placement(d.Allocation, s.Nodes), d.Reason
		case len(j.On) == 0:
			shares[i].Rule = d.Reason
		}
		if t.parking {
			t.parking = false
			g.parked = slices.DeleteFunc(g.parked, func(n int) bool { return n == j.Trial })
		}
		if on := shares[i].On; on.String() != t.on.String() {
			t.changes += b2i(len(t.on) > 0)
			t.on, t.since = on, v.Elapsed()
		}
	}
	return shares
}

// b2i is 1 for true and 0 for false.
func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

// divide divides the nodes. A job that runs and cannot be paused is not left without replicas: it
// keeps the least.
func (g *Goodput) divide(nodes []allocate.Node, asking []allocate.Job, s jobs.AllocationRequest) ([]allocate.Decision, error) {
	kept := make(map[int]bool)
	for {
		decisions, err := allocate.Divide(g.config(), nodes, asking)
		if err != nil {
			return nil, err
		}
		again := false
		for i := range decisions {
			d, on := &decisions[i], remaining(s.Jobs[i].On, s.Nodes)
			switch {
			case kept[i]:
				d.Changed = d.Allocation.Replicas() != s.Jobs[i].On.Replicas()
				d.Reason = fmt.Sprintf("keeps %d of its %d replicas: it has no checkpoint to be paused from, and the other slots are worth more to other jobs", d.Allocation.Replicas(), s.Jobs[i].On.Replicas())
			case len(d.Allocation) == 0 && len(on) > 0 && !s.Jobs[i].Pausable:
				kept[i], again = true, true
				asking[i].NonPreemptible, asking[i].Current = true, least(on, max(g.MinReplicas, 1))
			}
		}
		if !again {
			return decisions, nil
		}
	}
}

// job is a trial as package allocate sees it.
func (g *Goodput) job(v tune.View, j jobs.State) allocate.Job {
	t := g.remember(v, j)
	trial := v.Trial(j.Trial)
	p := readProfile(j.Profile)
	a := allocate.Job{ID: fmt.Sprintf("%09d", j.Trial), Min: max(g.MinReplicas, 1), Max: g.MaxReplicas, Current: allocation(j.On), Goodput: goodputOf(p),
		Age: max(v.Elapsed()-trial.StartedAt, 0), Changes: t.changes, ChangeCost: g.cost(j, p), Remaining: g.remaining(trial, p)}
	switch {
	case j.Fixed != "":
		a.NonPreemptible = true
	case g.NonPreemptible || slices.Contains(g.Pinned, j.Trial):
		a.NonPreemptible = true
	}
	if t.explored > 0 {
		// The job says nothing of its training, and will not.
		if a.Profiled = t.explored; a.Goodput == nil {
			a.Goodput = func(_, replicas int) float64 { return float64(replicas) }
		}
	}
	return a
}

// remember brings what is known of a trial up to date.
func (g *Goodput) remember(v tune.View, j jobs.State) *goodputTrial {
	if g.trials == nil {
		g.trials = make(map[int]*goodputTrial)
	}
	t := g.trials[j.Trial]
	if t == nil {
		t = &goodputTrial{}
		g.trials[j.Trial] = t
	}
	if r := v.Trial(j.Trial).Reports; len(r) > 0 && r[len(r)-1].At > t.since {
		t.explored = max(t.explored, t.on.Replicas())
	}
	// The decision before could not be carried out.
	if j.On.String() != t.on.String() {
		t.on = j.On
	}
	return t
}

// cost is the time that a change of a trial's replicas takes from its training.
func (g *Goodput) cost(j jobs.State, p *control.Adaptation) time.Duration {
	measured := time.Duration(p.ChangeSeconds * float64(time.Second))
	return cmp.Or(g.ChangeCost, max(measured, 0), j.ChangeCost, defaultChangeCost)
}

// remaining is the work that is left of a trial in the unit of its goodput times seconds: examples
// of the initial batch. 0: not known.
func (g *Goodput) remaining(t *tune.Trial, p *control.Adaptation) float64 {
	last := g.MaxStep
	if a, ok := g.Inner.(*ASHA); ok && last == 0 {
		last = a.MaxStep
	}
	done, _ := t.LastStep()
	if last == 0 || done < 1 || done >= last {
		return 0
	}
	return p.Progress * float64(p.InitialBatch) * float64(last-done) / float64(done)
}

// remaining is what a trial has on nodes that are still there.
func remaining(p jobs.Placement, nodes []jobs.NodeSlots) (left jobs.Placement) {
	for _, x := range p {
		if i := slices.IndexFunc(nodes, func(n jobs.NodeSlots) bool { return n.Node == x.Node }); i >= 0 {
			if x.Replicas = min(x.Replicas, nodes[i].Slots); x.Replicas > 0 {
				left = append(left, x)
			}
		}
	}
	return left
}

// least is so many replicas of a placement, of its first nodes.
func least(p jobs.Placement, n int) allocate.Allocation {
	a := make(allocate.Allocation)
	for _, x := range p {
		if x.Replicas = min(x.Replicas, n); x.Replicas > 0 {
			a[x.Node] = x.Replicas
			n -= x.Replicas
		}
	}
	return a
}

// allocation is a placement as package allocate has it.
func allocation(p jobs.Placement) allocate.Allocation {
	a := make(allocate.Allocation, len(p))
	for _, x := range p {
		a[x.Node] = x.Replicas
	}
	return a
}

// placement is an allocation in the order of the nodes.
func placement(a allocate.Allocation, nodes []jobs.NodeSlots) (p jobs.Placement) {
	for _, n := range nodes {
		if r := a[n.Node]; r > 0 {
			p = append(p, jobs.NodeReplicas{Node: n.Node, Replicas: r})
		}
	}
	return p
}
