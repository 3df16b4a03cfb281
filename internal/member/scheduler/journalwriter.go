package scheduler

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/paragon-train/paragon/internal/observe/joblog"
)

const (
	// writeTimeout bounds one attempt to write the journal; writeAgain is the time between two.
	writeTimeout = 10 * time.Second
	writeAgain   = time.Second
	// maxSayAfter bounds how much more rarely it says that it cannot be written.
	maxSayAfter = 5 * time.Minute
)

// A journalWriter writes records to a State, and goes on trying while that fails.
type journalWriter struct {
	log   *slog.Logger
	state State
	// giveUp is how long it tries: as long as the nodes wait for a scheduler.
	giveUp time.Duration
	// meanwhile serves who can be served without the journal, until one of the channels is
	// ready.
	meanwhile func(fault journalFault, until <-chan time.Time, end <-chan struct{})
}

// write writes records. It gives up when no node waits any more, when another scheduler has taken
// the state, or when the context has ended: an attempt is then made all the same.
func (j *journalWriter) write(ctx context.Context, records []Record) error {
	fault := journalFault{since: time.Now()}
	said, pause := time.Time{}, sayAfter
	for attempts := 1; ; attempts++ {
		err := j.attempt(ctx, records, fault)
		if err == nil {
			if attempts > 1 {
				j.log.Warn("journal writes succeed again; held replies are sent", "attempts", attempts-1, "after", time.Since(fault.since).Round(time.Millisecond), joblog.JournalWritten.With())
			}
			return nil
		}
		fault.err = err
		// It says so at once, then ever more rarely.
		if since := time.Since(said); said.IsZero() || since >= pause {
			if !said.IsZero() {
				pause = min(2*pause, maxSayAfter)
			}
			said = time.Now()
			j.log.Error("journal write failed; replies are held until it succeeds", "err", err, "attempts", attempts, "for", time.Since(fault.since).Round(time.Millisecond), joblog.JournalFailed.With())
		}
		if errors.Is(err, ErrTaken) || time.Since(fault.since) > j.giveUp || ctx.Err() != nil {
			return err
		}
		again := time.NewTimer(writeAgain)
		j.meanwhile(fault, again.C, ctx.Done())
		again.Stop()
	}
}

// attempt makes one attempt. Who looks at the job need not wait for one that takes long, or that
// follows a failed one.
func (j *journalWriter) attempt(ctx context.Context, records []Record, fault journalFault) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTimeout)
	defer cancel()
	var err error
	written := make(chan time.Time)
	go func() {
		defer close(written)
		err = j.state.Write(ctx, records)
	}()
	if fault.err == nil {
		long := time.NewTimer(writeAgain)
		defer long.Stop()
		select {
		case <-written:
			return err
		case <-long.C:
		}
	}
	j.meanwhile(fault, written, nil)
	return err
}
