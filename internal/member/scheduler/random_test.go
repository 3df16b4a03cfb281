package scheduler

import (
	"cmp"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/paragon-train/paragon/internal/member/cluster"
	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/internal/store/wire"
)

var (
	seeds    = flag.Int("seeds", 0, "how many random jobs to run; 0: forty, or a thousand with PARAGON_TEST_SLOW")
	oneSeed  = flag.Int64("seed", -1, "run this random job alone")
	verbosly = flag.Bool("events", false, "print the events of random jobs")
)

// A world is a random elastic job: workers that step through epochs and do what the messages'
// comments want of them, with losses, joins, removals, lost answers and schedulers that are started
// again. It knows which worker used which example.
type world struct {
	reports uint64 // of a launcher
	t       *testing.T
	seed    int64
	rng     *rand.Rand
	set     Settings
	core    *Core
	now     time.Time
	kept    journalRecords
	request uint64
	open    map[uint64]*worker // requests that wait, by number
	workers []*worker          // all that there ever were
	servers []uint64           // node IDs
	length  int                // examples of an epoch
	epochs  uint64

	epoch      uint64
	steps      uint64
	used       map[int]uint64 // of this epoch: by which worker
	generation uint64
	over       bool
}

// A worker is one worker program.
type worker struct {
	id      uint64
	host    string
	dead    bool // its process is gone, the scheduler may not know yet
	member  bool // it counts
	asks    wire.Message
	share   []int  // examples of the epoch, by the division
	done    int    // of them
	total   uint64 // examples of acknowledged steps since it counted first: what servers have counted
	base    uint64 // of them, before this division and epoch
	divided uint64 // of them, before this division
}

func (w *world) fatal(format string, args ...any) {
	w.t.Helper()
	w.t.Fatalf("seed %d, step %d of epoch %d: %s\nreplay: go test ./internal/member/scheduler -run RandomJobs -seed %d -events", w.seed, w.steps, w.epoch, fmt.Sprintf(format, args...), w.seed)
}

// divided gives each of n workers what the cuts leave of an epoch.
func divided(length int, cuts []wire.Cut, n int) [][]int {
	rest := make([]int, length)
	for i := range rest {
		rest[i] = i
	}
	split := func(n int) (parts [][]int) {
		for i := range n {
			parts = append(parts, rest[len(rest)*i/n:len(rest)*(i+1)/n])
		}
		return parts
	}
	for _, k := range cuts {
		var left []int
		for i, p := range split(int(k.Parts)) {
			left = append(left, p[min(k.Used[i], uint64(len(p))):]...)
		}
		rest = left
	}
	return split(n)
}

func newWorld(t *testing.T, seed int64) *world {
	rng := rand.New(rand.NewPCG(uint64(seed), 7))
	w := &world{t: t, seed: seed, rng: rng, now: time.Unix(0, 0), kept: journalRecords{}, open: make(map[uint64]*worker), used: make(map[int]uint64),
		length: 20 + rng.IntN(200), epochs: uint64(1 + rng.IntN(3))}
	w.set = Settings{Job: "j", Workers: 1 + rng.IntN(4), Servers: 1 + rng.IntN(2), Heartbeat: time.Second, Lease: 10 * time.Second, StartTimeout: time.Minute,
		Elastic: cluster.Elastic{Enabled: rng.IntN(4) > 0, JoinTimeout: 20 * time.Second, RejoinTimeout: 40 * time.Second}}
	w.set.Elastic.OnWorkerLoss = []cluster.LossPolicy{cluster.LossShrink, cluster.LossShrink, cluster.LossWait}[rng.IntN(3)]
	if rng.IntN(2) == 0 {
		w.set.Elastic.MaxWorkers = w.set.Workers + rng.IntN(3)
	}
	w.core = NewCore(w.set, w.now)
	for i := range w.set.Servers {
		w.servers = append(w.servers, uint64(i+1))
		w.ask(nil, &wire.Register{Role: wire.RoleServer, Rank: -1, Workers: uint32(w.set.Workers), Servers: uint32(w.set.Servers), Nonce: uint64(1000 + i), Job: "j", Host: "s", Addr: "s:1"})
	}
	for range w.set.Workers {
		w.start(false)
	}
	for rank, x := range w.workers {
		x.member = true
		x.share = divided(w.length, nil, w.set.Workers)[rank]
	}
	w.generation = 1
	return w
}

