package tune

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"
)

// defaultGrace is Config.Grace where it is zero.
const defaultGrace = 30 * time.Second

// An attemptRunner runs the attempts of a study's trials, and tells the study their ends.
type attemptRunner struct {
	study *Study
	// division divides nodes among the trials; nil: no Allocator does.
	division *division
}

// run runs one attempt to its end, or until it is abandoned.
func (d *attemptRunner) run(ctx context.Context, slot int, place Place, t Trial) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	s, p := d.study, newPulse()
	defer d.division.attend(t.Number, t.Attempts, p)()
	r := s.reporter(ctx, t, p)
	done := make(chan error, 1)
	go func() {
		err := Fail(UserCode, errExited)
		defer func() { done <- err }()
		err = safely(ctx, s.cfg.Runner, d.describe(slot, place, t, p), r)
	}()
	w := &wait{pulse: p, cancel: cancel, grace: cmp.Or(s.cfg.Grace, defaultGrace), notice: noticeAfter, reportTimeout: s.cfg.ReportTimeout,
		paused: func() bool { return d.division.waits(t.Number, t.Attempts) }, log: s.logger.With("study", s.cfg.Name, "trial", t.Number, "attempt", t.Attempts)}
	err, gone := w.run(ctx, done)
	outcome, err := ending(context.Cause(ctx), err, gone)
	if gone {
		s.logger.Warn("tune: a trial did not return when asked to; the search continues without it", "study", s.cfg.Name, "trial", t.Number, "attempt", t.Attempts, "location", t.Location)
	}
	// The study keeps an error.
	_ = s.finish(t.Number, t.Attempts, outcome, err)
	s.checkpoints.sweep()
}

// describe is the attempt as its Runner gets it.
func (d *attemptRunner) describe(slot int, place Place, t Trial, p *pulse) Attempt {
	cfg := &d.study.cfg
	a := Attempt{Study: cfg.Name, Trial: t.Number, Number: t.Attempts, Params: t.Params, Seed: t.Seed, Slot: slot, Resources: cfg.Resources, Place: place,
		program: cfg.programName(), metric: cfg.Metric, grace: cmp.Or(cfg.Grace, defaultGrace), pulse: p}
	if d.division != nil {
		a.elastic = true
		a.least, _ = d.division.allocator.Replicas()
	}
	return a
}

// ending is how an attempt ended that returned err, or is gone: it did not return when asked to.
// cause is why it was asked to return; nil: it was not. One that did not report in time has failed;
// any other cause is the search's, and interrupts the attempt.
func ending(cause, err error, gone bool) (Outcome, error) {
	const abandoned = "it did not return when asked to: it is abandoned and may still be running"
	switch {
	case errors.Is(cause, errSilent):
		if gone {
			return Returned, Fail(Silent, fmt.Errorf("%w, and %s", cause, abandoned))
		}
		return Returned, Fail(Silent, cause)
	case gone && cause == nil:
		return Returned, Fail(Silent, errors.New(abandoned))
	case gone:
		return Interrupted, Fail(Silent, errors.New(abandoned))
	case cause != nil:
		return Interrupted, err
	}
	return Returned, err
}

// safely runs an attempt; a Runner that panics is a failure of the trial.
func safely(ctx context.Context, runner Runner, a Attempt, r *Reporter) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = panicked(v, debug.Stack())
		}
	}()
	return runner.Run(ctx, a, r)
}
