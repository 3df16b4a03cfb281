package tune

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"github.com/paragon-train/paragon/internal/files/scratch"
	"github.com/paragon-train/paragon/internal/files/vfs"
	"github.com/paragon-train/paragon/internal/observe/joblog"
	"github.com/paragon-train/paragon/tune/internal/logfile"
	"github.com/paragon-train/paragon/tune/internal/studydir"
)

// open creates the study's log, or reads it and resumes.
func (s *Study) open() error {
	s.rec.clock.opened = s.rec.clock.now()
	if s.cfg.Dir == "" {
		s.rec.journal = logfile.New("", nil, 0, 0)
		return s.first()
	}
	if err := s.checkpoints.folder.Use(s.cfg.Dir); err != nil {
		return err
	}
	if err := s.folder.Open(); err != nil {
		return err
	}
	r := resumption{cfg: &s.cfg, folder: &s.folder, logger: s.logger}
	err := r.read(func(e *Event) error {
		if err := s.l.applyEvent(e, false); err != nil {
			return err
		}
		s.page.note(s.l.view, e)
		return nil
	})
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return s.create()
	case err != nil:
		return r.explain(err)
	}
	if err := r.checkEnd(len(s.l.view.trials)); err != nil {
		return err
	}
	if err := s.appendTo(r.end.Bytes); err != nil {
		return err
	}
	if !r.header {
		return s.first()
	}
	return s.again()
}

// create begins a log where there is none.
func (s *Study) create() (err error) {
	if err := s.folder.NoTrials("there is no log"); err != nil {
		return err
	}
	if s.rec.journal, err = logfile.Create(s.folder.FS(), s.folder.LogPath()); err != nil {
		return err
	}
	return s.first()
}

// appendTo continues the log behind its last whole line, which ends at byte end.
func (s *Study) appendTo(end int64) error {
	path := s.folder.LogPath()
	f, err := s.folder.FS().Append(path, end)
	if err != nil {
		return fmt.Errorf("tune: resume %s: %w", path, err)
	}
	s.rec.journal = logfile.New(path, f, s.l.view.seq, end)
	s.rec.clock.before, s.rec.clock.opened = s.l.view.elapsed, s.rec.clock.now()
	return nil
}

// first writes the first event.
func (s *Study) first() error {
	e := Event{Kind: EventStudy, Header: s.cfg.header(), Rules: s.cfg.rules()}
	s.rec.mu.Lock()
	err := s.rec.emit(&e, func() error { return nil })
	s.rec.mu.Unlock()
	if err != nil {
		return err
	}
	return s.rec.awaitWritten(e.Seq)
}

// again resumes a study as Config.Resume says.
func (s *Study) again() error {
	s.rec.mu.Lock()
	err := s.takeUp()
	seq := s.l.view.seq - 1
	s.rec.mu.Unlock()
	if err != nil {
		return err
	}
	if err := s.rec.awaitWritten(seq); err != nil {
		return err
	}
	s.checkpoints.sweep()
	return nil
}

// takeUp logs that another process runs the study, and what becomes of the trials that the one
// before has left. The study's mutex is held.
func (s *Study) takeUp() error {
	e := Event{Kind: EventOpen, Rules: s.cfg.rules()}
	if err := s.rec.emit(&e, func() error { s.l.open(); return nil }); err != nil {
		return err
	}
	if err := s.checkpoints.reconcile(); err != nil {
		return err
	}
	if s.l.view.stops.enough != "" {
		s.rec.halt(s.l.view.stops.enough, "")
		return nil
	}
	for _, e := range s.l.leftOver(s.cfg.Resume) {
		apply := s.l.requeue
		if e.Kind == EventAbandon {
			apply = s.l.abandon
		}
		if err := s.rec.emit(&e, func() error { return apply(&e) }); err != nil {
			return err
		}
	}
	return nil
}

// leftOver are the events by which a study that is resumed queues the trials again that were cut
// off or have failed, or gives them up. The study has no attempt under way.
func (l *ledger) leftOver(resume ResumeMode) (events []Event) {
	list := func(kind EventKind, trials []int, fresh bool) {
		events = append(events, Event{Kind: kind, Trials: trials, Fresh: fresh, Rule: string(resume)})
	}
	cut, failed := l.view.trials.leftOver(&l.queue)
	switch resume {
	case ErroredOnly, ResumeNew:
		waiting := slices.Clone(l.queue.numbers)
		given := slices.DeleteFunc(append(cut, waiting...), func(n int) bool { return l.view.trials[n].State == Stopped })
		slices.Sort(given)
		if given = slices.Compact(given); len(given) > 0 {
			list(EventAbandon, given, false)
		}
	default:
		if len(cut) > 0 {
			list(EventRequeue, cut, false)
		}
	}
	// ErroredOnly is logged without failed trials, too: it keeps new ones from being started.
	again := resume == ResumeErrored || resume == RestartErrored
	if again && len(failed) > 0 || resume == ErroredOnly {
		list(EventRequeue, failed, resume == RestartErrored)
	}
	return events
}

// Close writes the rest of the log and unlocks the folder. It does not end running trials: they
// continue when the study is resumed.
func (s *Study) Close() error {
	done, err := s.rec.close(s.checkpoints.sweep)
	if done {
		return nil
	}
	s.page.close()
	err = errors.Join(err, s.checkpoints.folder.Close())
	s.folder.Release()
	return err
}

// elapsed is how long the study has run.
func (s *Study) elapsed() time.Duration { return s.rec.clock.elapsed() }

// NewStudy begins a study, or resumes the one in cfg.Dir as cfg.Resume says. Close ends it. Trials
// that were running when the study last ended are the first that Ask returns.
func NewStudy(cfg Config) (*Study, error) { return newStudy(cfg, vfs.OS{}) }

// newStudy is NewStudy whose log is on fsys.
func newStudy(cfg Config, fsys vfs.FS) (_ *Study, err error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if cfg.Name == "" {
		cfg.Name = defaultName
	}
	s := &Study{cfg: cfg, logger: cfg.Logger, folder: studydir.New(fsys, cfg.Dir), asking: make(chan struct{}, 1), noted: map[int]Metrics{}}
	s.chooseScheduler()
	if s.logger == nil {
		s.logger = joblog.Process()
	}
	if s.l, err = newLedger(&s.cfg); err != nil {
		return nil, err
	}
	s.rec = newRecorder(&s.cfg, s.l)
	s.checkpoints = checkpointKeeper{rec: s.rec, l: s.l, logger: s.logger, durable: studydir.OnDisk(fsys), budget: cfg.CheckpointBytes}
	if studydir.OnDisk(fsys) {
		// Searches that were killed leave temporary folders.
		scratch.Sweep()
	}
	defer func() {
		if err != nil {
			s.folder.Release()
			s.page.close()
		}
	}()
	if s.page, err = newStudyPage(&s.cfg); err != nil {
		return nil, err
	}
	s.rec.audience = audience{study: s.cfg.Name, observers: s.cfg.Observers, logger: s.logger}
	if err := s.open(); err != nil {
		return nil, err
	}
	s.page.show(&s.cfg, s.rec, s.logger)
	return s, nil
}

// chooseScheduler takes the default scheduler, unless another one is set, or the study began with
// FIFO.
func (s *Study) chooseScheduler() {
	log := ""
	if s.cfg.Dir != "" {
		log = s.folder.LogPath()
	}
	s.cfg.chooseScheduler(s.folder.FS(), log)
}
