package kvstore

import "context"

// Stopper are the calls about a job that may be asked to stop with a checkpoint, so that it goes on
// later where it was: launch got SIGUSR1, as Slurm sends it before the time limit, or `launch ctl
// stop` was called. worker.Fit does what is below; a training loop of its own does it by itself:
//
//   - When StopRequested is closed, all workers stop after a step that they agree on, and write a
//     checkpoint that they can resume from.
//   - When it is complete, each calls ReportStopped, closes the store and ends with code 0.
//
// Then launch ends with code 85. If no worker reports a complete checkpoint in time (launch
// --checkpoint-timeout) the job is stopped as by SIGTERM, and fails.
type Stopper interface {
	// StopRequested is closed when the job is to stop. Workers hear of it at different times.
	// It is nil in a store within the process, which nobody else stops.
	StopRequested() <-chan struct{}
	// ReportStopped says after how many steps the checkpoint is that is complete now; 0: there
	// is none, and reason says why, for people. While the scheduler is unreachable it is
	// repeated.
	ReportStopped(ctx context.Context, steps uint64, reason string) error
}
