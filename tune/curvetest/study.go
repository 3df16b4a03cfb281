package curvetest

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/paragon-train/paragon/tune"
)

// A StudyConfig is what a study on a problem is made of.
type StudyConfig struct {
	// Suggester, Scheduler and Pruners are those of tune.Config.
	Suggester tune.Suggester
	Scheduler tune.Scheduler
	Pruners   []tune.Pruner
	// Fidelity, if not nil, has trials train anew for so many steps at each of its levels, High
	// being the problem's last step. It is for problems whose trainings are all of that length.
	Fidelity *tune.Fidelity
	Workers  int
	Seed     uint64
}

// A StudySearch is a Search by a tune.Study, whose clock is the simulated one. Its trials are
// ranked by their newest report. A trial that was paused continues at the step that it had reached.
type StudySearch struct {
	study               *tune.Study
	fidelity            *tune.Fidelity
	now                 time.Duration
	proposals, verdicts []time.Duration
}

// NewStudySearch begins a study on a problem.
func NewStudySearch(p Problem, cfg StudyConfig) (*StudySearch, error) {
	s := &StudySearch{fidelity: cfg.Fidelity}
	c := tune.Config{
		Space: p.Space, Metric: Metric, Mode: tune.Max, Scope: tune.LastReport, Samples: -1, Seed: cfg.Seed, Parallel: max(cfg.Workers, 1),
		Suggester: cfg.Suggester, Scheduler: cfg.Scheduler, Pruners: cfg.Pruners, Fidelity: cfg.Fidelity,
		Now:    func() time.Time { return time.Time{}.Add(s.now) },
		Logger: slog.New(slog.DiscardHandler),
	}
	var err error
	if s.study, err = tune.NewStudy(c); err != nil {
		return nil, fmt.Errorf("curvetest: %s: %w", p.Name, err)
	}
	return s, nil
}

// Metric is the metric that trials report.
const Metric = "accuracy"

// Study is the study, for a look at its trials.
func (s *StudySearch) Study() *tune.Study { return s.study }

// Times are how long it took to begin each trial, and to decide about each report.
func (s *StudySearch) Times() (proposals, verdicts []time.Duration) { return s.proposals, s.verdicts }

// Next implements Search.
func (s *StudySearch) Next(now time.Duration) (int, tune.Params, error) {
	s.now = now
	begin := time.Now()
	t, err := s.study.TryAsk()
	if err == nil && t.Attempts == 1 {
		s.proposals = append(s.proposals, time.Since(begin))
	}
	return t.Number, t.Params, err
}

// Report implements Search.
func (s *StudySearch) Report(now time.Duration, trial, step int, value float64, last bool) (tune.Action, error) {
	s.now = now
	begin := time.Now()
	d, err := s.study.Tell(trial, step, map[string]float64{Metric: value})
	s.verdicts = append(s.verdicts, time.Since(begin))
	if err != nil {
		return "", err
	}
	if s.fidelity != nil {
		return s.level(trial)
	}
	switch {
	case d.Action == tune.Pause:
		err = s.study.Finish(trial, tune.ErrPause)
	case d.Action == tune.Continue && last:
		err = s.study.Finish(trial, nil)
	case d.Action == tune.Exploit:
		err = fmt.Errorf("trial %d takes another trial's parameters, which is not simulated", trial)
	case d.Action != tune.Continue:
		err = s.study.Finish(trial, tune.ErrStop)
	}
	return d.Action, err
}

// level ends a run at one fidelity.
func (s *StudySearch) level(trial int) (action tune.Action, err error) {
	begin := time.Now()
	err = s.study.Finish(trial, nil)
	s.verdicts[len(s.verdicts)-1] += time.Since(begin)
	s.study.View(func(v tune.View) {
		switch v.Trial(trial).State {
		case tune.Pending, tune.Paused:
			// The trial is paused until Next chooses it.
			action = tune.Pause
		case tune.Completed:
			action = tune.Complete
		default:
			action = tune.Stop
		}
	})
	return action, err
}

// Level implements Leveled.
func (s *StudySearch) Level(p tune.Params) int {
	if s.fidelity == nil {
		return 0
	}
	return p.Int(s.fidelity.Parameter)
}

// End implements Search.
func (s *StudySearch) End(now time.Duration, trial int) error {
	s.now = now
	return s.study.Finish(trial, nil)
}

// Close implements Search.
func (s *StudySearch) Close() error { return s.study.Close() }
