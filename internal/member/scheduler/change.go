package scheduler

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/internal/observe/joblog"
	"github.com/paragon-train/paragon/internal/observe/plural"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// A changer takes the job from one membership to the next. At most one change is pending; later
// causes join it. It is committed when every worker that counts has arrived at its boundary and
// every server has reported what it counted of lost workers.
//
// Servers are asked for their reports once all have arrived, and not before: until then, a shard
// that has moved to another server may not know yet that contributions sent to the lost server
// count.
//
// Invariants: changes are numbered from 1 on, and the pending one has the newest number; a lost
// worker that had a part of the division has a loss report until the next commit.
type changer struct {
	set *Settings
	// last is the number of the newest change.
	last    uint64
	pending pendingChange
	// reports has what servers counted of the workers that were lost since the last commit, by
	// node.
	reports map[uint64]lossReport
	// parts is the division of the epoch that the last change made.
	parts partition
	dirty bool
}

// A pendingChange is the step to the next membership.
type pendingChange struct {
	// number is 0 if none is pending.
	number  uint64
	since   time.Time
	causes  []string
	arrived map[uint64]*wire.Arrive

	// mustCount is how many workers must count afterwards; 0: any number. loss is what they
	// must be there for, and the job fails if they are not there by rejoinBy.
	mustCount int
	loss      *control.Failure
	rejoinBy  time.Time
	// asked says that servers were asked what they counted of lost workers. The job fails if a
	// report is missing by reportsBy; zero: none was asked for.
	asked     bool
	reportsBy time.Time
}

// A lossReport has what each server counted of a lost worker's examples, by node.
type lossReport map[uint64]uint64

func newChanger(set *Settings) changer {
	return changer{set: set, reports: make(map[uint64]lossReport), dirty: true}
}

// begins divides the epoch over the workers that the job begins with.
func (c *changer) begins(workers []*node) {
	c.parts.share(workers, nil)
	c.dirty = true
}

// workers is the number of workers that the job has: what it waits for while it is forming, later
// those of the last change.
func (c *changer) workers() int {
	if c.parts.shares == nil {
		return c.set.Workers
	}
	return len(c.parts.shares)
}

// isPending reports whether a change is pending.
func (c *changer) isPending() bool { return c.pending.number > 0 }

// begin makes a change pending, or adds a cause to the pending one. The caller makes the new
// revision.
func (c *changer) begin(out *output, cause string) {
	p := &c.pending
	if p.number == 0 {
		c.last++
		*p = pendingChange{number: c.last, since: out.now, arrived: make(map[uint64]*wire.Arrive)}
	}
	p.causes = append(p.causes, cause)
	c.dirty = true
	out.note("change %d: %s", p.number, cause).Event = joblog.ChangeBegun.With("change", p.number, "cause", cause)
}

// arrive takes a worker's Arrive: it is at the boundary of the pending change. It reports whether
// the worker has to wait for the commit; if not, it was answered.
func (c *changer) arrive(out *output, request uint64, n *node, m *wire.Arrive) bool {
	switch {
	case m.Change > 0 && m.Change <= c.last && m.Change != c.pending.number:
		// It was committed, and the answer was lost.
		out.ack(request)
	case m.Change != c.pending.number || m.Change == 0:
		out.refuse(request, wire.CodeConflict, "arrive at change %d: the newest is %d", m.Change, c.last)
	case n.Role != wire.RoleWorker || !n.Counts():
		out.refuse(request, wire.CodeUnsupported, "arrive at change %d: %v does not count", m.Change, n)
	case !c.parts.fits(m):
		out.refuse(request, wire.CodeConflict, "arrive at change %d: %d counts of earlier epochs, %d of a resumed run and the cuts %v, want none or one for each of %d parts, and of each cut one for each part",
			m.Change, len(m.Earlier), len(m.Resumed), m.Cuts, len(c.parts.shares))
	default:
		c.pending.arrived[n.Node] = m
		return true
	}
	return false
}

// takeReport takes what a server has counted of a lost worker, in a placement; placement is the one
// that holds. The first report of a server counts.
func (c *changer) takeReport(server *node, m *wire.LostExamples, placement uint64, r *roster) {
	told := c.reports[m.Lost]
	if _, known := told[server.Node]; told == nil || known || m.Placement != placement {
		return
	}
	told[server.Node] = m.Examples
	c.dirty = true
	if !c.reportsMissing(r) {
		c.pending.reportsBy = time.Time{}
	}
}

