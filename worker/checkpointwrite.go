package worker

import (
	"context"
	"fmt"
	"log/slog"
	"path"
	"sync/atomic"
	"time"

	"github.com/paragon-train/paragon/checkpoint"
	"github.com/paragon-train/paragon/internal/observe/joblog"
	"github.com/paragon-train/paragon/kvstore"
)

// A checkpointWrite is this worker's part of a checkpoint that a goroutine writes beside the
// training.
//
// Its goroutine writes the files and then waits for all. Fit's goroutine closes all when every
// worker has told that its files are there, and forgets the write when done is closed or when one
// has failed.
type checkpointWrite struct {
	place    checkpoint.Place
	logger   *slog.Logger
	reporter checkpointReporter
	steps    uint64

	// name, metadata and tensors are those of the worker's own file.
	name     string
	metadata map[string]string
	tensors  []checkpoint.Tensor

	// leads says that this is rank 0, which also writes the store's file and the manifest: what
	// the next four are for.
	leads    bool
	snapshot *kvstore.Snapshot
	manifest manifest
	keep     int
	// best is the steps of the checkpoint that early stopping keeps; 0: none.
	best uint64

	cancel context.CancelFunc
	// written is closed when this worker's files have been written, or could not be, all when
	// those of all workers are there, and done when the goroutine ends.
	written, all, done chan struct{}
	// committed says that all is closed.
	committed bool

	// there says that this worker's files are written, and complete that it has written the
	// manifest. failure is why it could not.
	there, complete atomic.Bool
	failure         atomic.Pointer[error]

	// notRemoved is why older checkpoints could not be removed when this one was complete. It
	// is read after done.
	notRemoved error
}

// A checkpointReporter is told how a checkpoint went. A kvstore.Store is one.
type checkpointReporter interface {
	ReportCheckpoint(took time.Duration)
	ReportCheckpointFailure()
}

// discardTime bounds how long training waits for the removal of a checkpoint's parts.
const discardTime = 10 * time.Second

func (f *checkpointWrite) run(ctx context.Context) {
	defer close(f.done)
	begin := time.Now()
	err := f.writeParts(ctx)
	if err != nil {
		f.failed(ctx, err)
	}
	f.there.Store(err == nil)
	close(f.written)
	if err != nil || !f.leads {
		return
	}
	select {
	case <-f.all:
	case <-ctx.Done():
		return
	}
	if err := f.writeManifest(ctx); err != nil {
		f.failed(ctx, err)
		return
	}
	f.reporter.ReportCheckpoint(time.Since(begin))
	f.logger.Info("checkpoint written", "folder", checkpoint.StepFolder(f.steps), "epoch", f.manifest.Epoch, "step", f.manifest.Step, "took", time.Since(begin).Round(time.Millisecond),
		joblog.CheckpointComplete.With("steps", f.steps))
	if err := prune(ctx, f.place, f.keep, f.steps, f.best); err != nil {
		f.notRemoved = fmt.Errorf("worker: checkpoint at step %d: remove old checkpoint: %w", f.steps, err)
	}
	f.complete.Store(true)
}

// writeManifest completes the checkpoint: with the checksums of all files as they lie there now.
func (f *checkpointWrite) writeManifest(ctx context.Context) error {
	files, err := (&checkpoint.Saved{Steps: f.steps}).FileSums(ctx, f.place, f.manifest.Workers)
	if err != nil {
		return err
	}
	f.manifest.Manifest = checkpoint.Sealed(files)
	return checkpoint.WriteManifest(ctx, f.place, f.steps, f.manifest)
}

func (f *checkpointWrite) writeParts(ctx context.Context) error {
	if err := checkpoint.SaveTo(ctx, f.place, f.name, f.metadata, f.tensors); err != nil {
		return err
	}
	if !f.leads {
		return nil
	}
	return f.snapshot.WriteTo(ctx, f.place, path.Join(checkpoint.StepFolder(f.steps), checkpoint.StoreFile))
}

// failed logs at once what all workers hear of after the next step.
func (f *checkpointWrite) failed(ctx context.Context, err error) {
	told := fmt.Errorf("worker: checkpoint at step %d: %w", f.steps, err)
	f.failure.Store(&told)
	if ctx.Err() == nil {
		f.reporter.ReportCheckpointFailure()
		f.logger.Warn("a checkpoint could not be written", "steps", f.steps, "error", err, joblog.CheckpointFailed.With())
	}
}

func (f *checkpointWrite) err() error {
	if err := f.failure.Load(); err != nil {
		return *err
	}
	return nil
}

// allThere lets rank 0 write the manifest: the files of all workers are written.
func (f *checkpointWrite) allThere() {
	if !f.committed {
		f.committed = true
		close(f.all)
	}
}

// wait returns when one of the write's channels is closed. Whether the write failed is err's
// matter.
func (f *checkpointWrite) wait(ctx context.Context, event <-chan struct{}) error {
	select {
	case <-event:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("worker: checkpoint at step %d: still being written: %w", f.steps, context.Cause(ctx))
	}
}

// discard ends the write, and removes what this worker has written of it: a full disk has better
// use for the room. What cannot be removed the next checkpoint that is complete removes. It waits
// for the snapshot, since no call to the store may go on at a change of the membership.
func (f *checkpointWrite) discard() {
	f.end()
	if f.leads {
		_ = f.snapshot.Wait()
	}
	ctx, cancel := context.WithTimeout(context.Background(), discardTime)
	defer cancel()
	if f.leads {
		folder := checkpoint.StepFolder(f.steps)
		// A write that failed may have come into place all the same. While the manifest is
		// there the parts are needed.
		if f.place.Remove(ctx, path.Join(folder, checkpoint.ManifestFile)) != nil {
			return
		}
		_ = f.place.Remove(ctx, path.Join(folder, checkpoint.StoreFile))
	}
	_ = f.place.Remove(ctx, f.name)
}

// end cancels the write, and returns when its goroutine has ended.
func (f *checkpointWrite) end() {
	f.cancel()
	<-f.done
}
