package scheduler

import (
	"errors"

	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// control answers the requests of the launcher, tools and people. A request that cannot be read is
// refused as malformed; one that cannot be granted is answered with the reason, for its sender has
// to show it to a person.
func (c *Core) control(request uint64, x *wire.Control) {
	r, err := control.DecodeRequest([]byte(x.Request))
	switch {
	case errors.Is(err, control.ErrMalformed):
		c.out.refuse(request, wire.CodeMalformed, "%v", err)
		return
	case err != nil:
		c.out.report(request, &control.Done{Error: err.Error()})
		return
	}
	switch r.Op {
	case control.OpEvents:
		c.events.read(&c.out, request, r)
		return
	case control.OpWanted:
		c.members.launchers.add(&c.out, request, r)
		return
	case control.OpScale:
		// This scheduler was started again, and cannot plan before it has heard from the launcher.
		if m := &c.members; m.fleet.Adopted && !m.fleet.heard() {
			m.scaleWaits.add(&c.out, request, r)
			return
		}
	}
	for _, answer := range []func(control.Request) control.Answer{c.look, c.traces, c.carryOut} {
		if a := answer(r); a != nil {
			c.out.report(request, a)
			return
		}
	}
}

// traces answers a request on traces; nil: it is another one.
func (c *Core) traces(r control.Request) control.Answer {
	m := &c.members
	switch {
	case r.Op == control.OpTraceParts:
		return c.trace.parts(c.out.now, r)
	case r.Op == control.OpTraceEnd:
		return &control.Done{Error: c.trace.end(r.Trace)}
	case r.Op != control.OpTrace:
		return nil
	case m.job.phase == wire.PhaseForming:
		return &control.Trace{Error: "no steps to record yet: the job is forming and waits for " + joined(m.missing(c.out.now)), Again: true}
	case !m.job.open():
		return &control.Trace{Error: m.job.over()}
	}
	return c.trace.begin(r, c.jobView())
}

// carryOut does what a request asks for, and answers whether it did; nil: it is another request.
// Asking again after a lost answer does no harm: what is under way already is either granted again
// or refused with a text that says so.
func (c *Core) carryOut(r control.Request) control.Answer {
	m, out, done := &c.members, &c.out, &control.Done{}
	switch r.Op {
	case control.OpReport:
		return m.observe(out, r.Observed)
	case control.OpScale:
		return m.askScale(out, r)
	case control.OpAddServer:
		done.Rank, done.Error = m.addServer(out, r.Host)
	case control.OpRemoveServer:
		done.Error, done.Again = m.removeServer(out, r.Rank)
	case control.OpStop:
		done.Error = m.stopAll(out)
	case control.OpCheckpointStop:
		if r.NeedsFolder && c.lacksCheckpoints() {
			done.Error = "its workers have no folder for checkpoints (--checkpoint-dir of the examples; in Python checkpoint= of ElasticSampler), so the job would lose all that it has trained; " +
				"launch ctl stop --force stops it all the same"
			break
		}
		done.Error, done.Again = m.stopWithCheckpoint(out, r.Reason)
	case control.OpAdd, control.OpRemove:
		done.Error = m.changeHost(out, r)
	default:
		return nil
	}
	return done
}
