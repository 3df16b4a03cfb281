package simulate

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/paragon-train/paragon/sampler"
)

// A Kind is a kind of fault.
type Kind uint8

const (
	// KillWorker ends A without a leave request; its connections are reset.
	KillWorker Kind = iota
	// LoseWorker ends A and leaves its connections open, as a host without power does.
	LoseWorker
	// KillServer is the same as KillWorker.
	KillServer
	// LoseServer is the same as LoseWorker.
	LoseServer
	// KillScheduler ends the scheduler. It starts again after For, on what it has written.
	KillScheduler
	// Cut resets the connections between A and B.
	Cut
	// Break is the same as seen by A, while its requests arrive up to For late.
	Break
	// Drop loses what A sends to B for For; then their connections are reset.
	Drop
	// Refuse resets the connections between A and B, and A makes no new ones for For.
	Refuse
	// Slow delays what A and B send each other by up to 200 ms, for For.
	Slow
	// Pause lets A stand still for For, as by SIGSTOP.
	Pause
	// Partition keeps the first half of the workers and the rest from hearing each other for For.
	Partition
	// Join starts a new worker.
	Join
	// Remove asks worker A to leave.
	Remove
	// AddServer starts one more server, and shards move to it.
	AddServer
	// RemoveServer asks server A to leave, and its shards move to others.
	RemoveServer
	// Leave sends worker A SIGTERM.
	Leave
	kinds
)

var kindNames = [kinds]string{"kill worker", "lose worker", "kill server", "lose server", "kill scheduler", "cut", "break", "drop", "refuse", "slow",
	"pause", "partition", "join", "remove", "add server", "remove server", "leave"}

func (k Kind) String() string { return kindNames[k] }

// Kinds returns all kinds.
func Kinds() []Kind {
	all := make([]Kind, kinds)
	for i := range all {
		all[i] = Kind(i)
	}
	return all
}

// A Fault is one thing that happens to the job.
type Fault struct {
	// At is the time since all workers began.
	At   time.Duration
	Kind Kind
	// A and B are hosts: worker0, server1, scheduler.
	A, B string
	For  time.Duration
}

func (f Fault) String() string {
	s := fmt.Sprintf("%8.3fs  %v", f.At.Seconds(), f.Kind)
	for _, host := range []string{f.A, f.B} {
		if host != "" {
			s += " " + host
		}
	}
	if f.For > 0 {
		s += fmt.Sprintf(" for %v", f.For)
	}
	return s
}

// A Program is what the workers of a job run.
type Program uint8

const (
	// Sums pushes and pulls numbers whose sum shows who pushed, without a trainer.
	Sums Program = iota
	// Counts is worker.Fit of a model whose parameters count how often each example was used.
	Counts
	// Floats is worker.Fit with momentum and means: values that round.
	Floats
	// Loop is a loop over kvstore.ElasticSampler that counts how often each example was used.
	Loop
)

func (p Program) String() string { return [...]string{"sums", "counts", "floats", "loop"}[p] }

// A Config says what plans may hold. The zero value of a field takes the default beside it.
type Config struct {
	// Elastic lets workers come, go and be lost while the job goes on.
	Elastic bool
	// Backups of each shard let servers be lost.
	Backups int
	// Journal lets the scheduler be lost.
	Journal bool
	// PerHost is how many workers a host has, which add up within it; 0: each has a host of its
	// own.
	PerHost int
	// MaxFaults is the most faults of a plan; 0: 6.
	MaxFaults int
	// Only, if not empty, are the kinds of faults there may be.
	Only []Kind
	// Programs there may be; all.
	Programs []Program
}

// A Plan is what is decided before a job runs.
type Plan struct {
	Config
	Seed             uint64
	Workers, Servers int
	Program          Program
	// Keys is how many keys Sums and Loop have, Steps how many steps Sums does.
	Keys  int
	Steps int
	// Examples and Epochs are those of the other programs.
	Examples, Epochs int
	Batch            int
	// Split lets Sums push and pull in place of PushPull.
	Split bool
	// Launcher says that a launcher reports to the scheduler the workers that ended with code 0.
	Launcher bool
	Jitter   time.Duration
	Faults   []Fault
}

