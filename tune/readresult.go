package tune

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/paragon-train/paragon/internal/files/vfs"
	"github.com/paragon-train/paragon/tune/internal/ruletext"
	"github.com/paragon-train/paragon/tune/internal/studydir"
)

// ReadResult reads the result so far from a study's log alone, at path or in the folder path. The
// study may be running. Decisions are those of the log: Load and Replay check them by the study's
// rules. The functions of derived parameters are not in a log, and those of the result's space
// return nil.
func ReadResult(path string) (*Result, error) {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		path = filepath.Join(path, studydir.LogName)
	}
	var l *ledger
	_, err := readLog(vfs.OS{}, path, func(e *Event) (err error) {
		switch {
		case e.Kind == EventStudy && l == nil:
			cfg, err := e.Header.config()
			if err != nil {
				return fmt.Errorf("event %d: %w", e.Seq, err)
			}
			if l, err = newLedger(cfg); err != nil {
				return err
			}
		case l == nil:
			return errors.New("the first event is not a study event")
		}
		if e.Rules != nil {
			l.cfg.Samples, l.cfg.Scope, l.cfg.KeepDiverged, l.cfg.Deadline = e.Rules.Samples, e.Rules.Scope, e.Rules.KeepDiverged, e.Rules.Deadline
			l.cfg.logged = &loggedRules{ruletext.TypeName(e.Rules.Suggester), ruletext.TypeName(e.Rules.Scheduler)}
			if l.view.plan, err = newPlan(l.cfg); err != nil {
				return err
			}
		}
		return l.applyEvent(e, false)
	})
	if err == nil && l == nil {
		err = errors.New("it has no event")
	}
	if err != nil {
		return nil, fmt.Errorf("tune: read result %s: %w", path, err)
	}
	return l.result(), nil
}
