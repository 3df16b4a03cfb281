package tune

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/paragon-train/paragon/tune/internal/logfile"
)

// A recorder is the one way in which a study changes. It numbers an event, has it change the
// ledger, and passes it to the journal and to the observers, in this order: so the log never has an
// event that the ledger refused, and the sum of the log's events is the ledger.
type recorder struct {
	// study is the study's name, for messages.
	study string

	// mu guards all below with the ledger's contents, and makes the journal's order that of the
	// numbers.
	mu       sync.Mutex
	l        *ledger
	journal  *logfile.Journal
	clock    studyClock
	end      studyEnd
	audience audience
	// changed is closed at the next event.
	changed chan struct{}
	// onEvent is told of each event, before it is on the disk.
	onEvent func(*Event)
}

// newRecorder makes the recorder of a study by a valid config. Its journal and audience are set
// when the study is opened.
func newRecorder(cfg *Config, l *ledger) *recorder {
	r := &recorder{study: cfg.Name, l: l, clock: studyClock{now: time.Now}, end: studyEnd{over: make(chan struct{}), phase: studyOpen},
		changed: make(chan struct{}), onEvent: func(*Event) {}}
	if cfg.Now != nil {
		r.clock.now = cfg.Now
	}
	return r
}

// emit numbers an event and appends it to the log; apply changes the ledger. mu is held.
func (r *recorder) emit(e *Event, apply func() error) error {
	return r.emitAt(r.clock.now(), e, apply)
}

// emitAt is emit of an event that has happened at this time.
func (r *recorder) emitAt(now time.Time, e *Event, apply func() error) error {
	switch r.end.phase {
	case studyClosed:
		return errors.New("tune: the study is closed")
	case studyUnsound:
		return r.end.fatal
	}
	e.Seq, e.Time = r.l.view.seq, logTime(now)
	e.At = max(r.clock.at(now), r.l.view.elapsed)
	if err := r.l.view.step(e); err != nil {
		return err
	}
	if err := guarded(apply); err != nil {
		r.end.phase = studyUnsound
		r.end.fail(fmt.Errorf("tune: study %s event %d: %w", r.study, e.Seq, err))
		return r.end.fatal
	}
	r.journal.Append(e.Seq, func(b []byte) []byte { return appendEvent(b, e) })
	r.audience.add(e)
	r.onEvent(e)
	close(r.changed)
	r.changed = make(chan struct{})
	return nil
}

// logTime is a time as the log has it.
func logTime(now time.Time) time.Time { return now.Round(0).UTC() }

// newest is the number of the newest event, or 0 before the first. mu is held.
func (r *recorder) newest() uint64 { return max(r.l.view.seq, 1) - 1 }

// awaitWritten waits until the event is on disk, and shows it to the observers. If it cannot be
// written, the study is over.
func (r *recorder) awaitWritten(seq uint64) error {
	err := r.journal.Wait(seq)
	if err != nil || len(r.audience.observers) > 0 {
		r.mu.Lock()
		defer r.mu.Unlock()
		if err != nil {
			r.end.fail(err)
		}
		r.show()
	}
	return err
}

// show shows the observers the events that are on the disk. mu is held.
func (r *recorder) show() { r.audience.show(r.journal.Done(), r.l.view) }

// broken is the error that ended the study, or nil. mu is held.
func (r *recorder) broken() error {
	if err := r.journal.Broken(); err != nil {
		r.end.fail(err)
	}
	return r.end.fatal
}

// fail ends the study with an error. mu is held.
func (r *recorder) fail(err error) {
	if r.end.fatal == nil {
		r.halt("error", err.Error())
		r.end.fail(err)
	}
}

// failWith is fail for a caller that does not hold mu.
func (r *recorder) failWith(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fail(err)
}

// halt ends the study, unless it has ended. mu is held.
func (r *recorder) halt(rule, text string) {
	if r.l.view.stops.halted != "" {
		return
	}
	r.end.tell()
	e := Event{Kind: EventHalt, Rule: rule, Error: clip(text)}
	// emit fails only once the study is closed.
	_ = r.emit(&e, func() error { r.l.halt(&e); return nil })
}

// haltIfOver ends the study if a pruner has enough, or the deadline has passed by an event. mu is
// held.
func (r *recorder) haltIfOver(e *Event) {
	if r.l.view.stops.enough != "" {
		r.halt(r.l.view.stops.enough, "")
	} else if r.l.cfg.pastDeadline(e.Time) {
		r.halt(r.l.cfg.deadlineText(), "")
	}
}

// look calls f with the current state of the study. f must not call the study, nor keep the view.
func (r *recorder) look(f func(View)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f(r.l.view)
}

// ended says whether the study was halted, and the error that ended it.
func (r *recorder) ended() (halted bool, fatal error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.l.view.stops.halted != "", r.end.fatal
}

// notice has f told of each event from now on, before it is on the disk. f must not call the study.
func (r *recorder) notice(f func(*Event)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.onEvent = f
}

// close lets no more events in, writes those that are there, and shows them to the observers.
// release is called when all is written, and before the observers are closed. done reports that the
// recorder was closed before.
func (r *recorder) close(release func()) (done bool, err error) {
	r.mu.Lock()
	if r.end.phase == studyClosed {
		r.mu.Unlock()
		return true, nil
	}
	r.end.phase = studyClosed
	r.mu.Unlock()
	err = r.journal.Close()
	release()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.show()
	return false, errors.Join(err, r.audience.close(r.l.view))
}
