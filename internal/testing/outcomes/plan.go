package outcomes

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/paragon-train/paragon/internal/hosts/hosts"
)

// The times of all jobs.
const (
	heartbeat     = 4 * time.Second
	lease         = 12 * time.Second
	startTimeout  = 45 * time.Second
	joinTimeout   = 20 * time.Second
	rejoinTimeout = 25 * time.Second
	checkpointing = 15 * time.Second

	// quiet is for how long nothing happens at a rest: longer than any of the times above, and
	// than any pause before something is tried again.
	quiet = 36 * time.Second
	// longest bounds the time from one rest to the next.
	longest = 5 * time.Minute
)

// A Job is the settings of a job.
type Job struct {
	// Remote jobs have hosts; others run all on the launching machine.
	Remote bool
	// DialIn says that hosts come by themselves: one that was lost and is back is added again.
	DialIn bool
	// Hosts is the hosts file, with slots.
	Hosts            []hosts.Host
	Workers, Servers []hosts.Host
	SchedulerHost    *hosts.Host

	Elastic bool
	// Loss is shrink, wait or fail; empty: the default.
	Loss    string
	Rejoin  int
	Backups int
	// Kept says that the scheduler has a journal.
	Kept     bool
	Min, Max int
	Adapt    bool
	Prepare  bool

	Heartbeat, Lease, Patience, StartTimeout, JoinTimeout, RejoinTimeout, CheckpointTime time.Duration

	// Checkpoints says that the workers have a folder for checkpoints.
	Checkpoints bool
	Keys        int
	// Alone says that the workers never join the job, Stray that one of them does not: they end
	// after a time.
	Alone, Stray bool
}

// changes reports whether processes may come and go while the job runs.
func (j *Job) changes() bool {
	return j.Elastic || j.Loss == "shrink" || j.Loss == "wait" || j.Backups > 0
}

func (j *Job) String() string {
	s := fmt.Sprintf("workers %v, servers %v, hosts %v", j.Workers, j.Servers, entries(j.Hosts))
	if !j.Remote {
		s = fmt.Sprintf("%d workers and %d servers beside launch", len(j.Workers), len(j.Servers))
	}
	if j.SchedulerHost != nil {
		s += ", scheduler on " + j.SchedulerHost.String()
	}
	for _, x := range []struct {
		is   bool
		text string
	}{
		{j.DialIn, "agents dial in"}, {j.Elastic, "elastic"}, {j.Loss != "", "loss: " + j.Loss}, {j.Rejoin > 0, fmt.Sprint("rejoin ", j.Rejoin)},
		{j.Backups > 0, "backups"}, {!j.Kept, "no journal"}, {j.Min > 0, fmt.Sprint("min ", j.Min)}, {j.Max > 0, fmt.Sprint("max ", j.Max)},
		{j.Adapt, "adapts"}, {j.Prepare, "prepares hosts"}, {!j.Checkpoints, "no folder for checkpoints"}, {j.Alone, "no worker joins"}, {j.Stray, "one worker does not join"},
	} {
		if x.is {
			s += ", " + x.text
		}
	}
	return s
}

func entries(list []hosts.Host) string {
	var all []string
	for _, h := range list {
		all = append(all, h.Entry())
	}
	return strings.Join(all, "; ")
}

// A Command is what a user asks of a running job with launch ctl.
type Command struct {
	// Do is add, remove, scale, place (scale on named hosts), add-server, remove-server or
	// stop.
	Do   string
	Host string
	// N is slots, workers, or a server's rank.
	N         int
	Placement []hosts.Host
}

func (c Command) String() string {
	switch c.Do {
	case "place":
		return "scale " + entries(c.Placement)
	case "add":
		return fmt.Sprintf("add %s slots=%d", c.Host, c.N)
	case "scale", "remove-server":
		return fmt.Sprintf("%s %d", c.Do, c.N)
	}
	return strings.TrimSpace(c.Do + " " + c.Host)
}

// An Act is one thing that happens to the job from outside.
type Act struct {
	// After is the time since the act before, or since the rest.
	After time.Duration
	Kind  string
	// Command is what a user asks, for the kind ctl.
	Command Command
	Host    string
	// Pick chooses one of those whom the act may meet.
	Pick int
	N    int
	For  time.Duration
}

