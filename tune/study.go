package tune

import (
	"context"
	"errors"
	"log/slog"

	"github.com/paragon-train/paragon/tune/internal/checkpoints"
	"github.com/paragon-train/paragon/tune/internal/studydir"
)

// A Study is one search that the caller drives: Ask returns the next trial to run, Tell takes
// its reports and returns the decisions, Finish takes its end. Run is a loop around these. The
// methods may be called from several goroutines.
type Study struct {
	cfg    Config
	logger *slog.Logger
	folder studydir.Folder

	// rec makes the study's events. Its mutex guards the ledger l, which changes by events alone,
	// and waited and noted.
	rec         *recorder
	l           *ledger
	checkpoints checkpointKeeper

	// asking is held by the goroutine that waits for something to run.
	asking chan struct{}
	// waited is the number of the next event when there was nothing to run, plus 1: until
	// another event there is nothing to run.
	waited uint64
	// noted is what a run at one fidelity reported last, by trial.
	noted map[int]Metrics

	// page is nil if none is served.
	page *studyPage
}

// Ask waits for a trial to run and returns it as it is at its start; its Attempts is the number of
// the attempt to run. It returns ErrDone when there are no more.
func (s *Study) Ask(ctx context.Context) (Trial, error) { return s.ask(ctx, "") }

// ask is Ask of a trial that runs at a location.
func (s *Study) ask(ctx context.Context, location string) (Trial, error) {
	t, seq, err := s.startable(ctx, location)
	if err != nil {
		return Trial{}, err
	}
	return t, s.rec.awaitWritten(seq)
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
		s.rec.mu.Lock()
		t, seq, err := s.start(location)
		changed := s.rec.changed
		s.rec.mu.Unlock()
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
	s.rec.mu.Lock()
	t, seq, err := s.start("")
	s.rec.mu.Unlock()
	if err != nil {
		return Trial{}, err
	}
	return t, s.rec.awaitWritten(seq)
}

// start begins the next trial. The study's mutex is held.
func (s *Study) start(location string) (Trial, uint64, error) {
	for {
		if err := s.rec.broken(); err != nil {
			return Trial{}, 0, err
		}
		e, err := s.nextEvent()
		if err != nil {
			return Trial{}, 0, err
		}
		now := s.rec.clock.now()
		if s.cfg.pastDeadline(logTime(now)) {
			s.rec.halt(s.cfg.deadlineText(), "")
			continue
		}
		if e = s.l.inTime(e, logTime(now)); e.Kind != EventStart {
			if err := s.rec.emitAt(now, &e, func() error { return s.l.noStart(&e) }); err != nil {
				return Trial{}, 0, err
			}
			continue
		}
		// Without its checkpoint the trial continues from another one, or starts over.
		if whole, err := s.canRestore(&e); err != nil {
			return Trial{}, 0, err
		} else if !whole {
			continue
		}
		e.Location = location
		if err := s.rec.emitAt(now, &e, func() error { return s.l.begin(&e) }); err != nil {
			return Trial{}, 0, err
		}
		delete(s.noted, e.Trial)
		return s.l.view.trials[e.Trial].Clone(), e.Seq, nil
	}
}

// nextEvent is the ledger's next event for a free slot. Until another event has changed the ledger
// it is not asked again. The study's mutex is held.
func (s *Study) nextEvent() (e Event, err error) {
	if s.waited == s.l.view.seq+1 {
		return Event{}, ErrWait
	}
	err = guarded(func() (err error) { e, err = s.l.next(); return err })
	switch {
	case errors.Is(err, ErrWait):
		s.waited = s.l.view.seq + 1
	case err != nil && !errors.Is(err, ErrDone):
		s.rec.fail(err)
	}
	return e, err
}

// canRestore says whether the checkpoint that a start goes on from is whole, if it goes on from
// any. The study's mutex is held.
func (s *Study) canRestore(e *Event) (bool, error) {
	if e.New || e.Restore < 0 {
		return true, nil
	}
	return s.checkpoints.stillWhole(checkpoints.Name{Trial: e.Donor, Step: e.Restore, Attempt: e.RestoreOf})
}

// Stop ends the study: no more trials start, and running trials are asked to stop.
func (s *Study) Stop(rule string) {
	s.rec.mu.Lock()
	defer s.rec.mu.Unlock()
	if rule == "" {
		rule = "asked to"
	}
	s.rec.halt(rule, "")
}

// View calls f with the current state of the study. f must not call the study, nor keep the view.
func (s *Study) View(f func(View)) { s.rec.look(f) }
