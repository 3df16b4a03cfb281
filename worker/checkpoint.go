package worker

import (
	"errors"
	"fmt"
	"time"

	"github.com/paragon-train/paragon/internal/observe/exitreport"
)

// CheckpointConfig says where and when Fit saves, and whether it resumes.
//
// A checkpoint is a folder step-NNNNNNNN under Dir:
//
//	store.safetensors     parameters and optimizer state, written by rank 0 (kvstore.Snapshot)
//	worker-R.safetensors  what is rank R's own: running statistics of each device, what its compressed pushes have left
//	                      out, the scale of a loss in float16, the moving averages of EMA; with UpdateOnWorker or local steps, its parameters too
//	complete.json         written last, by rank 0, when all workers have told that their parts are there: a folder without it
//	                      is not a checkpoint. It names the files that rank 0 sees, with their sizes and checksums
//
// A checkpoint is of one step of all workers, and is written while training goes on: each worker
// copies what is its own, rank 0 reads the servers' state during the next step, and both write what
// they have beside the training. One is written at a time. If the next one is due before, or Fit
// ends, that waits for it. What could not be written is logged at once; Failures says when it ends
// Fit. In a store without rounds (dist_async) all workers wait until it is written.
//
// Workers on several hosts either share Dir or keep their own part of it each. Rank 0 verifies the
// files that complete.json names, and each worker its own.
//
// A run that resumes reads its epochs in the order in which the checkpoint's did (OrderedFeed),
// whatever the Feed was made with, to its end: one of a version that had no other reads on in
// sampler.Contiguous.
//
// A job of another number of workers may go on from it: what remains of the epoch is divided anew.
// A rank without a file of its own takes rank 0's running statistics (batch norm's, which differ
// little and are averaged at the end of the epoch) and begins with nothing left out of compressed
// pushes; what ranks that are gone had left out is lost.
type CheckpointConfig struct {
	// Dir is the place: a folder's path, or a URL that checkpoint.OpenPlace knows, such as
	// s3://bucket/prefix in a program that imports checkpoint/bucket; empty: no checkpoints.
	Dir string
	// EverySteps saves after so many steps; 0: only at the end of epochs.
	EverySteps int
	// Every saves when so much time has passed on rank 0 since it last began to, after a step
	// that all agree on, and not while the last one is still being written: a slow place holds
	// nobody up. 0: never. Not with dist_async, whose workers have no step in common.
	Every time.Duration
	// EveryEpochs saves at the end of so many epochs; 0: every epoch.
	EveryEpochs int
	// Failures is how many checkpoints in a row may fail to be written (a full disk, a bucket
	// that does not answer) before Fit ends with the error of the last. Until then each is a
	// warning: the checkpoint is dropped, training goes on, and the next try comes after 10 s,
	// then after twice as long each time; at the end of the run and when it stops the last
	// checkpoint is tried again at once. 0: 3; 1: the first ends Fit. In a store without rounds
	// (dist_async) the first does in any case.
	Failures int
	// Keep is how many checkpoints stay; 0: 2.
	Keep int
	// Resume starts from the newest checkpoint in Dir, if there is one: the very same run goes
	// on. All of it is read and compared with its checksums before anything changes. One that
	// is damaged ends Fit with a *DamageError, which names the newest whole one.
	Resume bool
	// ResumeStep resumes from the checkpoint after so many steps; 0: from the newest. Newer
	// ones that are damaged are removed; one that is whole is an error, as the run would write
	// over it.
	ResumeStep uint64
	// Fallback resumes from the newest whole checkpoint where newer ones are damaged: these are
	// removed, with a warning. For jobs that nobody watches: set it where launch --restarts
	// starts the program again (PARAGON_RESUME=1).
	Fallback bool
}

// Validate names the first field that cannot be.
func (c *CheckpointConfig) Validate() error {
	switch {
	case c.EverySteps < 0:
		return fmt.Errorf("worker: CheckpointConfig.EverySteps is %d, want 0 or more", c.EverySteps)
	case c.Every < 0:
		return fmt.Errorf("worker: CheckpointConfig.Every is %v, want 0 or more", c.Every)
	case c.EveryEpochs < 0:
		return fmt.Errorf("worker: CheckpointConfig.EveryEpochs is %d, want 0 or more", c.EveryEpochs)
	case c.Failures < 0:
		return fmt.Errorf("worker: CheckpointConfig.Failures is %d, want 0 or more", c.Failures)
	case c.Keep < 0:
		return fmt.Errorf("worker: CheckpointConfig.Keep is %d, want 0 or more", c.Keep)
	case c.ResumeStep > 0 && !c.Resume:
		return fmt.Errorf("worker: CheckpointConfig.ResumeStep is %d and Resume is false, want true", c.ResumeStep)
	case c.ResumeStep > 0 && c.Fallback:
		return fmt.Errorf("worker: CheckpointConfig.ResumeStep is %d and Fallback is true, want one of them: Fallback takes the newest whole checkpoint", c.ResumeStep)
	case c.Resume && c.Dir == "":
		return errors.New("worker: CheckpointConfig.Resume is true and Dir is empty, want the folder to resume from")
	}
	return nil
}

// validateFor is an error if workers without a step in common are to save by a clock.
func (c *CheckpointConfig) validateFor(store string) error {
	if c.Every > 0 && c.Dir != "" && store == asyncStore {
		return exitreport.Final(exitreport.Usage, fmt.Errorf("worker: CheckpointConfig.Every is %v with store %s, want 0 and EverySteps: its workers have no step in common", c.Every, asyncStore))
	}
	return nil
}

// otherRun and noResume make errors that no restart can mend.
func otherRun(format string, args ...any) error {
	return exitreport.Final(exitreport.OtherRun, fmt.Errorf(format, args...))
}

func noResume(format string, args ...any) error {
	return exitreport.Final(exitreport.NoResume, fmt.Errorf(format, args...))
}
