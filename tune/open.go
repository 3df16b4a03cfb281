package tune

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"
)

const logVersion = 1

// header identifies the study in the log.
func (c *Config) header() *Header {
	h := &Header{Version: logVersion, Name: c.Name, Metric: c.Metric, Mode: c.Mode, Seed: c.Seed,
		Suggester: typeOf(c.Suggester, Random{}), Scheduler: typeOf(c.Scheduler, FIFO{}), Objectives: texts(resolved(c.Objectives)), Constraints: texts(c.Constraints)}
	for _, p := range c.Space {
		h.Space = append(h.Space, p.line())
	}
	for _, p := range c.Points {
		if full, err := c.Space.point(p); err == nil {
			h.Space = append(h.Space, "point "+string(full.appendJSON(nil)))
		}
	}
	if c.DefaultFirst {
		h.Space = append(h.Space, "default first")
	}
	if c.Fidelity != nil {
		h.Space = append(h.Space, c.Fidelity.line())
	}
	return h
}

func typeOf(v, otherwise any) string {
	if v == nil {
		v = otherwise
	}
	return fmt.Sprintf("%T", v)
}

// String describes a parameter in full, but for the function of a derived one.
func (s Spec) String() string { return s.line() }

func (s Spec) line() string {
	b := fmt.Appendf(nil, "%s %q", s.Kind, s.Name)
	switch s.Kind {
	case KindReal, KindInt:
		b = fmt.Appendf(b, " [%v, %v]", s.Low, s.High)
	case KindNormal, KindLogNormal:
		b = fmt.Appendf(b, " %v ± %v", s.Mean, s.Deviation)
	case KindChoice, KindGrid:
		b = append(b, ' ')
		b = append(b, formatAll(s.Values)...)
	}
	if s.Log {
		b = append(b, " log"...)
	}
	if s.Step > 0 {
		b = fmt.Appendf(b, " step %v", s.Step)
	}
	if s.Default != nil {
		b = append(append(b, " default "...), appendValue(nil, s.Default)...)
	}
	if s.Parent != "" {
		b = fmt.Appendf(b, " when %q %s", s.Parent, formatAll(s.ParentValues))
	}
	return string(b)
}

func formatAll(values []any) string {
	b := []byte{'['}
	for i, v := range values {
		if i > 0 {
			b = append(b, ' ')
		}
		b = appendValue(b, v)
	}
	return string(append(b, ']'))
}

// differs names a property of a study that has changed and must not.
func (h *Header) differs(now *Header) error {
	for _, f := range []struct {
		name      string
		was, want any
	}{{"the version of the log", h.Version, now.Version}, {"Metric", h.Metric, now.Metric}, {"Mode", h.Mode, now.Mode}, {"Seed", h.Seed, now.Seed},
		{"Objectives", strings.Join(h.Objectives, ", "), strings.Join(now.Objectives, ", ")}, {"Constraints", strings.Join(h.Constraints, ", "), strings.Join(now.Constraints, ", ")},
		{"Fidelity", cmp.Or(h.Fidelity(), "none"), cmp.Or(now.Fidelity(), "none")}, {"the number of parameters and points", len(h.Space), len(now.Space)}} {
		if f.was != f.want {
			return fmt.Errorf("%s was %v and is now %v", f.name, f.was, f.want)
		}
	}
	for i, line := range h.Space {
		if line != now.Space[i] {
			return fmt.Errorf("the space had %s and has now %s", line, now.Space[i])
		}
	}
	return nil
}

// open creates the study's log, or reads it and resumes.
func (s *Study) open() error {
	s.clock.opened = s.clock.now()
	if s.cfg.Dir == "" {
		s.journal = newJournal("", nil, 0, 0)
		return s.first()
	}
	if err := s.checkpoints.use(s.cfg.Dir); err != nil {
		return err
	}
	if err := s.log.open(); err != nil {
		return err
	}
	r, err := s.readLog()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return s.create()
	case err != nil:
		return s.resumeError(r, err)
	}
	if err := s.checkEnd(r); err != nil {
		return err
	}
	if err := s.appendTo(r); err != nil {
		return err
	}
	if !r.header {
		return s.first()
	}
	return s.again()
}

