package scheduler

import (
	"fmt"
	"strings"
	"time"

	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// Heartbeat is how often nodes are told to send one.
func (c *Core) Heartbeat() time.Duration { return c.set.Heartbeat }

// Phase is the job's phase and, where it failed, the reason.
func (c *Core) Phase() (phase uint8, reason string) {
	return c.members.job.phase, c.members.job.reason
}

// Failure says why the job failed; nil: it has not.
func (c *Core) Failure() *control.Failure { return c.members.job.failure }

// Stopping says why the job stops with a checkpoint, as whoever asked for it told, and how long
// that may take; empty: it does not; 0: as long as the launcher lets it.
func (c *Core) Stopping() (reason string, limit time.Duration) {
	return c.members.job.stopsFor, c.members.job.stopWithin
}

// Stopped is what the stopped job can go on from; nil: no worker has told yet.
func (c *Core) Stopped() *control.Stopped { return c.members.job.stopped }

// Adaptation is the newest one of rank 0; nil: none came.
func (c *Core) Adaptation() *control.Adaptation { return c.adapts.newest }

// Waiting names the nodes that are missing while the job is forming.
func (c *Core) Waiting() []string {
	if c.members.job.phase != wire.PhaseForming {
		return nil
	}
	return c.members.missing(c.out.now)
}

// Pending says what the pending change waits for, if it has been pending for so long; else "".
func (c *Core) Pending(least time.Duration) string {
	m := &c.members
	p := &m.change.pending
	took := c.out.now.Sub(p.since)
	if !m.change.isPending() || !m.job.running() || took < least {
		return ""
	}
	return fmt.Sprintf("change %d (%s) for %s, %s", p.number, strings.Join(p.causes, "; "), m.change.obstacles(0, &m.roster, c.out.now), control.Seconds(took))
}

// InGrace names the nodes that are waited for although their leases have expired, and says why.
func (c *Core) InGrace() (list []string) {
	m := &c.members
	if !m.job.running() {
		return nil
	}
	for _, n := range m.leases.inGrace(&m.roster, maxNamed) {
		list = append(list, m.leases.text(n, c.out.now))
	}
	return list
}

// Settled reports whether the job has ended and every living node knows it, also those that were
// removed and have not acknowledged yet; and nobody waits for a trace.
func (c *Core) Settled() bool {
	m := &c.members
	if m.job.open() || c.trace.awaited(c.out.now) {
		return false
	}
	for _, n := range m.roster.nodes {
		if n.listens() && !m.watches.told[n.Node] {
			return false
		}
	}
	return true
}

// Telemetry is what OpTelemetry answers, for use within this process: with all nodes, however many
// there are.
func (c *Core) Telemetry() *control.Telemetry { return c.meters.all(c.jobView()) }

// jobView is what answers on measurements say of the job. Making it may take a tally, which changes
// nothing that is recorded.
func (c *Core) jobView() jobView {
	m := &c.members
	return jobView{c.out.now, &m.job, &m.roster, c.slow.slowest(c.out.now, &m.job, &m.roster)}
}

// lacksCheckpoints reports whether a running job has no place for checkpoints.
func (c *Core) lacksCheckpoints() bool {
	m := &c.members
	return m.job.running() && m.job.stop != stoppingWithCheckpoint && c.meters.noCheckpointFolder(m.roster.workers())
}

// A journalFault says that the journal cannot be written at the moment. The zero value: it can.
type journalFault struct {
	since time.Time
	// err is that of the last attempt; nil: the first one still runs.
	err error
}

func (f journalFault) cause() string {
	if f.err == nil {
		return "the write takes long"
	}
	return f.err.Error()
}

// text says so for people, at a time; empty: it can be written.
func (f journalFault) text(now time.Time) string {
	if f.since.IsZero() {
		return ""
	}
	return fmt.Sprintf("the scheduler has not been able to write its journal for %s: %s; until it can, nodes and requests for changes get no answer, and training goes on meanwhile",
		now.Sub(f.since).Round(time.Second), f.cause())
}

// looks reports whether a message only looks at the job: its answer changes nothing, so it need not
// wait for the journal.
func looks(m wire.Message) bool {
	c, ok := m.(*wire.Control)
	if !ok {
		return false
	}
	r, err := control.DecodeRequest([]byte(c.Request))
	if err != nil {
		return false
	}
	switch r.Op {
	case control.OpStatus, control.OpWhy, control.OpTelemetry, control.OpSeries:
		return true
	}
	return false
}

// look is the answer to a request that only looks at the job; nil: it does more.
func (c *Core) look(r control.Request) control.Answer {
	switch r.Op {
	case control.OpStatus:
		return c.status()
	case control.OpWhy:
		return c.why()
	case control.OpTelemetry:
		return c.meters.telemetry(r, c.jobView())
	case control.OpSeries:
		return c.meters.series(r, c.jobView())
	}
	return nil
}

// Look answers a request for which looks is true while the journal cannot be written. No deadline
// passes for it: the core has the time of its last event afterwards, too, so that its next step
// sees that it was held up.
func (c *Core) Look(at time.Time, m *wire.Control, fault journalFault) wire.Message {
	defer func(was time.Time) { c.out.now = was }(c.out.now)
	if at.After(c.out.now) {
		c.out.now = at
	}
	generation := c.members.job.generation
	r, err := control.DecodeRequest([]byte(m.Request))
	if err != nil {
		return &wire.Nack{Code: wire.CodeMalformed, Generation: generation, Text: err.Error()}
	}
	answer := c.look(r)
	switch a := answer.(type) {
	case *control.Status:
		a.Journal = fault.text(c.out.now)
	case *control.Why:
		a.Waits = append([]control.Wait{{Who: "the job", At: "the scheduler's journal", For: "a write to succeed: " + fault.cause(), Seconds: c.out.now.Sub(fault.since).Seconds()}}, a.Waits...)
	}
	b, err := control.EncodeAnswer(answer)
	if err != nil {
		return &wire.Nack{Code: wire.CodeInternal, Generation: generation, Text: err.Error()}
	}
	return &wire.Report{Answer: string(b)}
}
