package scheduler

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/paragon-train/paragon/internal/member/cluster"
	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/internal/observe/joblog"
	"github.com/paragon-train/paragon/internal/observe/plural"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// A change is the pending step to the next membership; later causes join it. It is committed when
// every worker that counts has arrived and every server has reported what it counted of lost
// workers. Servers are asked once all have arrived: before that, a shard that has moved to another
// server may not know yet that contributions sent to the lost server count.
type change struct {
	number  uint64 // 0: none is pending
	since   time.Time
	causes  []string
	arrived map[uint64]*wire.Arrive // by node

	loss      *control.Failure // for which others are wanted
	want      int              // so many workers must count afterwards; 0: any number
	rejoinBy  time.Time        // of want: fails if they are not there by then
	asked     bool             // servers were asked what they counted of lost workers
	reportsBy time.Time        // the job fails if a report is missing by then; zero: none was asked for
}

// A lossReport has what each server counted of a lost worker's examples.
type lossReport struct {
	lost uint64
	told map[uint64]uint64 // by server
}

// begin makes a change pending, or adds a cause to the pending one. The caller makes the new
// revision.
func (c *Core) begin(cause string) {
	if c.change.number == 0 {
		c.changes++
		c.change = change{number: c.changes, since: c.now, arrived: make(map[uint64]*wire.Arrive)}
	}
	c.change.causes = append(c.change.causes, cause)
	c.note("change %d: %s", c.change.number, cause).Event = joblog.ChangeBegun.With("change", c.change.number, "cause", cause)
}

// arrive takes a worker's Arrive: it is at the boundary of the pending change.
func (c *Core) arrive(request uint64, m *wire.Arrive) {
	n := c.current(request, m.Node, c.generation)
	if n == nil {
		return
	}
	switch {
	case m.Change > 0 && m.Change <= c.changes && m.Change != c.change.number: // it was committed, and the answer lost
		c.ack(request)
	case m.Change != c.change.number || m.Change == 0:
		c.refuse(request, wire.CodeConflict, "arrive at change %d: the newest is %d", m.Change, c.changes)
	case n.Role != wire.RoleWorker || !n.Counts():
		c.refuse(request, wire.CodeUnsupported, "arrive at change %d: %v does not count", m.Change, n)
	case !c.fits(m):
		c.refuse(request, wire.CodeConflict, "arrive at change %d: %d counts of earlier epochs, %d of a resumed run and the cuts %v, want none or one for each of %d parts, and of each cut one for each part",
			m.Change, len(m.Earlier), len(m.Resumed), m.Cuts, len(c.shares))
	default:
		c.change.arrived[n.Node] = m
		c.bounds.waits = append(c.bounds.waits, c.newWait(request, n.Node, fmt.Sprintf("change %d", m.Change), m.WaitMillis))
		c.tryCommit()
	}
}

// counted takes what a server has counted of a lost worker. The first report of a server counts.
func (c *Core) counted(request uint64, m *wire.Counted) {
	n := c.member(request, m.Node)
	if n == nil {
		return
	}
	if n.Role != wire.RoleServer {
		c.refuse(request, wire.CodeUnsupported, "counted: %v is not a server", n)
		return
	}
	if s := c.lossReports[m.Lost]; s != nil {
		if _, known := s.told[n.Node]; !known && m.Placement == c.placement {
			s.told[n.Node] = m.Examples
			c.dirty.job = true
			if !c.reportsMissing() {
				c.change.reportsBy = time.Time{}
			}
		}
	}
	c.ack(request)
	c.tryCommit()
}