// workerLost makes a change pending without a lost worker. mustCount is how many workers must count
// afterwards; 0: any number. That says only for whom the change waits: whether another process is
// started is a judge's decision (judge.joinAgain), and under the policy shrink one may come later.
func (c *changer) workerLost(out *output, n *node, loss *control.Failure, mustCount int) {
	c.begin(out, loss.String())
	p := &c.pending
	if mustCount > 0 {
		if p.mustCount = max(p.mustCount, mustCount); p.loss == nil {
			p.loss = loss
		}
		p.rejoinBy = out.now.Add(c.set.Elastic.RejoinTimeout)
	}
	c.reports[n.Node] = make(lossReport)
	if p.asked {
		p.reportsBy = out.now.Add(c.set.Elastic.RejoinTimeout)
	}
}

// oneFewerMustCount says that a worker goes, and the change waits for nobody in its place.
func (c *changer) oneFewerMustCount() {
	c.pending.mustCount, c.dirty = max(0, c.pending.mustCount-1), true
}

// anyNumberMayCount says that nobody is waited for any more.
func (c *changer) anyNumberMayCount() {
	c.pending.mustCount, c.pending.loss, c.pending.rejoinBy, c.dirty = 0, nil, time.Time{}, true
}

// placedAnew says that shards have moved: what a lost server was sent for open rounds is lost with
// it, so that the servers report again.
func (c *changer) placedAnew(now time.Time) {
	for _, told := range c.reports {
		clear(told)
		c.dirty = true
		if c.pending.asked {
			c.pending.reportsBy = now.Add(c.set.Elastic.RejoinTimeout)
		}
	}
}

// ask asks the servers for their reports if that is the next step of the pending change. It reports
// whether it did; the membership tells them.
func (c *changer) ask(out *output, r *roster) bool {
	if c.pending.asked || !c.allArrived(out, r) || !c.reportsMissing(r) {
		return false
	}
	c.pending.asked, c.pending.reportsBy, c.dirty = true, out.now.Add(c.set.Elastic.RejoinTimeout), true
	return true
}

// complete reports whether the pending change can be committed.
func (c *changer) complete(out *output, r *roster) bool {
	return c.allArrived(out, r) && !c.reportsMissing(r) && c.vacant(r) <= 0
}

// allArrived reports whether a change is pending at whose boundary all workers are that count.
func (c *changer) allArrived(out *output, r *roster) bool {
	if out.job.phase != wire.PhaseRunning || !c.isPending() || len(c.pending.arrived) == 0 {
		return false
	}
	return !slices.ContainsFunc(r.nodes, func(n *node) bool {
		return n.Role == wire.RoleWorker && n.takesPart() && c.pending.arrived[n.Node] == nil
	})
}

// vacant is by how many fewer workers than mustCount would count now: the change waits for them.
func (c *changer) vacant(r *roster) int {
	return c.pending.mustCount - r.staying() - len(r.admitted(c.set.mostWorkers()))
}

// commit ends the pending change with the workers that count from now on, in the order of their
// ranks, who have used so many examples in all.
func (c *changer) commit(stay []*node, used map[uint64]uint64) pendingChange {
	made := c.pending
	c.pending = pendingChange{}
	clear(c.reports)
	c.parts.share(stay, used)
	c.dirty = true
	return made
}

// reportsMissing reports whether a server has yet to report what it counted.
func (c *changer) reportsMissing(r *roster) bool {
	for _, told := range c.reports {
		if len(told.missing(r)) > 0 {
			return true
		}
	}
	return false
}

// missing lists the servers that have not reported.
func (l lossReport) missing(r *roster) (nodes []*node) {
	for _, n := range r.living(wire.RoleServer) {
		if _, ok := l[n.Node]; !ok {
			nodes = append(nodes, n)
		}
	}
	return nodes
}

// lostWorkers lists the lost workers whose examples the servers count.
func (c *changer) lostWorkers() []uint64 {
	out := make([]uint64, 0, len(c.reports))
	for lost := range c.reports {
		out = append(out, lost)
	}
	slices.Sort(out)
	return out
}

// obstacles says what the pending change waits for; asker is the node that asks, which need not be
// told of itself.
func (c *changer) obstacles(asker uint64, r *roster, now time.Time) string {
	if !c.isPending() {
		return fmt.Sprintf("a free place: the job has its maximum of %s", plural.Of(r.staying(), "worker"))
	}
	var names []string
	for _, n := range r.workers() {
		if c.pending.arrived[n.Node] == nil && n.Node != asker && len(names) < maxNamed {
			names = append(names, n.describe(now))
		}
	}
	if c.pending.asked {
		for _, lost := range c.lostWorkers() {
			for _, n := range c.reports[lost].missing(r) {
				names = append(names, fmt.Sprintf("%v to report the examples it counted of %v", n, r.node(lost)))
			}
		}
	}
	if v := c.vacant(r); v > 0 {
		names = append(names, fmt.Sprintf("%s (%s)", plural.Of(v, "more worker"), strings.Join(c.pending.causes, "; ")))
	}
	return strings.Join(names, ", ")
}