// start starts a worker.
func (w *world) start(joining bool) {
	x := &worker{host: fmt.Sprint("h", w.rng.IntN(6))}
	x.id = uint64(len(w.core.members.roster.nodes) + 1)
	w.ask(x, &wire.Register{Role: wire.RoleWorker, Rank: -1, Workers: uint32(w.set.Workers), Servers: uint32(w.set.Servers), Nonce: x.id, Process: uint32(x.id), Joining: joining, Job: "j", Host: x.host})
	if uint64(len(w.core.members.roster.nodes)) == x.id {
		w.workers = append(w.workers, x)
	}
}

// ask sends a request for a worker, or nobody in particular, and takes all answers that come.
func (w *world) ask(x *worker, m wire.Message) {
	w.request++
	if x != nil {
		w.open[w.request] = x
	}
	w.step(Event{At: w.now, Request: w.request, Message: m})
}

func (w *world) step(e Event) {
	if *verbosly && e.Message != nil {
		w.t.Logf("%v %T %+v", e.At.Unix(), e.Message, e.Message)
	}
	out := w.core.Step(e)
	if *verbosly {
		for _, n := range out.Notes {
			w.t.Log(n)
		}
	}
	w.kept.take(out)
	if w.rng.IntN(20) == 0 {
		w.kept.check(w.t, w.set, w.core, fmt.Sprintf("seed %d", w.seed))
	}
	for _, a := range out.Answers {
		if x := w.open[a.Request]; x != nil {
			delete(w.open, a.Request)
			w.answered(x, a.Message)
		}
	}
	w.check()
}

// check holds what is true after every event.
func (w *world) check() {
	m := w.core.members.message(w.now)
	if m.Generation < w.generation {
		w.fatal("generation %d after %d", m.Generation, w.generation)
	}
	w.generation = m.Generation
	if m.Phase != wire.PhaseRunning {
		w.over = m.Phase > wire.PhaseRunning
		return
	}
	var ranks []int32
	for _, n := range m.Nodes {
		if n.Role == wire.RoleWorker && n.Counts() {
			ranks = append(ranks, n.Rank)
		} else if n.Role == wire.RoleWorker && n.Rank != -1 {
			w.fatal("node %d does not count and has rank %d", n.Node, n.Rank)
		}
	}
	for i, r := range ranks {
		if r < 0 || i > 0 && r <= ranks[i-1] || int(r) >= int(m.Workers) {
			w.fatal("ranks %d of %d workers", ranks, m.Workers)
		}
	}
}

// answered is a worker that hears from the scheduler.
func (w *world) answered(x *worker, m wire.Message) {
	if x.dead {
		return
	}
	nack, refused := m.(*wire.Nack)
	switch asks := x.asks.(type) {
	case *wire.Arrive, *wire.Ready:
		switch {
		case !refused:
			x.asks = nil
		case nack.Code == wire.CodeTimeout:
			w.ask(x, asks)
		case nack.Code == wire.CodeRemoved:
			x.dead, x.member, x.asks = true, false, nil
			w.ask(nil, &wire.Leave{Node: x.id, OK: true})
		default: // dropped, or the job ended
			x.dead, x.member = true, false
		}
	}
}

// members lists the workers that count and live, in order of rank.
func (w *world) members() (list []*worker) {
	for _, n := range w.core.members.roster.workers() {
		for _, x := range w.workers {
			if x.id == n.Node {
				list = append(list, x)
			}
		}
	}
	return list
}

