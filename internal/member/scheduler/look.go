package scheduler

import (
	"fmt"
	"time"

	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// A journalFault says that the journal cannot be written at the moment. The zero value: it can.
type journalFault struct {
	since time.Time
	err   error // of the last attempt; nil: the first one still runs
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
		return c.telemetry(r)
	case control.OpSeries:
		return c.series(r)
	}
	return nil
}

// Look answers a request for which looks is true while the journal cannot be written. No deadline
// passes for it: the core has the time of its last event afterwards, too, so that its next step
// sees that it was held up.
func (c *Core) Look(at time.Time, m *wire.Control, fault journalFault) wire.Message {
	defer func(was time.Time) { c.now = was }(c.now)
	if at.After(c.now) {
		c.now = at
	}
	r, err := control.DecodeRequest([]byte(m.Request))
	if err != nil {
		return &wire.Nack{Code: wire.CodeMalformed, Generation: c.generation, Text: err.Error()}
	}
	answer := c.look(r)
	switch a := answer.(type) {
	case *control.Status:
		a.Journal = fault.text(c.now)
	case *control.Why:
		a.Waits = append([]control.Wait{{Who: "the job", At: "the scheduler's journal", For: "a write to succeed: " + fault.cause(), Seconds: c.now.Sub(fault.since).Seconds()}}, a.Waits...)
	}
	b, err := control.EncodeAnswer(answer)
	if err != nil {
		return &wire.Nack{Code: wire.CodeInternal, Generation: c.generation, Text: err.Error()}
	}
	return &wire.Report{Answer: string(b)}
}
