package tune

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/paragon-train/paragon/internal/files/scratch"
	"github.com/paragon-train/paragon/internal/files/vfs"
	"github.com/paragon-train/paragon/internal/observe/joblog"
)

// A Study is one search that the caller drives: Ask returns the next trial to run, Tell takes
// its reports and returns the decisions, Finish takes its end. Run is a loop around these. The
// methods may be called from several goroutines.
type Study struct {
	cfg     Config
	logger  *slog.Logger
	journal *journal
	log     logFolder
	// asking is held by the goroutine that waits for something to run.
	asking chan struct{}

	mu    sync.Mutex // guards all below, and the order of the journal
	l     *ledger
	clock studyClock
	end   studyEnd
	// changed is closed at the next event.
	changed chan struct{}
	// waited is the number of the next event when there was nothing to run, plus 1: until
	// another event there is nothing to run.
	waited      uint64
	audience    audience
	checkpoints checkpointFolder
	// overBudget says that a message has told that checkpoints exceed their budget.
	overBudget bool
	// noted is what a run at one fidelity reported last, by trial.
	noted map[int]Metrics
	// onEvent is told of each event, before it is on the disk.
	onEvent func(*Event)

	// page is nil if none is served.
	page *studyPage
}

// NewStudy begins a study, or resumes the one in cfg.Dir as cfg.Resume says. Close ends it. Trials
// that were running when the study last ended are the first that Ask returns.
func NewStudy(cfg Config) (*Study, error) { return newStudy(cfg, vfs.OS{}) }

func newStudy(cfg Config, fsys vfs.FS) (_ *Study, err error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if cfg.Name == "" {
		cfg.Name = defaultName
	}
	s := &Study{cfg: cfg, logger: cfg.Logger, log: logFolder{fsys: fsys, dir: cfg.Dir}, asking: make(chan struct{}, 1), changed: make(chan struct{}),
		clock: studyClock{now: time.Now}, end: studyEnd{over: make(chan struct{}), phase: studyOpen}, noted: map[int]Metrics{}, onEvent: func(*Event) {}}
	s.chooseScheduler()
	if cfg.Now != nil {
		s.clock.now = cfg.Now
	}
	if s.logger == nil {
		s.logger = joblog.Process()
	}
	if s.l, err = newLedger(&s.cfg); err != nil {
		return nil, err
	}
	if real(fsys) {
		scratch.Sweep() // killed searches leave temporary folders
	}
	defer func() {
		if err != nil {
			s.log.release()
			s.page.close()
		}
	}()
	if s.page, err = newStudyPage(&s.cfg); err != nil {
		return nil, err
	}
	s.audience = audience{study: s.cfg.Name, observers: s.cfg.Observers, logger: s.logger}
	if err := s.open(); err != nil {
		return nil, err
	}
	s.page.show(s)
	return s, nil
}

// chooseScheduler takes the default scheduler, unless another one is set, or the study began with
// FIFO.
func (s *Study) chooseScheduler() {
	log := ""
	if s.cfg.Dir != "" {
		log = s.log.path()
	}
	s.cfg.chooseScheduler(s.log.fsys, log)
}

// chooseScheduler sets Scheduler to the default, unless the study began with FIFO. log is the path
// of its log; "" is none.
func (c *Config) chooseScheduler(fsys vfs.FS, log string) {
	if c.Scheduler == nil && c.DefaultScheduler != nil && (log == "" || !beganWithFIFO(fsys, log)) {
		c.Scheduler = c.DefaultScheduler
	}
}

// beganWithFIFO says whether there is a log whose study began with FIFO.
func beganWithFIFO(fsys vfs.FS, path string) bool {
	fifo, enough := false, errors.New("the header is enough")
	// An error is left to the next reader of the log, which reports it.
	_, _ = readLog(fsys, path, func(e *Event) error {
		fifo = e.Header != nil && e.Header.Scheduler == typeOf(nil, FIFO{})
		return enough
	})
	return fifo
}

// emit numbers an event and appends it to the log; apply changes the ledger. s.mu is held.
func (s *Study) emit(e *Event, apply func() error) error { return s.emitAt(s.clock.now(), e, apply) }

// emitAt is emit of an event that has happened at this time.
func (s *Study) emitAt(now time.Time, e *Event, apply func() error) error {
	switch s.end.phase {
	case studyClosed:
		return errors.New("tune: the study is closed")
	case studyUnsound:
		return s.end.fatal
	}
	e.Seq, e.Time = s.l.seq, logTime(now)
	e.At = max(s.clock.at(now), s.l.elapsed)
	if err := s.l.step(e); err != nil {
		return err
	}
	if err := guarded(apply); err != nil {
		s.end.phase = studyUnsound
		s.end.fail(fmt.Errorf("tune: study %s event %d: %w", s.cfg.Name, e.Seq, err))
		return s.end.fatal
	}
	s.journal.append(e)
	s.audience.add(e)
	s.onEvent(e)
	close(s.changed)
	s.changed = make(chan struct{})
	return nil
}

// logTime is a time as the log has it.
func logTime(now time.Time) time.Time { return now.Round(0).UTC() }

// awaitWritten waits until the event is on disk, and shows it to the observers. If it cannot be
// written, the study is over.
func (s *Study) awaitWritten(seq uint64) error {
	err := s.journal.wait(seq)
	if err != nil || len(s.cfg.Observers) > 0 {
		s.mu.Lock()
		defer s.mu.Unlock()
		if err != nil {
			s.end.fail(err)
		}
		s.show()
	}
	return err
}