// train makes a step of all members together, or brings them to the boundary if a change is
// pending.
func (w *world) train() {
	all := w.members()
	for _, x := range all {
		if x.dead || x.asks != nil {
			return // the round does not close, or they stand at the boundary
		}
	}
	if number := w.core.members.change.pending.number; number > 0 {
		var earlier []uint64
		for _, s := range w.core.members.change.parts.shares {
			i := slices.IndexFunc(w.workers, func(x *worker) bool { return x.id == s.Node })
			earlier = append(earlier, w.workers[i].base-w.workers[i].divided)
		}
		for _, x := range all {
			x.asks = &wire.Arrive{Generation: w.core.members.job.generation, Node: x.id, Change: number, Steps: w.steps, Epoch: w.epoch, Used: uint64(x.done), WaitMillis: 5000, Earlier: earlier}
		}
		for _, x := range all {
			if a, ok := x.asks.(*wire.Arrive); ok && w.core.members.change.pending.number == a.Change {
				w.ask(x, a)
			}
		}
		return
	}
	w.steps++
	batch, finished := 1+w.rng.IntN(8), true
	for _, x := range all {
		n := min(batch, len(x.share)-x.done)
		w.count(x, n)
		finished = finished && x.done == len(x.share)
		w.ask(nil, &wire.Heartbeat{Node: x.id, Step: w.steps, Epoch: w.epoch})
	}
	if finished {
		w.nextEpoch(all)
	}
}

// count takes the next examples of a worker's share.
func (w *world) count(x *worker, n int) {
	for _, e := range x.share[x.done : x.done+n] {
		if by, twice := w.used[e]; twice {
			w.fatal("example %d was used by node %d and by node %d", e, by, x.id)
		}
		w.used[e] = x.id
	}
	x.done += n
	x.total += uint64(n)
}

func (w *world) nextEpoch(all []*worker) {
	if len(w.used) != w.length {
		w.fatal("the epoch ends with %d of %d examples used", len(w.used), w.length)
	}
	clear(w.used)
	w.epoch++
	if w.epoch == w.epochs {
		for _, x := range all {
			x.dead = true
			w.ask(nil, &wire.Leave{Node: x.id, OK: true})
		}
		return
	}
	for _, x := range w.workers {
		x.base = x.total
		x.share, x.done = nil, 0
	}
	shares := divided(w.length, nil, len(w.core.members.change.parts.shares))
	for part, s := range w.core.members.change.parts.shares {
		i := slices.IndexFunc(w.workers, func(x *worker) bool { return x.id == s.Node })
		w.workers[i].share = shares[part]
	}
}

// renewed is the world after a change: every member takes its share of the new division.
func (w *world) renewed() {
	d := w.core.members.change.parts.division
	all := w.members()
	if len(all) != len(w.core.members.change.parts.shares) || len(all) != w.core.members.change.workers() {
		w.fatal("after a change %d workers count, %d have shares and the membership says %d", len(all), len(w.core.members.change.parts.shares), w.core.members.change.workers())
	}
	shares := divided(w.length, d.Cuts, len(all))
	for rank, n := range w.core.members.roster.workers() {
		if int(n.Rank) != rank {
			w.fatal("after a change node %d has rank %d, want %d", n.Node, n.Rank, rank)
		}
	}
	for rank, x := range all {
		x.member, x.base, x.divided, x.share, x.done = true, x.total, x.total, shares[rank], 0
	}
}

// some is how many runs a randomised test makes: quick ones, or all with PARAGON_TEST_SLOW.
func some(quick, all uint64) uint64 {
	if os.Getenv("PARAGON_TEST_SLOW") != "" {
		return all
	}
	return quick
}

