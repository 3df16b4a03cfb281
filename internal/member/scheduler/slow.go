package scheduler

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/internal/observe/joblog"
	"github.com/paragon-train/paragon/internal/observe/telemetry"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// tallyPause is the least time between two tallies of a small job: heartbeats come one after
// another, and each tally reads all workers.
const tallyPause = 100 * time.Millisecond

// A slowWatch finds the worker that the others wait for, by a rule over what the nodes measure, and
// tells when there is one and when there is none any more.
type slowWatch struct {
	history *telemetry.History
	// rule names the slow worker. It got a tally last at tallied, and is due another one since
	// records came.
	rule    telemetry.SlowWatch
	tallied time.Time
	due     bool
	now     slowness
}

// A slowness is what the events say of the slow worker. It ends later than the rule says, so that a
// worker at the threshold does not make an event with every step.
type slowness struct {
	// node is 0 if no one is slow.
	node  uint64
	since time.Time
	// seen is when the rule named it last.
	seen time.Time
	// hold is how long the rule must not name it until it is not slow any more.
	hold time.Duration
}

// A worker is slow until the rule has not named it for so long, and for so many steps.
const (
	slowHold      = 10 * time.Second
	slowHoldSteps = 5

	// longSlowHold is the time after a restart, when the length of the steps is not known yet.
	longSlowHold = time.Minute
)

// heard counts what the job has done. It is called with each record of a node. One of a node that
// was not known here may have counts from before, so that the watch begins anew. workers is how
// many the job has.
func (s *slowWatch) heard(out *output, r *roster, isNew bool, workers int) {
	if isNew {
		s.rule, s.tallied = telemetry.SlowWatch{}, out.now
	}
	s.due = true
	if out.now.Sub(s.tallied) >= tallyPause*time.Duration(1+workers/256) {
		s.tally(out.now, out.job, r)
		s.watch(out, r)
	}
}

// tally gives the rule what is known now.
func (s *slowWatch) tally(now time.Time, job *jobState, r *roster) {
	s.tallied, s.due = now, false
	newest := func(node uint64, m telemetry.Metric) float64 {
		return s.history.Newest(node, telemetry.Column{Metric: m})
	}
	t := telemetry.Tally{At: now.Sub(job.start), Rounds: s.history.Total(telemetry.Column{Metric: telemetry.Rounds})}
	for _, n := range r.living(wire.RoleServer) {
		if shards := newest(n.Node, telemetry.Shards); !math.IsNaN(shards) {
			t.Shards += shards
		}
	}
	for _, w := range r.workers() {
		rounds, seconds := s.history.Charged(w.Node)
		t.Workers = append(t.Workers, telemetry.WorkerTally{Node: w.Node, BlamedRounds: float64(rounds), BlamedSeconds: seconds, Steps: newest(w.Node, telemetry.Steps),
			StepSeconds: newest(w.Node, telemetry.StepSeconds), WaitSeconds: newest(w.Node, telemetry.WaitSeconds), DataSeconds: newest(w.Node, telemetry.DataSeconds),
			SaveSeconds: newest(w.Node, telemetry.SaveSeconds)})
	}
	slices.SortFunc(t.Workers, func(a, b telemetry.WorkerTally) int { return cmp.Compare(a.Node, b.Node) })
	s.rule.Add(t)
}

// watch tells when a worker becomes slow, and when it is so no longer.
func (s *slowWatch) watch(out *output, r *roster) {
	was := s.now
	switch list := s.slowest(out.now, out.job, r); {
	case len(list) > 0 && list[0].Node == was.node:
		s.now.seen = out.now
	case len(list) > 0:
		s.end(out, r)
		x := list[0]
		s.now = slowness{x.Node, out.now, out.now, max(slowHold, time.Duration(min(x.StepSeconds, time.Hour.Seconds())*slowHoldSteps*1e9))}
		n := r.node(x.Node)
		out.eventLogged(n.rankEvent(control.BecameSlow, x.String()), joblog.SlowWorker.Of(n.logged(), "node", n.Node, "slow", true, "share", x.Share, "gap", x.Gap, "cause", x.Cause))
	case was.node != 0 && out.now.Sub(was.seen) >= was.hold:
		s.end(out, r)
	}
}

// gone ends the slowness of a node that does not live any more.
func (s *slowWatch) gone(out *output, n *node, r *roster) {
	if n.life != living && n.Node == s.now.node {
		s.end(out, r)
	}
}

// end ends that a worker is slow.
func (s *slowWatch) end(out *output, r *roster) {
	was := s.now
	s.now = slowness{}
	n := r.node(was.node)
	if was.node == 0 || n == nil {
		return
	}
	text := fmt.Sprintf("%v is no longer slow", n)
	// The duration is 0 if the rule named it once.
	d := was.seen.Sub(was.since)
	switch {
	case n.life != living && d > 0:
		text = fmt.Sprintf("%v was slow for %s, until it left", n, control.Seconds(d))
	case n.life != living:
		text = fmt.Sprintf("%v was slow until it left", n)
	case d > 0:
		text += ", after " + control.Seconds(d)
	}
	out.eventLogged(n.rankEvent(control.NotSlow, text), joblog.SlowWorker.Of(n.logged(), "node", n.Node, "slow", false))
}

// slowest are the workers that the others wait for, by the newest records.
func (s *slowWatch) slowest(now time.Time, job *jobState, r *roster) []control.Slow {
	if s.due {
		s.tally(now, job, r)
	}
	x, ok := s.rule.Slow()
	if !ok {
		return nil
	}
	n := r.node(x.Node)
	if n == nil || n.life != living {
		return nil
	}
	return []control.Slow{{Node: n.Node, Rank: n.Rank, Host: n.Host, Share: roundTo(x.Share, 4), Rounds: uint64(math.Round(x.Rounds)), Gap: roundTo(x.Gap, 6), Steps: math.Round(x.Steps),
		Seconds: roundTo(x.Seconds, 3), StepSeconds: roundTo(x.StepSeconds, 6), Cause: x.Cause, Ratio: roundTo(min(x.Ratio, math.MaxInt32), 3)}}
}

// restored finds who was slow by the newest event that says so.
func (s *slowWatch) restored(now time.Time, events []control.Event, r *roster) {
	i := len(events) - 1
	for i >= 0 && !events[i].OfWorker() {
		i--
	}
	if i < 0 || events[i].Action != control.BecameSlow {
		return
	}
	e := &events[i]
	for _, n := range r.nodes {
		if n.worker() && n.Host == e.Host && n.PID == e.PID && n.process == e.Process && uint32(n.Rank) == e.Rank {
			s.now = slowness{n.Node, time.Unix(0, e.TimeNS), now, longSlowHold}
		}
	}
}