// order is that of the examples: each kind in a third of all plans.
func (p *Plan) order() sampler.Order {
	switch p.Seed % 3 {
	case 0:
		return sampler.Contiguous
	case 1:
		return sampler.Blocks([]int{0, p.Examples / 7, p.Examples / 3, p.Examples / 2}, 2)
	}
	return sampler.Permutation
}

// The times of simulated jobs.
const (
	heartbeat = 250 * time.Millisecond
	lease     = 3 * time.Second
	// compute is the longest time that a step computes.
	compute = 100 * time.Millisecond
	// briefly is how long at most a node may be unreachable without being declared lost:
	// shorter than the lease and than the time that the scheduler leaves a node whose
	// connection ended.
	briefly = 600 * time.Millisecond
)

// NewPlan is the plan of a seed.
func NewPlan(seed uint64, cfg Config) Plan {
	r := rand.New(rand.NewPCG(seed, 0x73696d756c617465))
	if len(cfg.Programs) == 0 {
		cfg.Programs = []Program{Sums, Counts, Floats, Loop}
	}
	p := Plan{
		Config: cfg, Seed: seed, Workers: 2 + r.IntN(3), Servers: 1 + r.IntN(3), Program: cfg.Programs[r.IntN(len(cfg.Programs))],
		Keys: 3 + r.IntN(4), Steps: 30 + r.IntN(40), Split: r.IntN(3) == 0, Launcher: r.IntN(2) == 0,
		Batch: 2 + r.IntN(3), Epochs: 2 + r.IntN(3), Jitter: time.Duration(1+r.IntN(12)) * time.Millisecond,
	}
	if p.Backups > 0 {
		p.Servers = max(p.Servers, 2)
	}
	p.Examples = p.Workers*p.Batch*(5+r.IntN(6)) + r.IntN(p.Workers*p.Batch)
	length := time.Duration(p.Steps) * compute / 2
	if p.Program != Sums {
		length = time.Duration(p.Epochs*(p.Examples/(p.Workers*p.Batch)+1)) * compute / 2
	}
	p.Faults = p.draw(r, length)
	return p
}

// draw draws the faults.
func (p *Plan) draw(r *rand.Rand, length time.Duration) []Fault {
	var allowed []Kind
	for _, k := range Kinds() {
		switch {
		case len(p.Only) > 0 && !slices.Contains(p.Only, k):
		case (k == Join || k == Remove || k == Leave) && !p.Elastic:
		case k == Remove && p.PerHost > 1:
			// A removal would meet all workers of the host.
		case (k == AddServer || k == RemoveServer) && p.Backups == 0:
		default:
			allowed = append(allowed, k)
		}
	}
	if len(allowed) == 0 {
		return nil
	}
	// Most jobs can go on after all their faults.
	fatal := r.IntN(4) == 0
	most := p.MaxFaults
	if most == 0 {
		most = 6
	}
	var list []Fault
	var at time.Duration
	joined := 0
	for tries, n := 0, 1+r.IntN(most); len(list) < n && tries < 1000; tries++ {
		f := Fault{Kind: allowed[r.IntN(len(allowed))]}
		if f.At = time.Duration(r.Int64N(int64(length))); len(list) > 0 && r.IntN(3) == 0 {
			// Faults come together.
			f.At = at + time.Duration(r.Int64N(int64(200*time.Millisecond)))
		}
		(&aim{p, r, joined}).at(&f)
		if !fatal && p.endsJob(append(slices.Clone(list), f)) {
			continue
		}
		if f.Kind == Join {
			joined++
		}
		at = f.At
		list = append(list, f)
	}
	slices.SortStableFunc(list, func(a, b Fault) int { return cmp.Compare(a.At, b.At) })
	return list
}

// An aim draws whom a fault meets and how long it lasts.
type aim struct {
	plan *Plan
	r    *rand.Rand

	// joined is the number of workers that join by earlier faults.
	joined int
}