// A job that is lost by nobody's fault goes on; examples are used once, and none is left out.
func TestRandomJobsUseEveryExampleOnce(t *testing.T) {
	ends := make(map[string]int)
	from, to := int64(0), int64(*seeds)
	if to == 0 {
		to = int64(some(40, 1000))
	}
	if *oneSeed >= 0 {
		from, to = *oneSeed, *oneSeed+1
	}
	for seed := from; seed < to; seed++ {
		w := newWorld(t, seed)
		limit := w.now.Add(2 * time.Hour)
		for !w.over {
			if w.now.After(limit) {
				w.fatal("the job has not ended: %s", w.core.Pending(0))
			}
			w.turn()
		}
		phase, reason := w.core.Phase()
		ends[phaseNames[phase]]++
		if *verbosly {
			t.Logf("seed %d: %s %s", seed, phaseNames[phase], reason)
		}
		for !w.core.Next().IsZero() { // nobody waits for ever
			if w.now = w.core.Next(); w.now.After(limit.Add(time.Hour)) {
				w.fatal("the core wants to be stepped for ever")
			}
			w.step(Event{At: w.now})
		}
		if len(w.open) > 0 {
			w.fatal("%d requests have no answer", len(w.open))
		}
	}
	t.Logf("%d jobs: %v", to-from, ends)
	if *oneSeed < 0 && (ends["finished"] < int(to-from)/3 || ends["failed"] == 0) {
		t.Errorf("%v: want some of both", ends)
	}
}

// turn lets something happen.
func (w *world) turn() {
	generation, pending := w.core.members.job.generation, w.core.members.change.pending.number
	switch k := w.rng.IntN(100); {
	case k < 2: // a worker dies; it may have contributed to a step that others have not finished
		if x := w.any(); x != nil && !x.dead {
			if x.member && x.asks == nil && w.rng.IntN(2) == 0 {
				w.count(x, min(1+w.rng.IntN(8), len(x.share)-x.done))
			}
			x.dead = true
		}
	case k < 5:
		w.start(true)
	case k < 8:
		op := []string{"add", "remove"}[w.rng.IntN(2)]
		w.ask(nil, &wire.Control{Request: fmt.Sprintf(`{"op":%q,"host":"h%d","reason":"x"}`, op, w.rng.IntN(6))})
	case k == 40:
		w.scale()
	case k > 40 && k < 45:
		w.report()
	case k == 8: // a worker is told to end
		if x := w.any(); x != nil && !x.dead {
			w.askLeave(x)
		}
	case k < 11: // the scheduler is killed and started again; who waited asks again
		core, err := Restore(w.set, w.now, w.kept.list())
		if err != nil {
			w.fatal("%v", err)
		}
		w.core = core
		clear(w.open)
		for _, x := range w.workers {
			if x.asks != nil && !x.dead {
				w.ask(x, x.asks)
			}
		}
	case k < 20: // a joiner is ready
		for _, x := range w.workers {
			if !x.member && !x.dead && x.asks == nil && w.rng.IntN(3) == 0 {
				x.asks = &wire.Ready{Node: x.id, WaitMillis: 5000}
				w.ask(x, x.asks)
				break
			}
		}
	case k < 30: // servers tell what they counted
		for _, lost := range w.core.members.change.lostWorkers() {
			i := slices.IndexFunc(w.workers, func(x *worker) bool { return x.id == lost })
			for _, s := range w.servers {
				if w.rng.IntN(2) == 0 {
					w.ask(nil, &wire.LostExamples{Node: s, Lost: lost, Examples: w.workers[i].total + w.rng.Uint64N(3)*(s-1)})
				}
			}
		}
	case k < 32:
		if x := w.any(); x != nil && x.dead {
			w.ask(nil, &wire.Leave{Node: x.id, Reason: "x"})
		}
	case k < 60:
		w.train()
	default:
		w.pass(time.Duration(w.rng.IntN(2500)) * time.Millisecond)
	}
	if pending > 0 && w.core.members.change.pending.number != pending && w.core.members.job.phase == wire.PhaseRunning && w.core.members.job.generation > generation && w.core.members.change.parts.division.Steps == w.steps {
		w.renewed()
	}
}

