package main

import (
	"context"
	"slices"
	"syscall"
	"time"
)

// A fault is what is done to a job, and what the job must do.
type fault struct {
	name, how string

	// fixed makes the job one whose workers may not change; backups is how many copies its servers
	// keep.
	fixed   bool
	backups int

	// prepare runs before the job starts.
	prepare func(j *job) error

	// inject carries the fault out, in the middle of the job; nil: nothing happens.
	inject injector

	// ends says that the job cannot go on.
	ends bool

	// same says that it must end with the values of a run without faults.
	same bool

	// within is the longest time without progress there may be; 0: not said.
	within time.Duration
}

// An injector carries a fault out. A fault that lasts is over when it returns, unless it stays to
// the job's end.
type injector func(ctx context.Context, j *job) error

// all are the faults of the table, in its order.
func all() []fault {
	return slices.Concat(workerFaults(), serverFaults(), schedulerFaults(), machineFaults(), networkFaults(), otherFaults())
}

// kill ends processes without a warning.
func kill(names ...string) injector {
	return func(_ context.Context, j *job) error {
		for _, name := range names {
			j.kill(name)
		}
		return nil
	}
}

// terminate asks processes to end.
func terminate(names ...string) injector {
	return func(_ context.Context, j *job) error {
		for _, name := range names {
			j.signal(name, syscall.SIGTERM)
		}
		return nil
	}
}

// suspend lets a process stand still for a time.
func suspend(name string, d time.Duration) injector {
	return func(ctx context.Context, j *job) error {
		j.signal(name, syscall.SIGSTOP)
		defer j.signal(name, syscall.SIGCONT)
		return pause(ctx, d)
	}
}

// startJoiner starts a worker that joins the running job.
func startJoiner(ctx context.Context, j *job) error {
	_, err := j.start(ctx, "worker4", "PARAGON_JOIN=1", "PARAGON_RANK=-1")
	return err
}
