package tune

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/paragon-train/paragon/internal/files/vfs"
	"github.com/paragon-train/paragon/tune/internal/ruletext"
	"github.com/paragon-train/paragon/tune/internal/studydir"
)

// A Replayed is the result of Replay.
type Replayed struct {
	// Events, Proposals and Decisions are the numbers of events read, and of proposals and
	// decisions recomputed.
	Events, Proposals, Decisions int
	// DecisionHash is that of the whole log.
	DecisionHash string
	// Torn is the number of bytes of incomplete lines at the end of the log.
	Torn int64
}

// Replay reads the log of a study, at path or in the folder path, and recomputes every proposal and
// decision in the order of the reports: parameters, which trial started when, every answer. cfg is
// the study's, with an unused Suggester, Scheduler and Pruners. A *DivergedError in the chain of
// the error (errors.As) names the first event where the log differs.
//
// A study may have been resumed with other rules: each opening is replayed with those that the log
// has for it. Rules that are not cfg's are made anew, of the types that are in cfg or among known,
// such as &suggest.TPE{}; their settings are in the log. If no opening had cfg's rules, all are
// replayed with them, but for the number of samples.
func Replay(path string, cfg Config, known ...any) (Replayed, error) {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		path = filepath.Join(path, studydir.LogName)
	}
	return replay(vfs.OS{}, path, cfg, known...)
}

// replay is Replay of a file on fsys.
func replay(fsys vfs.FS, path string, cfg Config, known ...any) (Replayed, error) {
	if err := cfg.Validate(); err != nil {
		return Replayed{}, err
	}
	cfg.chooseScheduler(fsys, path)
	r := replayer{fsys: fsys, path: path, cfg: cfg, maker: ruletext.NewMaker(ruleKinds)}
	r.maker.Know(Random{}, FIFO{}, cfg.Suggester, cfg.Scheduler, cfg.DefaultScheduler)
	for _, p := range cfg.Pruners {
		r.maker.Know(p)
	}
	r.maker.Know(known...)
	if err := r.readOpenings(); err != nil {
		return r.result, fmt.Errorf("tune: replay %s: %w", path, err)
	}
	for i, o := range r.openings {
		if o.first == i {
			if err := r.pass(i); err != nil {
				return r.result, fmt.Errorf("tune: replay %s: %w", path, err)
			}
		}
	}
	return r.result, nil
}

// A replayer replays a log once for each set of rules that it was made with. A pass applies all
// events up to the last opening with its rules, as the process did that resumed the study with
// them, and recomputes those of its own openings.
type replayer struct {
	fsys     vfs.FS
	path     string
	cfg      Config
	maker    *ruletext.Maker
	openings []opening
	result   Replayed
}

// An opening is the part of a log from one process's first event to the next one's.
type opening struct {
	// seq is the number of its first event.
	seq     uint64
	samples int
	// deadline is in each opening's rules, as the number of samples.
	deadline time.Time
	// rules are those of the log; nil: they are the config's.
	rules *Rules
	// first is the first opening of the study with the same rules.
	first int
}

// readOpenings finds out which rules the log was made with.
func (r *replayer) readOpenings() error {
	own, known := r.cfg.rules().key(), false
	end, err := readLog(r.fsys, r.path, func(e *Event) error {
		if e.Kind != EventStudy && e.Kind != EventOpen {
			return nil
		}
		o := opening{seq: e.Seq, samples: r.cfg.Samples, rules: e.Rules}
		if e.Rules != nil {
			o.samples, o.deadline = e.Rules.Samples, e.Rules.Deadline
			if e.Rules.key() == own {
				o.rules = nil
			}
		}
		known = known || o.rules == nil
		r.openings = append(r.openings, o)
		return nil
	})
	firsts := map[string]int{}
	for i := range r.openings {
		o, key := &r.openings[i], ""
		if !known {
			o.rules = nil
		}
		if o.rules != nil {
			key = o.rules.key()
		}
		if _, ok := firsts[key]; !ok {
			firsts[key] = i
		}
		o.first = firsts[key]
	}
	r.result.Torn = end.Torn
	if err == nil && len(r.openings) == 0 {
		err = errors.New("it has no event")
	}
	return err
}

// errPassed ends a pass after the last opening with its rules.
var errPassed = errors.New("no more events of these rules")

// pass recomputes the openings that have the rules of opening i.
func (r *replayer) pass(i int) error {
	cfg := r.cfg
	if rules := r.openings[i].rules; rules != nil {
		if err := rules.applyTo(&cfg, r.maker); err != nil {
			return fmt.Errorf("from event %d on, the log was made with rules other than those given: %w; give Replay a value of that type", r.openings[i].seq, err)
		}
	}
	l, err := newLedger(&cfg)
	if err != nil {
		return err
	}
	last := i
	for n, o := range r.openings {
		if o.first == i {
			last = n
		}
	}
	// now is the opening of the newest event; -1: there is none yet.
	now := -1
	_, err = readLog(r.fsys, r.path, func(e *Event) (err error) {
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
		if now+1 < len(r.openings) && e.Seq == r.openings[now+1].seq {
			now++
			if now > last {
				return errPassed
			}
			cfg.Samples, cfg.Deadline = r.openings[now].samples, r.openings[now].deadline
			if l.view.plan, err = newPlan(&cfg); err != nil {
				return err
			}
		}
		own := now < 0 || r.openings[now].first == i
		if own {
			r.result.Events++
			r.result.Proposals += b2i(e.Kind == EventStart && e.New)
			r.result.Decisions += b2i(e.Kind == EventReport)
		}
		return l.applyEvent(e, own)
	})
	if err != nil && !errors.Is(err, errPassed) {
		return err
	}
	if last == len(r.openings)-1 {
		r.result.DecisionHash = l.hash.sum()
	}
	return nil
}