func (a *aim) worker() string { return fmt.Sprint("worker", a.r.IntN(a.plan.Workers+a.joined)) }
func (a *aim) server() string { return fmt.Sprint("server", a.r.IntN(a.plan.Servers)) }

// short is a time that no one is declared lost for, and long one for which everyone is.
func (a *aim) short() time.Duration {
	return time.Duration(a.r.Int64N(int64(briefly))) + time.Millisecond
}

func (a *aim) long() time.Duration {
	return lease + briefly + time.Duration(a.r.Int64N(int64(lease)))
}

// at aims the fault.
func (a *aim) at(f *Fault) {
	switch f.Kind {
	case KillWorker, LoseWorker, Remove, Leave:
		f.A = a.worker()
	case KillServer, LoseServer, RemoveServer:
		f.A = a.server()
	case AddServer:
	case KillScheduler:
		f.For = time.Duration(a.r.Int64N(int64(2 * lease)))
	case Join:
		f.A = fmt.Sprint("worker", a.plan.Workers+a.joined)
	case Partition:
		if f.For = a.short(); a.r.IntN(2) == 0 {
			f.For = a.long()
		}
	case Pause:
		a.atHost(f)
	default:
		a.atLink(f)
	}
}

// atHost chooses the host that stands still. The timers of such a host go on here: a scheduler would
// judge others meanwhile, so it stands still for a short time only. Package bench/faults stops real
// ones.
func (a *aim) atHost(f *Fault) {
	switch a.r.IntN(5) {
	case 0, 1:
		f.A = a.server()
	case 2:
		f.A = "scheduler"
	default:
		f.A = a.worker()
	}
	if f.For = a.short(); a.r.IntN(2) == 0 && f.A != "scheduler" {
		f.For = a.long()
	}
}

// atLink chooses the two ends of a link: most often a worker and a server, else one of them and the
// scheduler, or two workers that may add up within a host.
func (a *aim) atLink(f *Fault) {
	f.A, f.B = a.worker(), a.server()
	switch a.r.IntN(6) {
	case 0:
		f.B = "scheduler"
	case 1:
		f.A, f.B = a.server(), "scheduler"
	case 2, 3:
		for a.plan.PerHost > 1 && (f.B == f.A || !strings.HasPrefix(f.B, "worker")) {
			f.B = a.worker()
		}
	}
	switch f.Kind {
	case Cut:
	case Break:
		f.For = time.Duration(a.r.Int64N(int64(2 * time.Second)))
	case Drop:
		if f.For = a.short(); a.r.IntN(3) == 0 {
			f.For = a.long()
		}
		if a.r.IntN(2) == 0 {
			f.A, f.B = f.B, f.A
		}
	case Slow:
		f.For = a.long()
	default:
		f.For = a.short()
	}
}

// loses names the host that the scheduler may declare lost because of a fault; all: several hosts,
// or the scheduler itself.
func (p *Plan) loses(f Fault) (host string, all bool) {
	long := f.For > briefly
	switch f.Kind {
	case KillWorker, LoseWorker, KillServer, LoseServer, Remove, Leave:
		return f.A, false
	case KillScheduler:
		return "", true
	case Pause:
		if long {
			return f.A, f.A == "scheduler"
		}
	case Drop:
		if long && f.B == "scheduler" {
			return f.A, false
		}
		if long && f.A == "scheduler" {
			return f.B, false
		}
	case Partition:
		return "", long
	}
	return "", false
}

// Lost returns the hosts that faults may have taken from the job, which therefore need not end
// cleanly.
func (p *Plan) Lost() map[string]bool {
	lost := p.outOfReach()
	for _, f := range p.Faults {
		if host, _ := p.loses(f); host != "" && host != "scheduler" {
			lost[host] = true
		}
		if f.Kind == Partition && f.For > briefly {
			for _, host := range p.half() {
				lost[host] = true
			}
		}
	}
	return lost
}