// report is what a launcher reports: all that is wanted, each process a step further, now and then
// one that has ended.
func (w *world) report() {
	f := &w.core.members.fleet
	w.reports++
	o := &control.Observed{Number: w.reports, Revision: f.revision - min(f.revision, w.rng.Uint64N(3)), Last: 100}
	for i := range 6 {
		h := control.ObservedHost{Host: fmt.Sprint("h", i), Listed: true, Servers: true, Slots: w.rng.IntN(3), Connection: 1}
		if w.rng.IntN(30) == 0 {
			h.Notice = &control.HostNotice{LeftMillis: 60_000, CheckpointMillis: 50_000}
		}
		o.Hosts = append(o.Hosts, h)
	}
	for _, p := range f.list {
		x := control.ObservedProcess{Process: p.Process, Role: p.Role, Rank: p.Rank, Number: p.Number, Host: p.Host, State: cmp.Or(p.Seen, control.StateWaiting)}
		switch k := w.rng.IntN(20); {
		case p.ended(), k == 0 && p.isWorker():
			x.State, x.Cause = control.StateEnded, control.Cause{Kind: control.CauseExit, Exit: w.rng.IntN(2)}
		case k < 10:
			x.State = control.StateRunning
		}
		o.Processes = append(o.Processes, x)
	}
	b, err := control.Request{Op: control.OpReport, Observed: o}.Encode()
	if err != nil {
		w.fatal("%v", err)
	}
	w.ask(nil, &wire.Control{Request: string(b)})
}

// scale asks for a number of workers.
func (w *world) scale() {
	w.ask(nil, &wire.Control{Request: fmt.Sprintf(`{"op":"scale","workers":%d}`, w.rng.IntN(6))})
	if s := w.core.members.scale.newest; s.Number > 0 && s.Reached && w.core.members.scale.state(w.core.members.roster.staying()) == control.ScaleReached && len(w.core.members.roster.workers()) < s.Workers {
		w.fatal("%d workers are reached with %d", s.Workers, len(w.core.members.roster.workers()))
	}
}

// askLeave is a worker that asks to leave. One that counts goes on until the boundary, one that
// does not, and has not said that it is ready, ends if it may.
func (w *world) askLeave(x *worker) {
	stay := 0
	for _, n := range w.core.members.roster.workers() {
		if n.stays() && n.Node != x.id {
			stay++
		}
	}
	w.ask(nil, &wire.AskLeave{Node: x.id, Reason: "x"})
	n := w.core.members.roster.nodes[x.id-1]
	if n.State == wire.MemberLeaving && n.life == living && stay < max(1, w.set.Elastic.MinWorkers) && len(w.core.members.policy.admitted(&w.core.members.roster)) == 0 && !w.hostLeaves(n.Host) {
		w.fatal("%v may leave, and %d would be left", n, stay)
	}
	if n.life == removed && x.asks == nil && !x.dead {
		x.dead, x.member = true, false
		w.ask(nil, &wire.Leave{Node: x.id, OK: true})
	}
}

// hostLeaves says that a host is being removed, or was.
func (w *world) hostLeaves(name string) bool {
	h := w.core.members.hosts.hosts[name]
	return h != nil && (h.status == control.RemovalQueued || h.status == control.Removed)
}

func (w *world) any() *worker {
	if len(w.workers) == 0 {
		return nil
	}
	return w.workers[w.rng.IntN(len(w.workers))]
}

// pass lets time pass: those who live are heard of.
func (w *world) pass(d time.Duration) {
	end := w.now.Add(d)
	for _, x := range w.workers {
		if !x.dead {
			w.ask(nil, &wire.Heartbeat{Node: x.id, Step: w.steps})
		}
	}
	for _, s := range w.servers {
		w.ask(nil, &wire.Heartbeat{Node: s})
	}
	for !w.over {
		next := w.core.Next()
		if next.IsZero() || next.After(end) {
			break
		}
		w.now = next
		w.step(Event{At: next})
	}
	w.now = end
	w.step(Event{At: end})
}

func TestCutsStandForAllThatIsUsed(t *testing.T) {
	// A worker that left in order used all of its share, whatever that was.
	cuts := []wire.Cut{{Parts: 3, Used: []uint64{2, math.MaxUint64, 0}}, {Parts: 2, Used: []uint64{1, 3}}}
	got := divided(12, cuts, 2)
	// 0..3, 4..7, 8..11: left 2 3 8 9 10 11; shares 2 3 8 and 9 10 11: left 3 8.
	if !slices.Equal(got[0], []int{3}) || !slices.Equal(got[1], []int{8}) {
		t.Errorf("got %d, want [[3] [8]]", got)
	}
}
