package tune

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/paragon-train/paragon/internal/vfs"
)

// A Replayed is what Replay derived.
type Replayed struct {
	// Events, Proposals and Decisions are how many were gone through and derived again.
	Events, Proposals, Decisions int
	// DecisionHash is that of the whole log.
	DecisionHash string
	// Torn is how many bytes of unfinished lines the log ends in.
	Torn int64
}

// Replay goes through the log of a study, in path or in the folder path, and derives all again
// that was proposed and decided, in the order in which reports came: parameters, which trial
// started when, every answer. cfg is the study's, with a Suggester, a Scheduler and Pruners that
// were not used yet. An error that answers errors.As for *DivergedError says at which event the
// log has something else.
func Replay(path string, cfg Config) (Replayed, error) {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		path = filepath.Join(path, logName)
	}
	return replay(vfs.OS{}, path, cfg)
}

func replay(fsys vfs.FS, path string, cfg Config) (Replayed, error) {
	var r Replayed
	if err := cfg.Validate(); err != nil {
		return r, err
	}
	l, err := newLedger(&cfg)
	if err != nil {
		return r, err
	}
	end, err := readLog(fsys, path, func(e *Event) (err error) {
		defer func() {
			if v := recover(); v != nil {
				err = fmt.Errorf("event %d: panic: %v", e.Seq, v)
			}
		}()
		if e.Kind == EventStudy {
			if err := e.Header.differs(cfg.header()); err != nil {
				return err
			}
		}
		r.Events++
		r.Proposals += b2i(e.Kind == EventStart && e.New)
		r.Decisions += b2i(e.Kind == EventReport)
		return l.applyEvent(e, true)
	})
	if err != nil {
		return r, fmt.Errorf("tune: replay %s: %w", path, err)
	}
	r.DecisionHash, r.Torn = l.hash.sum(), end.Torn
	return r, nil
}
