package scheduler

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/paragon-train/paragon/internal/member/control"
)

// A fleet is the processes of servers and workers that should run. It is the wanted state that the
// launcher carries out. It knows nothing of the job's rules: whoever owns it says what is wanted.
//
// A process has a number that is used once. Another process in the place of one that ended has
// another number. A process leaves the fleet when the launcher has reported its end, and the
// revision of the wanted state that says what its end means.
type fleet struct {
	keptFleet
	list []*wantedProcess // by number
	// revision goes up with all that the launcher is told of what is wanted.
	revision uint64
	// reported is the number of the newest report.
	reported uint64
	changed  []*wantedProcess // since records were made last
	gone     []uint32         // numbers that left since then
	dirty    bool             // keptFleet has changed since then
}

// keptFleet is what the journal has of a fleet besides its processes.
type keptFleet struct {
	// Adopted says that the processes that the job began with are known: the launcher has
	// reported.
	Adopted bool   `json:",omitempty"`
	Last    uint32 `json:",omitempty"` // the highest number of a process
	Workers int    `json:",omitempty"` // that were ever numbered
}

// A wantedProcess is one process of a fleet.
type wantedProcess struct {
	control.WantedProcess
	// Judged is the revision that says what becomes of it; 0: its fate is open.
	Judged uint64
	// Seen is how the launcher saw it last; empty: it has not reported it.
	Seen string
	// Began is when it was first seen to run.
	Began time.Time `json:",omitzero"`
}

// ended reports whether the process has ended, as far as is known.
func (p *wantedProcess) ended() bool { return p.Seen == control.StateEnded }

// stays reports whether the process is to go on, and has not ended.
func (p *wantedProcess) stays() bool { return p.Goal == control.GoalRun && !p.ended() }

// name is "worker 1", as the launcher calls the process.
func (p *wantedProcess) name() string {
	return fmt.Sprintf("%s %d", p.Role, p.known())
}

// known is the rank of the process, or its number until it has one.
func (p *wantedProcess) known() int {
	if p.Rank < 0 {
		return p.Number
	}
	return p.Rank
}

// isWorker reports whether the process is a worker's.
func (p *wantedProcess) isWorker() bool { return p.Role == control.Worker }

// of finds a process; nil: it is not in the fleet.
func (f *fleet) of(process uint32) *wantedProcess {
	i, found := slices.BinarySearchFunc(f.list, process, func(p *wantedProcess, n uint32) int { return cmp.Compare(p.Process, n) })
	if !found {
		return nil
	}
	return f.list[i]
}

// unwanted reports whether a process was given up: the launcher ends it as soon as it hears that,
// and may have started it before. A process that was started by hand has number 0.
func (f *fleet) unwanted(process uint32) bool {
	p := f.of(process)
	if p == nil {
		return f.Adopted && process > 0 && process <= f.Last
	}
	return p.Judged > 0
}

// heard reports whether the launcher has reported to this scheduler. One that was started again
// does not know before that which processes have ended meanwhile.
func (f *fleet) heard() bool { return f.reported > 0 }

// touch makes a new revision, and marks a process as changed in it.
func (f *fleet) touch(p *wantedProcess) {
	f.revision++
	f.mark(p)
}

// mark says that a process has changed.
func (f *fleet) mark(p *wantedProcess) {
	if !slices.Contains(f.changed, p) {
		f.changed = append(f.changed, p)
	}
}

// adopt takes a process that was started before the fleet was known.
func (f *fleet) adopt(x control.ObservedProcess) *wantedProcess {
	p := &wantedProcess{WantedProcess: control.WantedProcess{Process: x.Process, Role: x.Role, Rank: x.Rank, Number: x.Number, Host: x.Host, Goal: control.GoalRun}}
	at, _ := slices.BinarySearchFunc(f.list, p.Process, func(o *wantedProcess, n uint32) int { return cmp.Compare(o.Process, n) })
	f.list = slices.Insert(f.list, at, p)
	f.Last = max(f.Last, x.Process)
	if f.dirty = true; p.isWorker() {
		f.Workers = max(f.Workers, x.Number+1)
	}
	f.touch(p)
	return p
}