// show shows the observers the events that are on the disk. s.mu is held.
func (s *Study) show() { s.audience.show(s.journal.done(), s.l) }

// Ask waits for a trial to run and returns it as it is at its start; its Attempts is the number of
// the attempt to run. It returns ErrDone when there are no more.
func (s *Study) Ask(ctx context.Context) (Trial, error) { return s.ask(ctx, "") }

func (s *Study) ask(ctx context.Context, location string) (Trial, error) {
	t, seq, err := s.startable(ctx, location)
	if err != nil {
		return Trial{}, err
	}
	return t, s.awaitWritten(seq)
}

// startable waits for the start of a trial. Of several goroutines that wait one does the work.
func (s *Study) startable(ctx context.Context, location string) (Trial, uint64, error) {
	select {
	case s.asking <- struct{}{}:
	case <-ctx.Done():
		return Trial{}, 0, context.Cause(ctx)
	}
	defer func() { <-s.asking }()
	for {
		if ctx.Err() != nil {
			return Trial{}, 0, context.Cause(ctx)
		}
		s.mu.Lock()
		t, seq, err := s.start(location)
		changed := s.changed
		s.mu.Unlock()
		if !errors.Is(err, ErrWait) {
			return t, seq, err
		}
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
}

// TryAsk is Ask without waiting: it returns ErrWait if there is nothing to run before another
// report or end of a trial.
func (s *Study) TryAsk() (Trial, error) {
	s.mu.Lock()
	t, seq, err := s.start("")
	s.mu.Unlock()
	if err != nil {
		return Trial{}, err
	}
	return t, s.awaitWritten(seq)
}

// start begins the next trial. s.mu is held.
func (s *Study) start(location string) (Trial, uint64, error) {
	for {
		if err := s.broken(); err != nil {
			return Trial{}, 0, err
		}
		if s.waited == s.l.seq+1 {
			return Trial{}, 0, ErrWait
		}
		var e Event
		err := guarded(func() (err error) { e, err = s.l.next(); return err })
		switch {
		case errors.Is(err, ErrWait):
			s.waited = s.l.seq + 1
			return Trial{}, 0, err
		case errors.Is(err, ErrDone):
			return Trial{}, 0, err
		case err != nil:
			s.fail(err)
			return Trial{}, 0, err
		}
		now := s.clock.now()
		if s.cfg.pastDeadline(logTime(now)) {
			s.halt(s.cfg.deadlineText(), "")
			continue
		}
		switch e = s.l.inTime(e, logTime(now)); e.Kind {
		case EventExhausted:
			if err := s.emitAt(now, &e, func() error { s.l.stops.exhaust(&e); return nil }); err != nil {
				return Trial{}, 0, err
			}
			continue
		case EventAbandon:
			if err := s.emitAt(now, &e, func() error { return s.l.abandon(&e) }); err != nil {
				return Trial{}, 0, err
			}
			continue
		}
		if from := (keptStep{e.Donor, e.Restore, e.RestoreOf}); !e.New && from.step >= 0 {
			if whole, err := s.stillWhole(from); err != nil {
				return Trial{}, 0, err
			} else if !whole {
				// The trial continues from another checkpoint, or starts over.
				continue
			}
		}
		e.Location = location
		if err := s.emitAt(now, &e, func() error { return s.l.begin(&e) }); err != nil {
			return Trial{}, 0, err
		}
		delete(s.noted, e.Trial)
		return s.l.trials[e.Trial].Clone(), e.Seq, nil
	}
}

// broken is the error that ended the study, or nil. s.mu is held.
func (s *Study) broken() error {
	if err := s.journal.broken(); err != nil {
		s.end.fail(err)
	}
	return s.end.fatal
}

// fail ends the study with an error. s.mu is held.
func (s *Study) fail(err error) {
	if s.end.fatal == nil {
		s.halt("error", err.Error())
		s.end.fail(err)
	}
}

// failWith is fail for a caller that does not hold s.mu.
func (s *Study) failWith(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fail(err)
}

// ended says whether the study was halted, and the error that ended it.
func (s *Study) ended() (halted bool, fatal error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.l.stops.halted != "", s.end.fatal
}

// notice has f told of each event from now on, before it is on the disk. f must not call the study.
func (s *Study) notice(f func(*Event)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.onEvent = f
}

// halt ends the study. s.mu is held.
func (s *Study) halt(rule, text string) {
	if s.l.stops.halted != "" {
		return
	}
	s.end.tell()
	e := Event{Kind: EventHalt, Rule: rule, Error: clip(text)}
	// emit fails only once the study is closed.
	_ = s.emit(&e, func() error { s.l.halt(&e); return nil })
}

// Stop ends the study: no more trials start, and running trials are asked to stop.
func (s *Study) Stop(rule string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if rule == "" {
		rule = "asked to"
	}
	s.halt(rule, "")
}

// View calls f with the current state of the study. f must not call the study, nor keep the view.
func (s *Study) View(f func(View)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(s.l)
}

// maxText bounds messages in the log.
const maxText = 8 << 10

// clip shortens a message for the log.
func clip(text string) string {
	if len(text) > maxText {
		text = text[:maxText] + fmt.Sprintf("... (%d bytes)", len(text))
	}
	return strings.ToValidUTF8(text, "\ufffd")
}
