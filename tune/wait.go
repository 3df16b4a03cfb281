package tune

import (
	"context"
	"fmt"
	"log/slog"
	"time"
)

// A wait is for the end of an attempt. It cancels an attempt that does not report in time, or does
// not return when asked to.
type wait struct {
	pulse  *pulse
	cancel context.CancelCauseFunc
	log    *slog.Logger
	// reportTimeout is Config.ReportTimeout. Its time does not run while paused.
	reportTimeout time.Duration
	paused        func() bool
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
		return now.heard.Add(w.reportTimeout)
	}
	return now.heard.Add(w.notice)
}

// mustReport says whether the time runs within which the attempt has to report.
func (w *wait) mustReport() bool {
	return w.reportTimeout > 0 && !w.paused()
}

// late cancels an attempt that is late, or says that nothing is heard of it.
func (w *wait) late(now heardOf) {
	switch {
	case !now.told.IsZero():
		w.log.Warn("tune: waiting for a trial that was asked to return", "for", time.Since(now.told).Round(time.Millisecond))
		w.cancel(context.Canceled)
	case w.mustReport():
		cause := fmt.Errorf("%w for %v, after %s", errSilent, w.reportTimeout, stepName(now.step))
		w.log.Warn("tune: a trial did not report in time and is stopped", "cause", cause)
		w.cancel(cause)
	default:
		w.log.Info("tune: waiting for a report", "for", time.Since(now.heard).Round(time.Second), "after", stepName(now.step))
		w.notice *= 2
	}
}

// noticeAfter is the time without a report after which a message is logged, if Config.ReportTimeout
// is not set.
const noticeAfter = 10 * time.Minute

// stepName is the newest step of an attempt for a message; -1: it has not reported.
func stepName(step int) string {
	if step < 0 {
		return "its start"
	}
	return fmt.Sprintf("step %d", step)
}
