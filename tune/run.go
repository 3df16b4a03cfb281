package tune

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"sync"
	"time"

	"github.com/paragon-train/paragon/tune/internal/remote"
)

var (
	// errSilent is the cause when an attempt is cancelled because it did not report.
	errSilent = errors.New("no report")
	// errExited is the error of a trainable that ended its goroutine.
	errExited = errors.New("the trainable ended its goroutine instead of returning (runtime.Goexit, or FailNow of a test)")
	// errOver is the cause when an attempt is cancelled because its study is over.
	errOver = errors.New("the study is over")
	// ErrNoResult is returned by Run when no trial has a finite value of the metric.
	ErrNoResult = errors.New("no trial has a result")
)

// Run searches: it runs the trainable with parameters of the space until there are no more trials
// to run, the timeout or the deadline has passed, or ctx ends. The result is nil only if the search
// could not begin; with any other error it has what was found so far.
//
// In a process that a Runner started for a trial (Distributed, or a command of a study), Run
// does not search. It runs the trainable once, as one worker of the trial, and returns a
// *TrialEnded. ExitCode gives the exit code for both cases.
//
// When ctx ends, trials are asked to return, and continue when the study is resumed. The
// error is the cause of ctx.
func Run(ctx context.Context, f Trainable, cfg Config) (*Result, error) {
	if search, found, err := remote.Dial(ctx, os.LookupEnv); found {
		if err == nil {
			err = attend(ctx, search, f, cfg)
		}
		return nil, trialEnded(err)
	}
	if cfg.Runner == nil {
		if f == nil {
			return nil, errors.New("tune: got neither a trainable nor Config.Runner")
		}
		cfg.Runner = InProcess(f)
	}
	p, places := cfg.Runner.(Placer)
	places = places && !divides(&cfg)
	switch {
	case places:
		if err := p.Fits(cfg.Resources); err != nil {
			return nil, fmt.Errorf("tune: a trial can never run: %w", err)
		}
	case cfg.Parallel == AsManyAsFit:
		return nil, fmt.Errorf("tune: Config.Parallel is AsManyAsFit, and nothing says how many trials fit: want a number, or a Runner with places, such as Jobs, without %T", cfg.Scheduler)
	}
	allocator, scaler, err := dividing(&cfg)
	if err != nil {
		return nil, err
	}
	s, err := NewStudy(cfg)
	if err != nil {
		return nil, err
	}
	if allocator != nil {
		s.division = newDivision(allocator, scaler)
	}
	err = s.drive(ctx)
	result := s.Result()
	if closeErr := s.Close(); err == nil {
		err = closeErr
	}
	if err == nil && len(result.Front()) == 0 {
		err = result.nothing()
	}
	return result, err
}

const defaultGrace = 30 * time.Second

// drive runs trials in Config.Parallel slots until there are no more. With AsManyAsFit a slot that
// has begun a trial starts the next slot, which waits for a place.
func (s *Study) drive(ctx context.Context) error {
	trials, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var helpers sync.WaitGroup
	idle := make(chan struct{}) // closed when all slots have ended
	helpers.Go(func() {
		s.watch(ctx, idle)
		cancel(errOver)
	})
	if tickers := s.tickers(); len(tickers) > 0 {
		helpers.Go(func() { s.tick(tickers, idle) })
	}
	if s.division != nil {
		helpers.Go(func() { s.divide(ctx, idle) })
	}
	keeping, stopKeeping := context.WithCancel(trials)
	defer stopKeeping()
	var noHost error
	if k, ok := s.cfg.Runner.(hostKeeper); ok {
		if s.cfg.Dir != "" {
			defer k.serveHosts(s.cfg.Dir)()
		}
		helpers.Go(func() {
			replicas := 0
			if s.division != nil {
				least, _ := s.division.allocator.Replicas()
				replicas = max(least, 1)
			}
			if noHost = k.keepHosts(keeping, s.cfg.Resources, replicas); noHost != nil {
				cancel(noHost) // as an interrupt: the trials go on when the search is resumed
			}
		})
	}
	var slots sync.WaitGroup
	parallel := cmp.Or(s.cfg.Parallel, 1)
	if parallel == AsManyAsFit {
		var next func(slot int)
		next = func(slot int) {
			slots.Go(func() { s.slot(trials, slot, sync.OnceFunc(func() { next(slot + 1) })) })
		}
		next(0)
	}
	for slot := range parallel {
		slots.Go(func() { s.slot(trials, slot, func() {}) })
	}
	slots.Wait()
	close(idle)
	stopKeeping()
	helpers.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fatal != nil {
		return s.fatal
	}
	if noHost != nil {
		return fmt.Errorf("tune: study %s: %w", s.cfg.Name, noHost)
	}
	if ctx.Err() != nil && s.l.halted == "" {
		return fmt.Errorf("tune: study %s: interrupted: %w", s.cfg.Name, context.Cause(ctx))
	}
	return nil
}

