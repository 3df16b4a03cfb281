package tune

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/paragon-train/paragon/internal/files/lockfile"
	"github.com/paragon-train/paragon/internal/files/vfs"
	"github.com/paragon-train/paragon/internal/observe/plural"
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
	s.opened = s.now()
	if s.cfg.Dir == "" {
		s.journal = newJournal("", nil, 0, 0)
		return s.first()
	}
	if err := s.useFolder(); err != nil {
		return err
	}
	if err := s.fsys.MkdirAll(s.cfg.Dir); err != nil {
		return fmt.Errorf("tune: make folder of the study: %w", err)
	}
	if err := s.takeLock(); err != nil {
		return err
	}
	path := filepath.Join(s.cfg.Dir, logName)
	var end logEnd
	header, now := false, s.cfg.rules()
	var was *Rules
	end, err := readLog(s.fsys, path, func(e *Event) error {
		if e.Seq == 0 {
			if e.Kind != EventStudy {
				return errors.New("the first event is not a study event")
			}
			if s.cfg.Resume == ResumeNever {
				return ErrExists
			}
			if err := e.Header.differs(s.cfg.header()); err != nil {
				return fmt.Errorf("%w: put it back, or search in another folder (Config.Dir, dir: in study.yaml)", err)
			}
			header = true
		}
		if e.Rules != nil {
			was = e.Rules
		}
		if err := s.l.applyEvent(e, false); err != nil {
			return err
		}
		s.observer.note(s.l, e)
		return nil
	})
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if err := s.noTrials("there is no log"); err != nil {
			return err
		}
		if s.journal, err = createJournal(s.fsys, s.cfg.Dir); err != nil {
			return err
		}
		return s.first()
	case errors.Is(err, ErrExists):
		return fmt.Errorf("tune: %s: %w: set Config.Resume to resume it", s.cfg.Dir, err)
	case err != nil && was != nil && was.key() != now.key() && isDiverged(err):
		return fmt.Errorf("tune: resume %s: %s: put it back, or search in another folder (Config.Dir, dir: in study.yaml); the log has decisions that the new rules do not make: %w", path, was.differs(now)[0], err)
	case err != nil:
		return fmt.Errorf("tune: resume %s: %w", path, err)
	case was != nil && len(was.differs(now)) > 0:
		s.logger.Info("tune: the search is resumed with other rules", "log", path, "changed", strings.Join(was.differs(now), "; "))
	}
	if !header {
		if err := s.noTrials(fmt.Sprintf("the log has no whole line, but %d bytes", end.Torn)); err != nil {
			return err
		}
	}
	if end.CRLF {
		s.logger.Warn("tune: lines of the log end in a carriage return: an editor or git has changed the file; it is read all the same. For git, write *.jsonl -text into .gitattributes", "log", path)
	}
	if end.Torn > 0 {
		if err := s.noLaterTrials(path, end); err != nil {
			return err
		}
		kept, err := s.keepTail(path, end.Bytes)
		if err != nil {
			return fmt.Errorf("tune: resume %s: %w", path, err)
		}
		s.logger.Warn("tune: the end of the log is incomplete and is cut off; no trial had received its answer", "log", path, "line", end.Lines+1, "bytes", end.Torn, "found", end.Why, "kept in", kept)
	}
	f, err := s.fsys.Append(path, end.Bytes)
	if err != nil {
		return fmt.Errorf("tune: resume %s: %w", path, err)
	}
	s.journal = newJournal(path, f, s.l.seq, end.Bytes)
	s.before = s.l.elapsed
	s.opened = s.now()
	if !header {
		return s.first()
	}
	return s.again()
}

// noTrials is an error if the folder has trials already: a search without a log would mix its
// trials with them.
func (s *Study) noTrials(why string) error {
	found, err := entries(filepath.Join(s.cfg.Dir, trialsFolder), "trial-")
	if err != nil || len(found) == 0 {
		return err
	}
	return fmt.Errorf("tune: %s: %s, and the folders of %s are there, such as %s: put the log back from a copy, or move the folder away to begin anew",
		filepath.Join(s.cfg.Dir, logName), why, plural.Of(len(found), "trial"), found[0])
}