// loseWorker goes on without a worker that counted, or fails the job, as the policy says. The other
// workers wait in rounds that need the lost one, so the generation goes up at once; ranks and
// division follow with the change.
func (c *Core) loseWorker(n *node, cause control.Cause) {
	n.state, n.why = lost, cause.String()
	c.keep(n)
	e := c.set.Elastic
	loss, stay := c.loss(n, cause), c.staying()
	text := loss.String()
	switch {
	case e.OnWorkerLoss == cluster.LossFail:
		c.fail(loss)
		return
	case stay == 0:
		loss.Code = control.NoWorkerLeft
		c.fail(loss)
		return
	case c.stopsFor != "": // the checkpoint has what those who stay know; another number of workers goes on from it
	case e.OnWorkerLoss == cluster.LossShrink && n.State != wire.MemberLeaving && stay+len(c.admitted()) < e.MinWorkers:
		loss.Code, loss.Left, loss.Least = control.TooFewWorkers, stay, e.MinWorkers
		c.fail(loss)
		return
	}
	c.begin(text)
	want := 0
	switch {
	case n.State == wire.MemberLeaving, c.stopsFor != "": // no replacement comes
	case e.OnWorkerLoss == cluster.LossWait:
		want = stay + 1
	case stay < e.MinWorkers: // others are ready
		want = e.MinWorkers
	}
	if want > 0 {
		if c.change.want = max(c.change.want, want); c.change.loss == nil {
			c.change.loss = &loss
		}
		c.change.rejoinBy = c.now.Add(e.RejoinTimeout)
	}
	c.lossReports[n.Node] = &lossReport{n.Node, make(map[uint64]uint64)}
	if c.change.asked {
		c.change.reportsBy = c.now.Add(e.RejoinTimeout)
	}
	c.generation++
	c.scaleLost(text)
	c.noteRanks()
	c.tellLoss(n, text)
	if h := c.hosts[n.Host]; h != nil && h.status == control.RemovalQueued {
		c.hostLeft(n.Host)
	} else if !c.hasWorkers(n.Host) {
		c.setHost(n.Host, control.HostFailed, text)
	}
	c.changed()
	c.checkBarriers()
	for _, w := range c.signals.remove(func(w wait) bool { return w.sender == n.Node }) {
		c.refuse(w.request, wire.CodeUnavailable, "signal %s: its sender is gone: %s", wire.Shown(w.name), text)
	}
	c.tryCommit()
}

// passChange acts on the deadlines of joining workers, hosts and the pending change.
func (c *Core) passChange(t time.Time) {
	due := func(d time.Time) bool { return c.phase == wire.PhaseRunning && !d.IsZero() && !t.Before(d) }
	e := c.set.Elastic
	for _, n := range c.nodes {
		if c.mayBeDropped(n) && due(n.joinBy) {
			why := fmt.Sprintf("not ready within %v: a worker that joins has to call Ready of its store, as worker.Fit does", e.JoinTimeout)
			if n.State == wire.MemberReady {
				why = fmt.Sprintf("no place became free within %v: the job has its maximum of %s", e.JoinTimeout, plural.Of(c.staying(), "worker"))
			}
			c.drop(n, why)
		}
	}
	var late []string
	for name, h := range c.hosts {
		if due(h.by) {
			late = append(late, name)
		}
	}
	slices.Sort(late)
	for _, name := range late {
		if due(c.hosts[name].by) {
			c.failHost(name, fmt.Sprintf("no worker joined from it within %v", e.JoinTimeout))
		}
	}
	if c.phase == wire.PhaseRunning {
		c.passServers(t)
	}
	if due(c.change.reportsBy) {
		c.fail(c.changeTimeout())
	}
	if due(c.change.rejoinBy) {
		f := c.changeTimeout()
		if c.change.loss != nil {
			waited := f.WaitedNS
			f = *c.change.loss
			f.Code, f.WaitedNS = control.NotReplaced, waited
		}
		c.fail(f)
	}
}

// changeTimeout is the failure of a change that has waited too long.
func (c *Core) changeTimeout() control.Failure {
	return control.Failure{Code: control.ChangeTimeout, Rank: -1, Change: c.change.number, WaitedNS: int64(c.set.Elastic.RejoinTimeout), Waiting: []string{c.obstacles(0)}}
}

// serversToReport lists the servers that have not reported what they counted of a lost worker.
func (c *Core) serversToReport(s *lossReport) (nodes []*node) {
	for _, n := range c.living(wire.RoleServer) {
		if _, ok := s.told[n.Node]; !ok {
			nodes = append(nodes, n)
		}
	}
	return nodes
}

// vacant is how many workers are still wanted in the place of lost ones.
func (c *Core) vacant() int { return c.change.want - c.staying() - len(c.admitted()) }

// tryCommit commits the pending change if all have arrived and nothing is missing.
func (c *Core) tryCommit() {
	if c.phase != wire.PhaseRunning || c.change.number == 0 || len(c.change.arrived) == 0 {
		return
	}
	for _, n := range c.nodes {
		if n.Role == wire.RoleWorker && n.counts() && c.change.arrived[n.Node] == nil {
			return
		}
	}
	if c.reportsMissing() && !c.change.asked {
		c.change.asked, c.change.reportsBy = true, c.now.Add(c.set.Elastic.RejoinTimeout)
		c.changed()
	}
	if !c.reportsMissing() && c.vacant() <= 0 {
		c.commit()
	}
}

