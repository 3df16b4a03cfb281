package tune

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"
)

// attempt runs one attempt to its end, or until it is abandoned.
func (d *driver) attempt(ctx context.Context, slot int, place Place, t Trial) {
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
	w := &wait{driver: d, trial: t.Number, attempt: t.Attempts, pulse: p, cancel: cancel, grace: cmp.Or(s.cfg.Grace, defaultGrace), notice: noticeAfter}
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
func (d *driver) describe(slot int, place Place, t Trial, p *pulse) Attempt {
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

// A wait is for the end of an attempt. It cancels an attempt that does not report in time, or does
// not return when asked to.
type wait struct {
	driver         *driver
	trial, attempt int
	pulse          *pulse
	cancel         context.CancelCauseFunc
	// grace is how long an attempt may take to return.
	grace time.Duration
	// notice is after which time without a report a message is logged next.
	notice time.Duration
	// last is the sign of life from which notice counts.
	last time.Time
}

// run waits. gone reports that the attempt did not return, and is abandoned.
func (w *wait) run(ctx context.Context, done <-chan error) (err error, gone bool) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for ctx.Err() == nil {
		now := w.pulse.now()
		timer.Reset(max(time.Until(w.due(now)), 0))
		select {
		case err := <-done:
			return err, false
		case <-w.pulse.beats:
		case <-ctx.Done():
		case <-timer.C:
			w.late(now)
		}
	}
	// A report no longer extends the attempt's time.
	timer.Reset(w.grace)
	select {
	case err := <-done:
		return err, false
	case <-timer.C:
		return nil, true
	}
}

// due is when the attempt is late, if nothing is heard of it before.
func (w *wait) due(now heardOf) time.Time {
	if now.heard.After(w.last) {
		w.notice = noticeAfter
	}
	w.last = now.heard
	switch {
	case !now.told.IsZero():
		return now.told.Add(w.grace)
	case w.mustReport():
		return now.heard.Add(w.driver.study.cfg.ReportTimeout)
	}
	return now.heard.Add(w.notice)
}

// mustReport says whether the time runs within which the attempt has to report.
func (w *wait) mustReport() bool {
	return w.driver.study.cfg.ReportTimeout > 0 && !w.driver.division.waits(w.trial, w.attempt)
}

// late cancels an attempt that is late, or says that nothing is heard of it.
func (w *wait) late(now heardOf) {
	s := w.driver.study
	log := s.logger.With("study", s.cfg.Name, "trial", w.trial, "attempt", w.attempt)
	switch {
	case !now.told.IsZero():
		log.Warn("tune: waiting for a trial that was asked to return", "for", time.Since(now.told).Round(time.Millisecond))
		w.cancel(context.Canceled)
	case w.mustReport():
		cause := fmt.Errorf("%w for %v, after %s", errSilent, s.cfg.ReportTimeout, stepName(now.step))
		log.Warn("tune: a trial did not report in time and is stopped", "cause", cause)
		w.cancel(cause)
	default:
		log.Info("tune: waiting for a report", "for", time.Since(now.heard).Round(time.Second), "after", stepName(now.step))
		w.notice *= 2
	}
}

// noticeAfter is the time without a report after which a message is logged, if Config.ReportTimeout
// is not set.
const noticeAfter = 10 * time.Minute

func stepName(step int) string {
	if step < 0 {
		return "its start"
	}
	return fmt.Sprintf("step %d", step)
}