// noLaterTrials is an error if the folder has trials that are not in the log. A trial's folder is
// made only once its start is on the disk, so the log has lost more than a crash can take.
func (s *Study) noLaterTrials(path string, end logEnd) error {
	found, err := entries(filepath.Join(s.cfg.Dir, trialsFolder), "trial-")
	if err != nil {
		return err
	}
	for _, name := range found {
		if n, err := strconv.Atoi(strings.TrimPrefix(name, "trial-")); err == nil && n >= len(s.l.trials) {
			return fmt.Errorf("tune: log %s line %d and all after it, %d bytes, are damaged: %w; the log ends before %s, whose folder is there; %s, or cut it after its first %d bytes to go on without what follows",
				path, end.Lines+1, end.Torn, end.Why, trialName(n), fromACopy, end.Bytes)
		}
	}
	return nil
}

// entries are the names in a folder that begin with a prefix; none if it is no folder.
// filepath.Glob would take a bracket in the folder's path for a part of the pattern.
func entries(folder, prefix string) (names []string, err error) {
	all, err := os.ReadDir(folder)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return nil, nil
	}
	for _, e := range all {
		if strings.HasPrefix(e.Name(), prefix) {
			names = append(names, e.Name())
		}
	}
	return names, err
}

// keepTail copies what the log has from byte from on into a file beside it, and returns its path. A
// file that is there is not replaced.
func (s *Study) keepTail(path string, from int64) (string, error) {
	f, err := s.fsys.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return "", err
	}
	kept := fmt.Sprintf("%s.cut-%d", path, from)
	for n := 2; ; n++ {
		old, err := s.fsys.Open(kept)
		if errors.Is(err, fs.ErrNotExist) {
			break
		}
		if err != nil {
			return "", err
		}
		_ = old.Close()
		kept = fmt.Sprintf("%s.cut-%d.%d", path, from, n)
	}
	return kept, vfs.WriteFile(s.fsys, kept, func(w io.Writer) error {
		_, err := io.Copy(w, io.NewSectionReader(f, from, size-from))
		return err
	})
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
	if s.l.enough != "" {
		s.halt(s.l.enough, "")
		return nil
	}
	var ran, failed []int
	for _, t := range s.l.trials {
		switch t.State {
		case Running, Stopped:
			ran = append(ran, t.Number)
		case Pending:
			if !t.run.queued || t.run.cut {
				ran = append(ran, t.Number)
			}
		case Failed:
			failed = append(failed, t.Number)
		}
	}
	switch s.cfg.Resume {
	case ErroredOnly, ResumeNew:
		queued := slices.Clone(s.l.queue)
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

// takeLock keeps other processes out of the folder.
func (s *Study) takeLock() error {
	if !s.real() {
		return nil
	}
	path := filepath.Join(s.cfg.Dir, "lock")
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o666)
	if err != nil {
		return fmt.Errorf("tune: lock: %w", err)
	}
	if err := lockfile.Take(f); err != nil {
		_ = f.Close()
		if errors.Is(err, lockfile.ErrTaken) {
			return fmt.Errorf("tune: %s: %w", path, ErrLocked)
		}
		return fmt.Errorf("tune: lock: %w", err)
	}
	s.lock = f
	return nil
}

func (s *Study) unlock() {
	if s.lock != nil {
		_ = s.lock.Close()
		s.lock = nil
	}
}

// Close writes the rest of the log and unlocks the folder. It does not end running trials: they
// continue when the study is resumed.
func (s *Study) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	s.mu.Unlock()
	err := s.journal.close()
	s.sweep()
	s.mu.Lock()
	s.show()
	for _, o := range s.cfg.Observers {
		if c, ok := o.(Closer); ok {
			err = errors.Join(err, c.Close(s.l))
		}
	}
	s.mu.Unlock()
	s.closePage()
	if s.temp != nil {
		err = errors.Join(err, s.temp.Remove())
	}
	s.unlock()
	return err
}

// elapsed is how long the study has run.
func (s *Study) elapsed() time.Duration { return s.before + s.now().Sub(s.opened) }