func (a Act) String() string {
	if a.Kind == "ctl" {
		return "ctl " + a.Command.String()
	}
	s := a.Kind
	if a.Host != "" {
		s += " " + a.Host
	}
	if a.Kind == "wish" || a.Kind == "signal" || a.Kind == "crash on" {
		s += fmt.Sprint(" ", a.N)
	}
	if a.For > 0 {
		s += fmt.Sprintf(" for %v", a.For)
	}
	return s
}

// A Plan is all that a seed decides beforehand.
type Plan struct {
	Seed   uint64
	Job    Job
	Groups [][]Act
	// Early says that the first group does not wait for the job to be complete.
	Early bool
}

func (p *Plan) String() string {
	s := fmt.Sprintf("seed %d: %s", p.Seed, p.Job.String())
	return s
}

// NewPlan is the plan of a seed.
func NewPlan(seed uint64) *Plan {
	r := rand.New(rand.NewPCG(seed, 0x6f7574636f6d6573))
	p := &Plan{Seed: seed, Job: newJob(r), Early: r.IntN(6) == 0}
	fatal, groups := r.IntN(3) == 0, 2+r.IntN(5)
	for i := range groups {
		var group []Act
		for range 1 + r.IntN(4) {
			a := p.Job.draw(r, fatal && i == groups-1 || p.Early && i == 0 && r.IntN(6) == 0)
			a.After = []time.Duration{0, 30 * time.Millisecond, 400 * time.Millisecond, 2 * time.Second, 7 * time.Second, 15 * time.Second}[r.IntN(6)] +
				time.Duration(r.IntN(1_000_000))
			group = append(group, a)
		}
		p.Groups = append(p.Groups, group)
	}
	return p
}

func one[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }

func newJob(r *rand.Rand) Job {
	j := Job{Heartbeat: heartbeat, Lease: lease, Patience: lease, StartTimeout: startTimeout, JoinTimeout: joinTimeout, RejoinTimeout: rejoinTimeout, CheckpointTime: checkpointing,
		Checkpoints: r.IntN(4) > 0, Keys: 1 + r.IntN(3), Rejoin: one(r, 0, 1, 1, 2, 2), Prepare: r.IntN(3) == 0, Elastic: r.IntN(4) > 0}
	workers, servers := one(r, 1, 2, 2, 2, 3, 3, 3, 4, 4, 5), 1+r.IntN(3)
	if servers > 1 && r.IntN(2) == 0 {
		j.Backups = 1
	}
	if j.Elastic {
		j.Loss = one(r, "", "", "", "", "wait", "fail")
		j.Min, j.Max = one(r, 0, 0, 1+r.IntN(workers)), one(r, 0, 0, workers+r.IntN(3))
		j.Adapt = j.Max > 0 && r.IntN(2) == 0
	} else {
		j.Loss = one(r, "", "shrink", "wait")
	}
	j.Alone, j.Stray = r.IntN(40) == 0, r.IntN(40) == 0
	j.Kept = j.changes() && r.IntN(8) > 0
	if j.Kept {
		j.Patience = time.Minute
	}
	if r.IntN(5) == 0 {
		for range workers {
			j.Workers = append(j.Workers, hosts.Local)
		}
		for range servers {
			j.Servers = append(j.Servers, hosts.Local)
		}
		return j
	}
	j.Remote, j.DialIn = true, j.Elastic && r.IntN(3) == 0
	if !j.DialIn && r.IntN(6) == 0 {
		j.SchedulerHost = &hosts.Host{Name: one(r, "d1", "d9")}
	}
	for i := range 2 + r.IntN(4) {
		h := hosts.Host{Name: fmt.Sprint("d", i+1)}
		if r.IntN(2) == 0 {
			h.Slots = 1 + r.IntN(3)
		}
		j.Hosts = append(j.Hosts, h)
	}
	// As a hosts file is filled: the slots of each host, then the hosts again.
	for i := 0; len(j.Workers) < workers; i++ {
		h := j.Hosts[i%len(j.Hosts)]
		n := max(h.Slots, 1)
		for h.Slots = 0; n > 0 && len(j.Workers) < workers; n-- {
			j.Workers = append(j.Workers, h)
		}
	}
	for i := range servers {
		h := j.Hosts[i%len(j.Hosts)]
		h.Slots = 0
		j.Servers = append(j.Servers, h)
	}
	return j
}

