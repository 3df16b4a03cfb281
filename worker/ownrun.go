package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/paragon-train/paragon/checkpoint"
)

// runFile is the content of checkpoint.RunFile: which run the checkpoints of a place belong to. A
// run that begins in a place, or resumes from it as it was asked to, takes it over. A job that
// launch has started again goes on from a place of its own run alone.
type runFile struct {
	Version int    `json:"version"` // 1
	Run     string `json:"run"`     // kvstore.Run.ID
}

// maxRunFile bounds what is read of it.
const maxRunFile = 4 << 10

// owns reports whether the place belongs to this run. A file that says nothing is of no run.
func (s *saver) owns(ctx context.Context) (bool, error) {
	f, err := s.place.Open(ctx, checkpoint.RunFile)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("worker: read %s: %w", checkpoint.Join(s.cfg.Dir, checkpoint.RunFile), err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.NewSectionReader(f, 0, maxRunFile))
	if err != nil {
		return false, fmt.Errorf("worker: read %s: %w", checkpoint.Join(s.cfg.Dir, checkpoint.RunFile), err)
	}
	var found runFile
	return json.Unmarshal(text, &found) == nil && found.Version == 1 && found.Run != "" && found.Run == s.job.ID, nil
}

// takeOver makes the place that of this run. Rank 0 calls it before the first step. A run without
// an ID, which nobody starts again, leaves no file. Where the file cannot be written the run goes
// on, and launch does not resume it.
func (s *saver) takeOver(ctx context.Context) {
	if s.place == nil || s.trainer.cfg.Store.Rank() != 0 {
		return
	}
	own, err := s.owns(ctx)
	switch {
	case err == nil && own:
		return
	case s.job.ID == "":
		err = s.place.Remove(ctx, checkpoint.RunFile)
	default:
		err = s.place.Write(ctx, checkpoint.RunFile, func(w io.Writer) error {
			return json.NewEncoder(w).Encode(runFile{1, s.job.ID})
		})
	}
	if err != nil {
		s.trainer.cfg.Logger.Warn("the run's own file could not be written: launch --restarts will not resume from its checkpoints", "file", checkpoint.Join(s.cfg.Dir, checkpoint.RunFile), "error", err)
	}
}
