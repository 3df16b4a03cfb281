package nodes

import (
	"fmt"
	"log/slog"
	"time"
)

// A lack is the time for which a search has had no host for a trial. It has no clock of its own.
type lack struct {
	logger  *slog.Logger
	timeout time.Duration
	// since is when the last host was lost; zero: a trial fits.
	since time.Time
}

// note takes note of whether a trial fits now. Its error says that none has for too long. why names
// the reason, for people.
func (l *lack) note(fits bool, now time.Time, why func() string) error {
	switch {
	case fits && !l.since.IsZero():
		l.logger.Info("tune: the search has a host for a trial again", "waited", now.Sub(l.since).Round(time.Second))
		l.since = time.Time{}
	case fits:
	case l.since.IsZero():
		l.since = now
		l.logger.Warn("tune: no host is left for a trial; the search waits for one (launch tune add adds a host)", "for", l.timeout, "why", why())
	case now.Sub(l.since) >= l.timeout:
		return fmt.Errorf("no host for a trial for %v: %s", l.timeout, why())
	}
	return nil
}

// atMost bounds a wait by the end of the timeout.
func (l *lack) atMost(wait time.Duration, now time.Time) time.Duration {
	if l.since.IsZero() {
		return wait
	}
	return min(wait, l.timeout-now.Sub(l.since))
}