// outOfReach returns the hosts that several faults together may keep from the scheduler for too
// long.
func (p *Plan) outOfReach() map[string]bool {
	lost := map[string]bool{}
	// until is when the consequences of a host's last fault end.
	until := map[string]time.Duration{}
	// outage says that a host was cut off, and not only its connections reset.
	outage := map[string]bool{}
	// The faults are in the order of time.
	for _, f := range p.Faults {
		var hosts []string
		switch {
		case f.Kind == Partition:
			hosts = p.half()
		case f.Kind == Join, f.Kind == AddServer:
		case f.Kind == Pause && f.A == "scheduler":
			for i := range p.Workers {
				hosts = append(hosts, fmt.Sprint("worker", i))
			}
			for i := range p.Servers {
				hosts = append(hosts, fmt.Sprint("server", i))
			}
		case f.Kind == Pause, f.B == "scheduler":
			hosts = []string{f.A}
		case f.A == "scheduler":
			hosts = []string{f.B}
		}
		for _, h := range hosts {
			outage[h] = outage[h] && f.At < until[h]
			if f.At < until[h] && (outage[h] || f.Kind != Cut && f.Kind != Break) {
				lost[h] = true
			}
			outage[h] = outage[h] || f.Kind != Cut && f.Kind != Break
			until[h] = max(until[h], f.At+f.For+lease)
		}
	}
	return lost
}

// half names the workers that a partition separates from all others.
func (p *Plan) half() []string {
	var half []string
	for i := range p.Workers / 2 {
		half = append(half, fmt.Sprint("worker", i))
	}
	return half
}

// MembersChange says that faults may change who contributes.
func (p *Plan) MembersChange() bool {
	for host := range p.Lost() {
		if strings.HasPrefix(host, "worker") {
			return true
		}
	}
	return slices.ContainsFunc(p.Faults, func(f Fault) bool { return f.Kind == Join })
}

// joins says that a worker comes while the job runs.
func (p *Plan) joins(host string) bool {
	return slices.ContainsFunc(p.Faults, func(f Fault) bool { return f.Kind == Join && f.A == host })
}

// Fatal says that the faults may end the job: what holds its parts has not what it needs to go on.
func (p *Plan) Fatal() bool { return p.endsJob(p.Faults) }

func (p *Plan) endsJob(faults []Fault) bool {
	q := *p
	q.Faults = slices.Clone(faults)
	slices.SortStableFunc(q.Faults, func(a, b Fault) int { return cmp.Compare(a.At, b.At) })
	for _, f := range faults {
		if _, all := q.loses(f); all && !q.survives(f) {
			return true
		}
	}
	workers, servers := 0, 0
	for host := range q.Lost() {
		if strings.HasPrefix(host, "worker") {
			workers++
		} else {
			servers++
		}
	}
	// A shard that is being moved has no backup for a moment, and with one server there is none
	// at all.
	if servers > 0 && slices.ContainsFunc(q.Faults, func(f Fault) bool { return f.Kind == AddServer || f.Kind == RemoveServer }) {
		return true
	}
	// One worker of the first ones stays, and one loss of a server is what one backup is for.
	return workers > 0 && (!p.Elastic || workers >= p.Workers) || servers > min(p.Backups, 1)
}

// survives says whether the job goes on although a fault takes several of its nodes, or the
// scheduler.
func (p *Plan) survives(f Fault) bool {
	if f.Kind == Partition {
		return p.Elastic
	}
	return p.Journal
}

func (p *Plan) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "seed %d: %v, %d workers, %d servers", p.Seed, p.Program, p.Workers, p.Servers)
	if p.Program == Sums {
		fmt.Fprintf(&b, ", %d keys, %d steps, push and pull apart: %v", p.Keys, p.Steps, p.Split)
	} else {
		fmt.Fprintf(&b, ", %d examples in batches of %d, %d epochs", p.Examples, p.Batch, p.Epochs)
	}
	fmt.Fprintf(&b, ", messages take up to %v; elastic %v, %d backups, journal %v, launcher %v, workers of a host: %d; may fail: %v\n", p.Jitter, p.Elastic, p.Backups, p.Journal, p.Launcher, max(p.PerHost, 1), p.Fatal())
	for _, f := range p.Faults {
		fmt.Fprintf(&b, "  %v\n", f)
	}
	return b.String()
}
