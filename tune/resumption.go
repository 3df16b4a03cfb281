package tune

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/paragon-train/paragon/tune/internal/logfile"
	"github.com/paragon-train/paragon/tune/internal/studydir"
)

// A resumption reads the log that a study's folder has, and says why the study cannot go on from it.
// It changes nothing but what the reader of the events does.
type resumption struct {
	cfg    *Config
	folder *studydir.Folder
	logger *slog.Logger

	// end is how far the log can be read.
	end logfile.End
	// header says that there is a whole first event.
	header bool
	// was are the newest rules in the log; nil: it has none. now are those of the config.
	was, now *Rules
}

// read calls apply for the events of the log.
func (r *resumption) read(apply func(*Event) error) (err error) {
	r.now = r.cfg.rules()
	r.end, err = readLog(r.folder.FS(), r.folder.LogPath(), func(e *Event) error {
		if e.Seq == 0 {
			if err := r.checkFirst(e); err != nil {
				return err
			}
			r.header = true
		}
		if e.Rules != nil {
			r.was = e.Rules
		}
		return apply(e)
	})
	return err
}

// checkFirst says why the study of a log's first event cannot be resumed.
func (r *resumption) checkFirst(e *Event) error {
	if e.Kind != EventStudy {
		return errors.New("the first event is not a study event")
	}
	if r.cfg.Resume == ResumeNever {
		return ErrExists
	}
	if err := e.Header.differs(r.cfg.header()); err != nil {
		return fmt.Errorf("%w: put it back, or search in another folder (Config.Dir, dir: in study.yaml)", err)
	}
	return nil
}

// explain says what to do about the error of a log that could not be read.
func (r *resumption) explain(err error) error {
	switch {
	case errors.Is(err, ErrExists):
		return fmt.Errorf("tune: %s: %w: set Config.Resume to resume it", r.cfg.Dir, err)
	case r.was != nil && r.was.key() != r.now.key() && isDiverged(err):
		return fmt.Errorf("tune: resume %s: %s: put it back, or search in another folder (Config.Dir, dir: in study.yaml); the log has decisions that the new rules do not make: %w", r.folder.LogPath(), r.was.differs(r.now)[0], err)
	}
	return fmt.Errorf("tune: resume %s: %w", r.folder.LogPath(), err)
}

// checkEnd says why a log that was read cannot be continued, and logs what is odd about it. A torn
// end is kept in a file beside the log: what is in it had no effect. trials is how many the log has.
func (r *resumption) checkEnd(trials int) error {
	path, end := r.folder.LogPath(), r.end
	if r.was != nil && len(r.was.differs(r.now)) > 0 {
		r.logger.Info("tune: the search is resumed with other rules", "log", path, "changed", strings.Join(r.was.differs(r.now), "; "))
	}
	if !r.header {
		if err := r.folder.NoTrials(fmt.Sprintf("the log has no whole line, but %d bytes", end.Torn)); err != nil {
			return err
		}
	}
	if end.CRLF {
		r.logger.Warn("tune: lines of the log end in a carriage return: an editor or git has changed the file; it is read all the same. For git, write *.jsonl -text into .gitattributes", "log", path)
	}
	if end.Torn == 0 {
		return nil
	}
	if err := r.folder.NoLaterTrials(end, trials); err != nil {
		return err
	}
	kept, err := r.folder.KeepTail(end.Bytes)
	if err != nil {
		return fmt.Errorf("tune: resume %s: %w", path, err)
	}
	r.logger.Warn("tune: the end of the log is incomplete and is cut off; no trial had received its answer", "log", path, "line", end.Lines+1, "bytes", end.Torn, "found", end.Why, "kept in", kept)
	return nil
}
