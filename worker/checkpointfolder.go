package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"math"
	"slices"

	"github.com/paragon-train/paragon/checkpoint"
	"github.com/paragon-train/paragon/internal/observe/exitreport"
	"github.com/paragon-train/paragon/kvstore"
)

// A checkpointFolder is the place of a run's checkpoints: a folder of a host or of a bucket. Only
// rank 0 removes what others wrote.
type checkpointFolder struct {
	dir    string
	job    kvstore.Run
	logger *slog.Logger
	// place is that of dir, or nil where there is none.
	place checkpoint.Place
	// local says that dir is a folder of this host, which others may not see.
	local bool
}

// open opens the place.
func (c *checkpointFolder) open(ctx context.Context) (err error) {
	if c.dir == "" {
		return nil
	}
	if c.place, err = checkpoint.OpenPlace(ctx, c.dir); err != nil {
		if err = fmt.Errorf("worker: checkpoints: %w", err); errors.Is(err, checkpoint.ErrScheme) {
			err = exitreport.Final(exitreport.Usage, err)
		}
		return err
	}
	_, err = checkpoint.LocalPath(c.dir)
	c.local = err == nil
	return nil
}

// close gives the place back. Whatever matters has been written, or its error was returned.
func (c *checkpointFolder) close() {
	if c.place != nil {
		_ = c.place.Close()
		c.place = nil
	}
}

// uri names the checkpoint after so many steps.
func (c *checkpointFolder) uri(steps uint64) string {
	return checkpoint.Join(c.dir, checkpoint.StepFolder(steps))
}

// verify reads all files of a checkpoint that this worker sees.
func (c *checkpointFolder) verify(ctx context.Context, x *checkpoint.Saved) (manifest, error) {
	m, err := readManifest(ctx, c.place, x)
	if err != nil {
		return m, err
	}
	return m, x.Verify(ctx, c.place, m.Manifest)
}

// clear removes what an earlier job, which ended in the middle, has left of checkpoints, so that
// none is made of parts of two.
func (c *checkpointFolder) clear(ctx context.Context) error {
	if err := prune(ctx, c.place, math.MaxInt, math.MaxUint64, 0); err != nil {
		return fmt.Errorf("worker: remove checkpoints that were not completed: %w", err)
	}
	return nil
}

// pruneOwn removes the older files of a worker that has had these ranks and has the folder for
// itself, up to the checkpoint after so many steps. Where the folder is shared rank 0, which may be
// ahead, has left nothing to do.
func (c *checkpointFolder) pruneOwn(ctx context.Context, ranks []int, keep int, upTo, best uint64) error {
	folders, err := checkpoint.ListSaved(ctx, c.place)
	if err != nil {
		return err
	}
	folders = slices.DeleteFunc(folders, func(x checkpoint.Saved) bool { return x.Steps > upTo })
	for _, x := range folders[:max(0, len(folders)-keep)] {
		if x.Steps == best {
			continue
		}
		for _, rank := range ranks {
			if err := c.place.Remove(ctx, x.Name(checkpoint.WorkerFile(rank))); err != nil {
				return fmt.Errorf("worker: remove old checkpoint: %w", err)
			}
		}
	}
	return nil
}

// prune removes all but the newest checkpoints and the best one, and what crashes have left, up to
// a step.
func prune(ctx context.Context, place checkpoint.Place, keep int, upTo, best uint64) error {
	folders, err := checkpoint.ListSaved(ctx, place)
	if err != nil {
		return err
	}
	complete := 0
	for _, x := range slices.Backward(folders) {
		if x.Steps > upTo {
			continue
		}
		if x.Complete() {
			if complete++; complete <= keep || x.Steps == best {
				continue
			}
		}
		if err := removeSaved(ctx, place, &x); err != nil {
			return err
		}
	}
	return nil
}

// removeSaved removes a checkpoint. The manifest goes first: a folder half removed is no
// checkpoint.
func removeSaved(ctx context.Context, place checkpoint.Place, x *checkpoint.Saved) error {
	if x.Complete() {
		if err := place.Remove(ctx, x.Name(checkpoint.ManifestFile)); err != nil {
			return err
		}
	}
	for _, name := range x.Files {
		if err := place.Remove(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

// runFile is the content of checkpoint.RunFile: which run the checkpoints of a place belong to. A
// run that begins in a place, or resumes from it as it was asked to, takes it over. A job that
// launch has started again goes on from a place of its own run alone.
type runFile struct {
	// Version is 1.
	Version int `json:"version"`
	// Run is that of kvstore.Run.ID.
	Run string `json:"run"`
}

// maxRunFile bounds what is read of it.
const maxRunFile = 4 << 10

// owns reports whether the place belongs to this run. A file that says nothing is of no run.
func (c *checkpointFolder) owns(ctx context.Context) (bool, error) {
	f, err := c.place.Open(ctx, checkpoint.RunFile)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("worker: read %s: %w", checkpoint.Join(c.dir, checkpoint.RunFile), err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.NewSectionReader(f, 0, maxRunFile))
	if err != nil {
		return false, fmt.Errorf("worker: read %s: %w", checkpoint.Join(c.dir, checkpoint.RunFile), err)
	}
	var found runFile
	return json.Unmarshal(text, &found) == nil && found.Version == 1 && found.Run != "" && found.Run == c.job.ID, nil
}

// takeOver makes the place that of this run. Rank 0 calls it before the first step. A run without
// an ID, which nobody starts again, leaves no file. Where the file cannot be written the run goes
// on, and launch does not resume it.
func (c *checkpointFolder) takeOver(ctx context.Context) {
	if c.place == nil {
		return
	}
	own, err := c.owns(ctx)
	switch {
	case err == nil && own:
		return
	case c.job.ID == "":
		err = c.place.Remove(ctx, checkpoint.RunFile)
	default:
		err = c.place.Write(ctx, checkpoint.RunFile, func(w io.Writer) error {
			return json.NewEncoder(w).Encode(runFile{1, c.job.ID})
		})
	}
	if err != nil {
		c.logger.Warn("the run's own file could not be written: launch --restarts will not resume from its checkpoints", "file", checkpoint.Join(c.dir, checkpoint.RunFile), "error", err)
	}
}