// want adds a process. Its number, and of a worker that is not early also its number among the
// workers, are the fleet's to give.
func (f *fleet) want(x control.WantedProcess) *wantedProcess {
	f.Last++
	x.Process, x.Goal = f.Last, control.GoalRun
	if x.Role == control.Worker && !x.Early {
		x.Rank, x.Number = -1, f.Workers
		f.Workers++
	}
	p := &wantedProcess{WantedProcess: x}
	f.list = append(f.list, p)
	f.dirty = true
	f.touch(p)
	return p
}

// drop takes a process out that was never started, and that the launcher has only begun to prepare
// for.
func (f *fleet) drop(p *wantedProcess) {
	f.revision++
	f.remove(p)
}

func (f *fleet) remove(p *wantedProcess) {
	f.list = slices.DeleteFunc(f.list, func(o *wantedProcess) bool { return o == p })
	f.changed = slices.DeleteFunc(f.changed, func(o *wantedProcess) bool { return o == p })
	f.gone = append(f.gone, p.Process)
}

// aim gives a process another goal, unless it has one that goes further.
func (f *fleet) aim(p *wantedProcess, goal control.Goal, grace time.Duration) {
	order := []control.Goal{control.GoalRun, control.GoalLeave, control.GoalEnd, control.GoalKill, control.GoalOver}
	if p.ended() {
		goal, grace = control.GoalOver, 0
	}
	if slices.Index(order, goal) <= slices.Index(order, p.Goal) {
		return
	}
	p.Goal, p.GraceMillis = goal, grace.Milliseconds()
	f.touch(p)
}

// setFate says what becomes of a process, once. A judge has decided it, or whoever gave the
// process up.
func (f *fleet) setFate(p *wantedProcess, fate control.Fate, note, reason string) {
	if p.Judged > 0 {
		return
	}
	p.Fate, p.Note, p.Reason = fate, note, reason
	f.touch(p)
	p.Judged = f.revision
}

// endAs sets the fate of a process and lets it end.
func (f *fleet) endAs(p *wantedProcess, goal control.Goal, grace time.Duration, fate control.Fate, note, reason string) {
	f.setFate(p, fate, note, reason)
	f.aim(p, goal, grace)
}

// saw takes how the launcher sees a process, and when it would have begun; true: it has ended, which
// is news.
func (f *fleet) saw(p *wantedProcess, state string, began time.Time) (ended bool) {
	if state != control.StateWaiting && p.Began.IsZero() {
		p.Began = began
	}
	if p.Seen == state || p.ended() {
		return false
	}
	p.Seen = state
	f.mark(p)
	return p.ended()
}

// lived notes for how long a process has run, as the launcher says that knows it.
func (p *wantedProcess) lived(seconds float64, now time.Time) {
	if seconds > 0 {
		p.Began = now.Add(-time.Duration(seconds * float64(time.Second)))
	}
}

// settle forgets the processes whose fates the launcher has taken, as a report says: those that have
// ended, and those that the report does not have any more, because they were given up before they
// were started.
func (f *fleet) settle(o *control.Observed) {
	reported := make(map[uint32]bool)
	for _, x := range o.Processes {
		reported[x.Process] = true
	}
	for _, p := range slices.Clone(f.list) {
		if (p.ended() || !reported[p.Process]) && p.Judged > 0 && p.Judged <= o.Revision {
			f.remove(p)
		}
	}
}

// workers lists the workers of a host that stay: those that run, and those that are on their way.
func (f *fleet) workers(same func(host string) bool) (list []*wantedProcess) {
	for _, p := range f.list {
		if p.isWorker() && p.stays() && same(p.Host) {
			list = append(list, p)
		}
	}
	return list
}

// workersOn lists the workers of a host that stay.
func (f *fleet) workersOn(host string) []*wantedProcess {
	return f.workers(func(h string) bool { return h == host })
}

// stayingOn lists the workers of a host that stay, with those that are on their way. Those that
// would be started again after a while do not count: a number of workers is another reason to start
// them.
func (f *fleet) stayingOn(host string) []*wantedProcess {
	return slices.DeleteFunc(f.workersOn(host), (*wantedProcess).delayed)
}