// late is the failure of a change that has waited too long; nil: it has not.
func (c *changer) late(r *roster, now time.Time) *control.Failure {
	p, due := &c.pending, func(d time.Time) bool { return !d.IsZero() && !now.Before(d) }
	if !due(p.reportsBy) && !due(p.rejoinBy) {
		return nil
	}
	f := control.Failure{Code: control.ChangeTimeout, Rank: -1, Change: p.number, WaitedNS: int64(c.set.Elastic.RejoinTimeout), Waiting: []string{c.obstacles(0, r, now)}}
	if !due(p.reportsBy) && p.loss != nil {
		waited := f.WaitedNS
		f = *p.loss
		f.Code, f.WaitedNS = control.NotReplaced, waited
	}
	return &f
}

// next is the first deadline of the pending change. A change without losses has none: it waits for
// workers whose own leases run.
func (c *changer) next(open bool) (t time.Time) {
	if open {
		t = sooner(c.pending.rejoinBy, c.pending.reportsBy)
	}
	return t
}

// renew renews the deadlines, after the scheduler was paused.
func (c *changer) renew(now time.Time) {
	for _, by := range []*time.Time{&c.pending.rejoinBy, &c.pending.reportsBy} {
		if !by.IsZero() {
			*by = now.Add(c.set.Elastic.RejoinTimeout)
		}
	}
}

// status is the pending change as a status has it; nil: none is.
func (c *changer) status(r *roster, now time.Time) *control.Change {
	p := &c.pending
	if p.number == 0 {
		return nil
	}
	return &control.Change{Number: p.number, Causes: p.causes, Seconds: now.Sub(p.since).Seconds(), WaitsFor: c.obstacles(0, r, now)}
}

// A keptChange is the record of a changer. Arrivals are not in it: the workers arrive again.
type keptChange struct {
	Last    uint64
	Pending bool             `json:",omitempty"`
	Causes  []string         `json:",omitempty"`
	Want    int              `json:",omitempty"`
	Loss    *control.Failure `json:",omitempty"`
	Asked   bool             `json:",omitempty"`
	Reports []keptReport     `json:",omitempty"`

	Division wire.Division
	// Shares is null until the job has begun, which is not the same as none.
	Shares []share
}

type keptReport struct {
	Lost uint64
	Told lossReport
}

func (c *changer) keep(out *output) {
	if c.dirty {
		c.dirty = false
		out.put("change", c.kept())
	}
}

func (c *changer) kept() keptChange {
	p := &c.pending
	k := keptChange{Last: c.last, Pending: p.number > 0, Causes: p.causes, Want: p.mustCount, Loss: p.loss, Asked: p.asked, Division: c.parts.division, Shares: c.parts.shares}
	for _, lost := range c.lostWorkers() {
		k.Reports = append(k.Reports, keptReport{lost, c.reports[lost]})
	}
	return k
}

// restore takes the record. A change that was pending is pending again, without arrivals and with
// its whole time: the workers arrive again, as after a lost answer. What servers have reported is
// kept, since they report once.
func (c *changer) restore(value []byte, now time.Time) error {
	var k keptChange
	if err := json.Unmarshal(value, &k); err != nil {
		return err
	}
	c.last, c.parts.division, c.parts.shares = k.Last, k.Division, k.Shares
	if k.Pending {
		c.pending = pendingChange{number: k.Last, since: now, causes: k.Causes, mustCount: k.Want, loss: k.Loss, asked: k.Asked, arrived: make(map[uint64]*wire.Arrive)}
		if k.Want > 0 {
			c.pending.rejoinBy = now.Add(c.set.Elastic.RejoinTimeout)
		}
	}
	for _, x := range k.Reports {
		if x.Told == nil {
			x.Told = make(lossReport)
		}
		c.reports[x.Lost] = x.Told
	}
	return nil
}

// restored finds records that do not belong to the roster's, and asks the servers again.
func (c *changer) restored(r *roster, now time.Time) error {
	for _, s := range c.parts.shares {
		if r.node(s.Node) == nil {
			return fmt.Errorf("a part of the division belongs to node %d, which is unknown", s.Node)
		}
	}
	for _, id := range c.lostWorkers() {
		if r.node(id) == nil {
			return fmt.Errorf("the examples of lost node %d are to be counted, and the node is unknown", id)
		}
	}
	if c.pending.asked && c.reportsMissing(r) {
		c.pending.reportsBy = now.Add(c.set.Elastic.RejoinTimeout)
	}
	return nil
}

// needs has the nodes that must not be forgotten.
func (c *changer) needs() map[uint64]bool {
	needed := make(map[uint64]bool)
	for _, s := range c.parts.shares {
		needed[s.Node] = true
	}
	for id := range c.reports {
		needed[id] = true
	}
	return needed
}