// reportsMissing reports whether a server has yet to report what it counted.
func (c *Core) reportsMissing() bool {
	for _, s := range c.lossReports {
		if len(c.serversToReport(s)) > 0 {
			return true
		}
	}
	return false
}

// obstacles says what the pending change waits for; for is the node that asks, which need not be
// told of itself.
func (c *Core) obstacles(asker uint64) string {
	if c.change.number == 0 {
		return fmt.Sprintf("a free place: the job has its maximum of %s", plural.Of(c.staying(), "worker"))
	}
	var names []string
	for _, n := range c.counting(wire.RoleWorker) {
		if c.change.arrived[n.Node] == nil && n.Node != asker && len(names) < maxNamed {
			names = append(names, c.describe(n))
		}
	}
	for _, lost := range c.lostToReport() {
		if !c.change.asked {
			break // they report as soon as they are asked
		}
		for _, n := range c.serversToReport(c.lossReports[lost]) {
			names = append(names, fmt.Sprintf("%v to report the examples it counted of %v", n, c.node(lost)))
		}
	}
	if v := c.vacant(); v > 0 {
		names = append(names, fmt.Sprintf("%d more workers (%s)", v, strings.Join(c.change.causes, "; ")))
	}
	return strings.Join(names, ", ")
}

// commit makes the pending change.
func (c *Core) commit() {
	enter := c.admitted()
	total, ok := c.divide()
	if !ok {
		return
	}
	var gone []*node
	var stay []*node
	for _, n := range c.counting(wire.RoleWorker) {
		if n.State == wire.MemberLeaving {
			gone = append(gone, n)
		} else {
			stay = append(stay, n)
		}
	}
	for _, n := range gone {
		n.state = removed
		c.keep(n)
	}
	for _, n := range enter {
		n.State, n.joinBy = wire.MemberCounts, time.Time{}
	}
	stay = append(stay, enter...)
	c.shares, c.before = nil, nil
	moved := false
	for rank, n := range stay {
		moved = moved || n.Rank >= 0 && n.Rank != int32(rank)
		n.Rank = int32(rank)
		c.shares, c.before = append(c.shares, n.Node), append(c.before, total[n.Node])
		c.keep(n)
	}
	c.workers = len(stay)
	c.generation++
	number, took := c.change.number, c.now.Sub(c.change.since)
	c.change = change{}
	clear(c.lossReports)
	c.note("change %d committed after %s: generation %d has %s from step %d, epoch %d, on", number, control.Seconds(took), c.generation, plural.Of(c.workers, "worker"), c.division.Steps, c.division.Epoch).
		Event = joblog.ChangeMade.With("change", number, "took", took, "generation", c.generation, "workers", c.workers, "steps", c.division.Steps, "epoch", c.division.Epoch)
	c.noteRanks()
	if moved {
		c.tellEvent(control.Event{Action: control.Ranks})
	}
	for _, n := range gone {
		c.noteLeft(n)
	}
	for _, n := range enter {
		if h := c.hosts[n.Host]; h == nil || h.status == control.AddQueued || h.status == control.HostFailed {
			c.setHost(n.Host, control.Added, "")
		}
		c.tellEvent(control.Event{Action: control.Added, Host: n.Host, Role: roleName(n.Role), PID: n.PID, Process: n.process})
	}
	c.checkScale()
	c.changed()
	for _, w := range c.bounds.remove(func(w wait) bool { n := c.node(w.node); return n != nil && (n.state == removed || n.counts()) }) {
		if n := c.node(w.node); n.state == removed {
			c.refuse(w.request, wire.CodeRemoved, "%v was removed from the job", n)
		} else {
			c.ack(w.request)
		}
	}
	c.checkBarriers()
	c.admitReady()
}

// lostToReport lists the lost workers whose examples the servers count.
func (c *Core) lostToReport() []uint64 {
	out := make([]uint64, 0, len(c.lossReports))
	for lost := range c.lossReports {
		out = append(out, lost)
	}
	slices.SortFunc(out, cmp.Compare[uint64])
	return out
}