// staying is how many workers stay on a host.
func (f *fleet) staying(host string) int { return len(f.stayingOn(host)) }

// serversOn is how many servers stay on a host.
func (f *fleet) serversOn(host string) (n int) {
	for _, p := range f.list {
		if !p.isWorker() && p.stays() && p.Host == host {
			n++
		}
	}
	return n
}

// unstarted reports whether the launcher has not begun to start a process.
func (p *wantedProcess) unstarted() bool { return p.Seen == "" || p.Seen == control.StateWaiting }

// delayed reports whether a process will be started again after a while, and is not yet.
func (p *wantedProcess) delayed() bool {
	return p.Attempt > 0 && p.DelayMillis > 0 && p.unstarted()
}

// arriving reports whether a worker is on its way into the job.
func (f *fleet) arriving() bool {
	return slices.ContainsFunc(f.list, func(p *wantedProcess) bool { return p.isWorker() && p.stays() && !p.Joined })
}

// dropDelayed gives up the workers that would be started again on a host after a while.
func (f *fleet) dropDelayed(name string) {
	for _, p := range f.workersOn(name) {
		if p.delayed() {
			f.drop(p)
		}
	}
}

// endServer ends the process of a server that is not wanted any more: one that was in the job ends
// by itself.
func (f *fleet) endServer(rank uint32, fate control.Fate, note string) {
	for _, p := range slices.Clone(f.list) {
		switch {
		case p.isWorker() || p.Rank != int(rank) || !p.stays():
		case p.unstarted():
			f.drop(p)
		default:
			f.endAs(p, control.GoalEnd, leaveTime, fate, note, "")
		}
	}
}

// wantAgain wants another process like one that ended, after a while.
func (f *fleet) wantAgain(x control.WantedProcess) {
	x.DelayMillis, x.GraceMillis = backOff(x.Attempt).Milliseconds(), 0
	x.Prepare, x.Joined, x.Fate, x.Note, x.Reason = false, false, "", "", ""
	f.want(x)
}

// takeRanks takes into the fleet what became of the nodes: their ranks, and who has joined.
func (f *fleet) takeRanks(r *roster, running bool) {
	for _, n := range r.nodes {
		p := f.of(n.process)
		if p == nil || n.life != living {
			continue
		}
		joined := p.Joined || running && n.Counts()
		if rank := int(n.Rank); joined != p.Joined || joined && rank >= 0 && rank != p.Rank {
			p.Joined, p.Rank = joined, max(rank, p.Rank)
			if rank >= 0 {
				p.Rank = rank
			}
			f.touch(p)
		}
	}
}

// changing reports whether workers are coming or leaving.
func (f *fleet) changing() bool {
	return f.arriving() || slices.ContainsFunc(f.list, func(p *wantedProcess) bool {
		return p.isWorker() && !p.ended() && (p.Goal == control.GoalLeave || p.Goal == control.GoalEnd)
	})
}

// keep records what has changed since it was called last.
func (f *fleet) keep(out *output) {
	for _, p := range f.changed {
		out.put(processKey(p.Process), p)
	}
	for _, number := range f.gone {
		out.drop(processKey(number))
	}
	if f.dirty || len(f.changed)+len(f.gone) > 0 {
		out.put("fleet", keptWanted{f.keptFleet, f.revision})
	}
	f.changed, f.gone, f.dirty = nil, nil, false
}

// restore takes a record: of the fleet, or of a process.
func (f *fleet) restore(number string, value []byte) error {
	if number == "" {
		var k keptWanted
		err := json.Unmarshal(value, &k)
		f.keptFleet, f.revision = k.keptFleet, k.Revision
		return err
	}
	p := &wantedProcess{}
	f.list = append(f.list, p)
	return json.Unmarshal(value, p)
}

// keptWanted is the record of a fleet.
type keptWanted struct {
	keptFleet
	Revision uint64
}

func processKey(number uint32) string { return fmt.Sprintf("fleet/%010d", number) }