// maxNap is how long the watch over a deadline sleeps: the clock of the wall may be set, or the
// machine suspended.
const maxNap = time.Minute

// watch returns when the study is over, and ends it at its timeout and at its deadline.
func (s *Study) watch(ctx context.Context, idle chan struct{}) {
	var timeout <-chan time.Time
	if s.cfg.Timeout > 0 {
		t := time.NewTimer(s.cfg.Timeout - s.elapsed())
		defer t.Stop()
		timeout = t.C
	}
	nap := time.NewTimer(maxNap)
	defer nap.Stop()
	for {
		if nap.Stop(); !s.cfg.Deadline.IsZero() {
			nap.Reset(min(s.cfg.Deadline.Sub(logTime(s.now())), maxNap))
		}
		select {
		case <-timeout:
			s.Stop(fmt.Sprintf("timeout of %v", s.cfg.Timeout))
		case <-nap.C:
			if !s.cfg.pastDeadline(logTime(s.now())) {
				continue
			}
			s.Stop(s.cfg.deadlineText())
		case <-s.over:
		case <-ctx.Done():
		case <-idle:
		}
		return
	}
}

func (s *Study) tickers() []Ticker {
	var all []Ticker
	for _, o := range s.cfg.Observers {
		if t, ok := o.(Ticker); ok {
			all = append(all, t)
		}
	}
	return all
}

func (s *Study) tick(tickers []Ticker, idle chan struct{}) {
	every := time.NewTicker(time.Second)
	defer every.Stop()
	for {
		select {
		case now := <-every.C:
			s.mu.Lock()
			for _, t := range tickers {
				t.Tick(s.l, now)
			}
			s.mu.Unlock()
		case <-idle:
			return
		}
	}
}

// slot runs trials one after another. It calls begun when one begins.
func (s *Study) slot(ctx context.Context, slot int, begun func()) {
	for ctx.Err() == nil {
		var place Place
		location := ""
		if p, ok := s.cfg.Runner.(Placer); ok && s.division == nil {
			var err error
			if place, err = p.Acquire(ctx, s.cfg.Resources); err != nil {
				if ctx.Err() == nil {
					s.mu.Lock()
					s.fail(fmt.Errorf("tune: study %s: allocate resources for a trial: %w", s.cfg.Name, err))
					s.mu.Unlock()
				}
				return
			}
			location = place.Location()
		}
		t, err := s.ask(ctx, location)
		if err == nil {
			begun()
			s.attempt(ctx, slot, place, t)
		}
		if place != nil {
			place.Release()
		}
		if err != nil {
			return
		}
	}
}

