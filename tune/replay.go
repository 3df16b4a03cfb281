package tune

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/paragon-train/paragon/internal/vfs"
)

// A Replayed is the result of Replay.
type Replayed struct {
	// Events, Proposals and Decisions are the numbers of events read, and of proposals and decisions recomputed.
	Events, Proposals, Decisions int
	// DecisionHash is that of the whole log.
	DecisionHash string
	// Torn is the number of bytes of incomplete lines at the end of the log.
	Torn int64
}

// Replay reads the log of a study, at path or in the folder path, and recomputes every proposal and
// decision in the order of the reports: parameters, which trial started when, every answer. cfg is
// the study's, with an unused Suggester, Scheduler and Pruners. A *DivergedError in the chain of the
// error (errors.As) names the first event where the log differs.
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
