package job

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"syscall"
	"time"

	"github.com/paragon-train/paragon/internal/hosts/hosts"
	"github.com/paragon-train/paragon/internal/observe/joblog"
)

// resumeEnv tells the workers of a job that is started again to go on from their newest checkpoint.
const resumeEnv = "PARAGON_RESUME=1"

// Repeat is Run, and starts a job that failed again, as a new job with PARAGON_RESUME=1 in its
// environment, up to so many times. A job that was interrupted, or never ran, is not started again,
// unless it had run before; nor is one whose worker says that no restart can mend its error. Where
// hosts come and go the new job has the hosts that were wanted last.
func Repeat(ctx context.Context, cfg Config, restarts int) (Result, error) {
	if err := cfg.setDefaults(); err != nil {
		return Result{Code: 2}, err
	}
	for attempt := 0; ; attempt++ {
		cfg.restarts = attempt
		res, err := Run(ctx, cfg)
		res.restarts = attempt
		switch {
		case res.Code == 0 && err == nil, res.signal != nil, res.stops, res.final, ctx.Err() != nil, attempt >= restarts:
			return res, err
		case attempt == 0 && errors.Is(err, ErrStart):
			return res, err
		}
		if err != nil {
			cfg.Logger.Error(err.Error())
		}
		if attempt == 0 {
			cfg.Env = append(cfg.Env[:len(cfg.Env):len(cfg.Env)], resumeEnv)
		}
		wait := backOff(attempt + 1)
		cfg.Logger.Warn(fmt.Sprintf("starting the job again in %s, from its newest checkpoint (restart %d of %d)", wait, attempt+1, restarts),
			joblog.Restart.With("attempt", attempt+1, "most", restarts, "wait", wait))
		cfg.Observer.Again()
		t := time.NewTimer(wait)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return res, err
		case s := <-cfg.Interrupts:
			t.Stop()
			// No process runs that could write a checkpoint.
			if s == syscall.SIGUSR1 {
				cfg.Logger.Warn("SIGUSR1: the job is not started again", joblog.JobStopping.With())
				return res, err
			}
			// The signal decides the code.
			res.Code, res.signal, res.culprit = SignalCode(s), s, nil
			return res, nil
		}
		if f := cfg.Elastic.Files; f != nil {
			cfg.Workers, cfg.Servers = placeAgain(f.Hosts(), cfg.Servers, cfg.Elastic)
		}
	}
}

// placeAgain places a job that is started again: a worker on each slot of the wanted hosts, and the
// servers where they were. Where hosts come by themselves those that are not there are left out
// (they join when they come), and their servers move to others in turn. If too few workers or no
// servers were left all are waited for.
func placeAgain(all, servers []hosts.Host, e Elastic) (workers, placed []hosts.Host) {
	workers = wanted(all, e)
	if e.There == nil {
		return workers, servers
	}
	mayWork, mayServe := e.There()
	there := slices.DeleteFunc(slices.Clone(all), func(h hosts.Host) bool { return !slices.ContainsFunc(mayWork, h.Same) })
	if present := wanted(there, e); len(present) >= max(e.MinWorkers, 1) {
		workers = present
	}
	moved := 0
	for _, h := range servers {
		if len(mayServe) > 0 && !slices.ContainsFunc(mayServe, h.Same) {
			h = mayServe[moved%len(mayServe)]
			moved++
		}
		placed = append(placed, h)
	}
	return workers, placed
}

// wanted places a worker on each slot of the hosts.
func wanted(all []hosts.Host, e Elastic) (workers []hosts.Host) {
	for _, h := range all {
		for range max(h.Slots, 1) {
			if e.MaxWorkers == 0 || len(workers) < e.MaxWorkers {
				workers = append(workers, h)
			}
		}
	}
	return workers
}