// A reading is what was read of a study's log.
type reading struct {
	end logEnd
	// header says that there is a whole first event.
	header bool
	// was are the newest rules in the log, now those of the config.
	was, now *Rules
}

// readLog reads the log into the ledger.
func (s *Study) readLog() (r reading, err error) {
	r.now = s.cfg.rules()
	r.end, err = readLog(s.log.fsys, s.log.path(), func(e *Event) error {
		if e.Seq == 0 {
			if err := s.checkFirst(e); err != nil {
				return err
			}
			r.header = true
		}
		if e.Rules != nil {
			r.was = e.Rules
		}
		if err := s.l.applyEvent(e, false); err != nil {
			return err
		}
		s.page.note(s.l, e)
		return nil
	})
	return r, err
}

// checkFirst says why the study of a log's first event cannot be resumed.
func (s *Study) checkFirst(e *Event) error {
	if e.Kind != EventStudy {
		return errors.New("the first event is not a study event")
	}
	if s.cfg.Resume == ResumeNever {
		return ErrExists
	}
	if err := e.Header.differs(s.cfg.header()); err != nil {
		return fmt.Errorf("%w: put it back, or search in another folder (Config.Dir, dir: in study.yaml)", err)
	}
	return nil
}

// create begins a log where there is none.
func (s *Study) create() (err error) {
	if err := s.log.noTrials("there is no log"); err != nil {
		return err
	}
	if s.journal, err = createJournal(s.log.fsys, s.cfg.Dir); err != nil {
		return err
	}
	return s.first()
}

// resumeError says what to do about the error of a log that could not be read.
func (s *Study) resumeError(r reading, err error) error {
	switch {
	case errors.Is(err, ErrExists):
		return fmt.Errorf("tune: %s: %w: set Config.Resume to resume it", s.cfg.Dir, err)
	case r.was != nil && r.was.key() != r.now.key() && isDiverged(err):
		return fmt.Errorf("tune: resume %s: %s: put it back, or search in another folder (Config.Dir, dir: in study.yaml); the log has decisions that the new rules do not make: %w", s.log.path(), r.was.differs(r.now)[0], err)
	}
	return fmt.Errorf("tune: resume %s: %w", s.log.path(), err)
}

// checkEnd says why a log that was read cannot be continued, and logs what is odd about it. A torn
// end is kept in a file beside the log: what is in it had no effect.
func (s *Study) checkEnd(r reading) error {
	path, end := s.log.path(), r.end
	if r.was != nil && len(r.was.differs(r.now)) > 0 {
		s.logger.Info("tune: the search is resumed with other rules", "log", path, "changed", strings.Join(r.was.differs(r.now), "; "))
	}
	if !r.header {
		if err := s.log.noTrials(fmt.Sprintf("the log has no whole line, but %d bytes", end.Torn)); err != nil {
			return err
		}
	}
	if end.CRLF {
		s.logger.Warn("tune: lines of the log end in a carriage return: an editor or git has changed the file; it is read all the same. For git, write *.jsonl -text into .gitattributes", "log", path)
	}
	if end.Torn == 0 {
		return nil
	}
	if err := s.log.noLaterTrials(end, len(s.l.trials)); err != nil {
		return err
	}
	kept, err := s.log.keepTail(end.Bytes)
	if err != nil {
		return fmt.Errorf("tune: resume %s: %w", path, err)
	}
	s.logger.Warn("tune: the end of the log is incomplete and is cut off; no trial had received its answer", "log", path, "line", end.Lines+1, "bytes", end.Torn, "found", end.Why, "kept in", kept)
	return nil
}