// kinds are the acts that may happen to the job. Most jobs can go on after them; with fatal many
// cannot.
func (j *Job) kinds(fatal bool) []string {
	if fatal {
		return []string{"stop", "signal", "usr1", "cancel", "signal twice", "training ends", "scheduler fails", "scheduler is told to end", "kill scheduler", "worker fails finally",
			"kill worker", "worker fails", "worker ends", "worker is told to end", "worker stands still", "kill server", "server fails", "server stands still",
			"host lost", "host lost silently", "notice"}
	}
	kinds := []string{"link cut", "answers lost", "messages repeated", "crash on", "slow on"}
	if j.Elastic && j.Loss != "fail" || j.Loss == "shrink" || j.Loss == "wait" {
		kinds = append(kinds, "kill worker", "kill worker", "worker fails", "worker ends", "worker stands still")
	}
	if j.Elastic {
		kinds = append(kinds, "worker is told to end")
	}
	if j.Kept {
		kinds = append(kinds, "kill scheduler", "kill scheduler", "scheduler stands still")
	}
	if j.Remote {
		kinds = append(kinds, "host refuses", "at risk", "notice withdrawn", "notice")
		if j.Backups > 0 {
			kinds = append(kinds, "host lost", "host lost", "host lost silently", "notice", "notice")
		}
	}
	if j.Elastic {
		kinds = append(kinds, "ctl", "ctl", "ctl", "ctl", "ctl", "ctl", "ctl", "ctl", "edit add", "edit remove", "edit remove")
	}
	if j.Adapt {
		kinds = append(kinds, "wish", "wish", "wish")
	}
	if j.Backups > 0 {
		kinds = append(kinds, "server command", "server command", "kill server", "server fails", "server stands still")
	}
	return kinds
}

// draw draws one act.
func (j *Job) draw(r *rand.Rand, fatal bool) Act {
	a := Act{Pick: r.IntN(1000), Host: j.drawHost(r), For: time.Duration(500+r.IntN(9000)) * time.Millisecond}
	kinds := j.kinds(fatal)
	switch a.Kind = kinds[r.IntN(len(kinds))]; a.Kind {
	case "ctl":
		a.Command = j.drawCommand(r)
		a.Host, a.For = "", 0
	case "server command":
		a.Kind, a.For = "ctl", 0
		a.Command = Command{Do: one(r, "add-server", "remove-server"), N: r.IntN(3)}
		if a.Command.Do == "add-server" && r.IntN(2) == 0 {
			a.Command.Host = a.Host
		}
		a.Host = ""
	case "stop":
		a = Act{Kind: "ctl", Command: Command{Do: "stop"}}
	case "host lost", "host lost silently", "host refuses":
		a.For *= time.Duration(1 + r.IntN(8))
		if r.IntN(3) == 0 {
			a.For = time.Hour
		}
	case "notice", "notice withdrawn":
		a.For = one(r, 15*time.Second, 45*time.Second, 100*time.Second)
	case "worker stands still", "server stands still", "scheduler stands still":
		a.For *= time.Duration(1 + r.IntN(5))
		a.Host = ""
	case "wish":
		a.N, a.Host, a.For = 1+r.IntN(6), "", 0
	case "signal", "signal twice":
		a.N, a.Host, a.For = one(r, 2, 15), "", 0
	case "crash on":
		a.N, a.For = 1+r.IntN(3), 0
	case "link cut", "answers lost", "messages repeated":
		a.Host = ""
	case "slow on":
		a.For *= 3
	default:
		if !slices.Contains([]string{"edit add", "edit remove", "at risk"}, a.Kind) {
			a.Host = ""
		}
		a.For = 0
	}
	return a
}

// drawHost draws one of the job's hosts, or another one.
func (j *Job) drawHost(r *rand.Rand) string {
	if !j.Remote {
		return "localhost"
	}
	return fmt.Sprint("d", 1+r.IntN(len(j.Hosts)+1))
}

func (j *Job) drawCommand(r *rand.Rand) Command {
	switch r.IntN(6) {
	case 0, 1:
		return Command{Do: "add", Host: j.drawHost(r), N: 1 + r.IntN(2)}
	case 2:
		return Command{Do: "remove", Host: j.drawHost(r)}
	case 3:
		c := Command{Do: "place"}
		for range 1 + r.IntN(3) {
			h := hosts.Host{Name: j.drawHost(r), Slots: 1 + r.IntN(2)}
			if !slices.ContainsFunc(c.Placement, h.Same) {
				c.Placement = append(c.Placement, h)
			}
		}
		return c
	}
	return Command{Do: "scale", N: 1 + r.IntN(6)}
}
