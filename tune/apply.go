package tune

import (
	"bytes"
	"errors"
	"fmt"
)

// applyEvent applies an event of the log. The decisions of scheduler and pruners must be those of
// the log; if all is set, proposals and choices must be, too.
func (l *ledger) applyEvent(e *Event, all bool) error {
	if all && (e.Kind == EventStart || e.Kind == EventExhausted || e.isLate()) && e.Origin != FromElsewhere {
		if err := l.derive(e); err != nil {
			return err
		}
	}
	if err := l.view.step(e); err != nil {
		return err
	}
	switch e.Kind {
	case EventStudy:
		if e.Seq != 0 {
			return fmt.Errorf("event %d: a study event that is not the first event", e.Seq)
		}
	case EventOpen:
		l.open()
	case EventStart:
		return l.begin(e)
	case EventReport:
		return l.foldReport(e)
	case EventCheckpoint:
		return l.keep(e)
	case EventDrop:
		return l.drop(e)
	case EventEnd:
		return l.foldEnd(e)
	case EventExhausted:
		l.view.stops.exhaust(e)
	case EventHalt:
		l.halt(e)
	case EventRequeue:
		return l.requeue(e)
	case EventAllocate:
		return l.foldAllocate(e)
	case EventAbandon:
		return l.abandon(e)
	}
	return nil
}

// foldReport applies a report of the log, whose decision must be the one that is made now.
func (l *ledger) foldReport(e *Event) error {
	if err := l.record(e); err != nil {
		return err
	}
	d, enough := l.decide(e)
	got, want := appendDecision(nil, &e.Decision), appendDecision(nil, &d)
	switch {
	case bytes.Equal(got, want):
	case l.cfg.logged != nil:
		return fmt.Errorf("event %d: the decision %s is impossible", e.Seq, said(got))
	default:
		return &DivergedError{e.Seq, said(got), said(want)}
	}
	l.obey(e, enough)
	return nil
}

// said is a decision for a message.
func said(b []byte) string {
	if len(b) == 0 {
		return string(Continue)
	}
	return string(b[len(`,"decision":`):])
}

// foldEnd applies an end of the log, which must have the outcome that it would have now.
func (l *ledger) foldEnd(e *Event) error {
	t := l.view.Trial(e.Trial)
	if t == nil {
		return fmt.Errorf("event %d: end of trial %d, which does not exist", e.Seq, e.Trial)
	}
	again := *e
	l.judgeEnd(&again)
	if again.Outcome != e.Outcome || again.Failure != e.Failure || again.Error != e.Error {
		return &DivergedError{e.Seq, fmt.Sprintf("%s %s %s", e.Outcome, e.Failure, e.Error), fmt.Sprintf("%s %s %s", again.Outcome, again.Failure, again.Error)}
	}
	// Retries may change from one process to the next, so a retry in the log stands.
	return l.finish(e)
}

// errUnused stands for a recorded proposal that the deadline did not allow.
var errUnused = errors.New("the proposal was not used")

// derive compares a start, or that there are no new trials, with what comes next.
func (l *ledger) derive(e *Event) error {
	if r, ok := l.suggester.(Recorded); ok && r.Recorded() && (e.New || e.Kind == EventExhausted) {
		l.suggester = logged{params: e.Params}
		if e.Kind == EventExhausted {
			l.suggester = logged{err: ErrExhausted}
		}
		// The log has no proposal that was not used.
		if e.isLate() {
			l.suggester = logged{err: errUnused}
		}
		defer func() { l.suggester = r }()
	}
	next, err := l.next()
	switch {
	case errors.Is(err, errUnused):
		next = Event{Kind: EventStart, New: true, Trial: len(l.view.trials)}
	case err != nil:
		next = Event{Kind: EventKind(err.Error())}
	}
	next = l.inTime(next, e.Time)
	next.Seq, next.Time, next.At, next.Location = e.Seq, e.Time, e.At, e.Location
	got, want := appendEvent(nil, e), appendEvent(nil, &next)
	if !bytes.Equal(got, want) {
		return &DivergedError{e.Seq, string(bytes.TrimSpace(got)), string(bytes.TrimSpace(want))}
	}
	return nil
}