// attempt runs one attempt to its end, or until it is abandoned.
func (s *Study) attempt(ctx context.Context, slot int, place Place, t Trial) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	r := s.reporter(ctx, t)
	defer s.division.attend(r)()
	a := Attempt{Study: s.cfg.Name, Trial: t.Number, Number: t.Attempts, Params: t.Params, Seed: t.Seed, Slot: slot, Resources: s.cfg.Resources, Place: place,
		program: s.cfg.programName(), metric: s.cfg.Metric, grace: cmp.Or(s.cfg.Grace, defaultGrace)}
	if d := s.division; d != nil {
		a.elastic = true
		a.least, _ = d.allocator.Replicas()
	}
	done := make(chan error, 1)
	go func() {
		err := Fail(UserCode, errExited)
		defer func() { done <- err }()
		err = safely(ctx, s.cfg.Runner, a, r)
	}()
	err, gone := s.await(ctx, cancel, r, done)
	outcome := Returned
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, errSilent):
		if err = Fail(Silent, cause); gone {
			err = Fail(Silent, fmt.Errorf("%w, and it did not return when asked to: it is abandoned and may still be running", cause))
		}
	case gone:
		err = Fail(Silent, errors.New("it did not return when asked to: it is abandoned and may still be running"))
	case cause != nil:
		outcome = Interrupted
	}
	if gone && ctx.Err() != nil && !errors.Is(context.Cause(ctx), errSilent) {
		outcome = Interrupted
	}
	if gone {
		s.logger.Warn("tune: a trial did not return when asked to; the search continues without it", "study", s.cfg.Name, "trial", t.Number, "attempt", t.Attempts, "location", t.Location)
	}
	_ = s.finish(t.Number, t.Attempts, outcome, err) // the study keeps an error
	s.sweep()
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

// await waits for the attempt. It cancels an attempt that does not report in time, or does not
// return when asked to. gone reports that the attempt did not return after that either, and is
// abandoned.
func (s *Study) await(ctx context.Context, cancel context.CancelCauseFunc, r *Reporter, done chan error) (err error, gone bool) {
	grace := cmp.Or(s.cfg.Grace, defaultGrace)
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	notice := noticeAfter
	ended, cancelled := ctx.Done(), false
	var last time.Time // the report that the timer counts from
	for {
		r.mu.Lock()
		heard, told, step := r.heard, r.told, r.step
		r.mu.Unlock()
		if heard.After(last) {
			notice = noticeAfter
		}
		var due time.Duration
		switch {
		case cancelled:
			due = grace
		case !told.IsZero():
			due = time.Until(told.Add(grace))
		case s.cfg.ReportTimeout > 0 && !s.division.waits(r):
			due = time.Until(heard.Add(s.cfg.ReportTimeout))
		default:
			due = time.Until(heard.Add(notice))
		}
		last = heard
		timer.Reset(max(due, 0))
		select {
		case err := <-done:
			return err, false
		case <-r.notify:
			if cancelled { // a report no longer extends its time
				select {
				case err := <-done:
					return err, false
				case <-timer.C:
					return nil, true
				}
			}
		case <-ended:
			ended, cancelled = nil, true
		case <-timer.C:
			switch {
			case cancelled:
				return nil, true
			case !told.IsZero():
				s.logger.Warn("tune: waiting for a trial that was asked to return", "study", s.cfg.Name, "trial", r.trial, "attempt", r.attempt, "for", time.Since(told).Round(time.Millisecond))
				cancel(context.Canceled)
				ended, cancelled = nil, true
			case s.cfg.ReportTimeout > 0 && !s.division.waits(r):
				cause := fmt.Errorf("%w for %v, after %s", errSilent, s.cfg.ReportTimeout, stepName(step))
				s.logger.Warn("tune: a trial did not report in time and is stopped", "study", s.cfg.Name, "trial", r.trial, "attempt", r.attempt, "cause", cause)
				cancel(cause)
				ended, cancelled = nil, true
			default:
				s.logger.Info("tune: waiting for a report", "study", s.cfg.Name, "trial", r.trial, "attempt", r.attempt, "for", time.Since(heard).Round(time.Second), "after", stepName(step))
				notice *= 2
			}
		}
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
