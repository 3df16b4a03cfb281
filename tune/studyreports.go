package tune

import (
	"context"
	"fmt"

	"github.com/paragon-train/paragon/tune/internal/checkpoints"
)

// studyReports are the reports of an attempt in the process of its study.
type studyReports struct {
	study *Study
	// ctx ends when the attempt must end.
	ctx            context.Context
	trial, attempt int
	pulse          *pulse
}

// report implements reports. That ctx has ended asks the attempt to return, as a pause does: it
// goes on when the search is resumed.
func (s *studyReports) report(step int, metrics map[string]float64) error {
	d, err := s.decide(step, metrics)
	if err != nil {
		return err
	}
	if err := answer(s.trial, step, d); err != nil {
		return err
	}
	if s.ctx.Err() != nil {
		return fmt.Errorf("tune: trial %d step %d: %w: %w", s.trial, step, context.Cause(s.ctx), ErrPause)
	}
	return nil
}

// decide implements reports.
func (s *studyReports) decide(step int, metrics map[string]float64) (Decision, error) {
	d, err := s.study.tell(s.trial, s.attempt, step, metrics)
	s.study.checkpoints.sweep()
	s.pulse.reported(step, err == nil && d.Action != Continue)
	return d, err
}

// folder implements reports.
func (s *studyReports) folder() (string, error) { return s.study.checkpoints.trialFolder(s.trial) }

// checkpoint implements reports.
func (s *studyReports) checkpoint(step int, write func(dir string) error) error {
	return s.study.checkpoints.save(s.trial, s.attempt, step, write)
}

// restored implements reports.
func (s *studyReports) restored(name checkpoints.Name) string { return s.study.checkpoints.path(name) }

// Reporter returns the Reporter for the attempt of a trial that Ask returned.
func (s *Study) Reporter(t Trial) *Reporter {
	return s.reporter(context.Background(), t, newPulse())
}

// reporter is Reporter for an attempt that must end when ctx does, and whose reports p notices.
func (s *Study) reporter(ctx context.Context, t Trial, p *pulse) *Reporter {
	s.rec.mu.Lock()
	restore := s.l.view.trials[t.Number].run.restore
	s.rec.mu.Unlock()
	return &Reporter{trial: t.Number, attempt: t.Attempts, seed: t.Seed, restore: restore, to: &studyReports{study: s, ctx: ctx, trial: t.Number, attempt: t.Attempts, pulse: p}}
}
