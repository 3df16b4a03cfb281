package tune

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/paragon-train/paragon/tune/internal/remote"
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
	err = newDriver(s, allocator, scaler).drive(ctx)
	result := s.Result()
	if closeErr := s.Close(); err == nil {
		err = closeErr
	}
	if err == nil && len(result.Front()) == 0 {
		err = result.nothing()
	}
	return result, err
}