// appendTo continues the log behind its last whole line.
func (s *Study) appendTo(r reading) error {
	f, err := s.log.fsys.Append(s.log.path(), r.end.Bytes)
	if err != nil {
		return fmt.Errorf("tune: resume %s: %w", s.log.path(), err)
	}
	s.journal = newJournal(s.log.path(), f, s.l.seq, r.end.Bytes)
	s.clock.before, s.clock.opened = s.l.elapsed, s.clock.now()
	return nil
}

// first writes the first event.
func (s *Study) first() error {
	e := Event{Kind: EventStudy, Header: s.cfg.header(), Rules: s.cfg.rules()}
	s.mu.Lock()
	err := s.emit(&e, func() error { return nil })
	s.mu.Unlock()
	if err != nil {
		return err
	}
	return s.awaitWritten(e.Seq)
}

// again resumes a study as Config.Resume says.
func (s *Study) again() error {
	s.mu.Lock()
	err := s.takeUp()
	seq := s.l.seq - 1
	s.mu.Unlock()
	if err != nil {
		return err
	}
	if err := s.awaitWritten(seq); err != nil {
		return err
	}
	s.sweep()
	return nil
}

func (s *Study) takeUp() error {
	e := Event{Kind: EventOpen, Rules: s.cfg.rules()}
	if err := s.emit(&e, func() error { s.l.open(); return nil }); err != nil {
		return err
	}
	if err := s.reconcile(); err != nil {
		return err
	}
	if s.l.stops.enough != "" {
		s.halt(s.l.stops.enough, "")
		return nil
	}
	var ran, failed []int
	for _, t := range s.l.trials {
		switch t.State {
		case Running, Stopped:
			ran = append(ran, t.Number)
		case Pending:
			if !s.l.queue.has(t.Number) || t.run.cut {
				ran = append(ran, t.Number)
			}
		case Failed:
			failed = append(failed, t.Number)
		}
	}
	switch s.cfg.Resume {
	case ErroredOnly, ResumeNew:
		queued := slices.Clone(s.l.queue.numbers)
		ran = slices.DeleteFunc(append(ran, queued...), func(n int) bool { return s.l.trials[n].State == Stopped })
		slices.Sort(ran)
		ran = slices.Compact(ran)
		if err := s.list(EventAbandon, ran, false); err != nil {
			return err
		}
	default:
		if err := s.list(EventRequeue, ran, false); err != nil {
			return err
		}
	}
	switch s.cfg.Resume {
	case ResumeErrored:
		return s.list(EventRequeue, failed, false)
	case RestartErrored:
		return s.list(EventRequeue, failed, true)
	case ErroredOnly:
		return s.list(EventRequeue, failed, false)
	}
	return nil
}

func (s *Study) list(kind EventKind, trials []int, fresh bool) error {
	if len(trials) == 0 && s.cfg.Resume != ErroredOnly || len(trials) == 0 && kind == EventAbandon {
		return nil
	}
	e := Event{Kind: kind, Trials: trials, Fresh: fresh, Rule: string(s.cfg.Resume)}
	return s.emit(&e, func() error {
		if kind == EventAbandon {
			return s.l.abandon(&e)
		}
		return s.l.requeue(&e)
	})
}

// Close writes the rest of the log and unlocks the folder. It does not end running trials: they
// continue when the study is resumed.
func (s *Study) Close() error {
	s.mu.Lock()
	if s.end.phase == studyClosed {
		s.mu.Unlock()
		return nil
	}
	s.end.phase = studyClosed
	s.mu.Unlock()
	err := s.journal.close()
	s.sweep()
	s.mu.Lock()
	s.show()
	err = errors.Join(err, s.audience.close(s.l))
	s.mu.Unlock()
	s.page.close()
	err = errors.Join(err, s.checkpoints.close())
	s.log.release()
	return err
}

// elapsed is how long the study has run.
func (s *Study) elapsed() time.Duration { return s.clock.elapsed() }
