package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/paragon-train/paragon/sampler"
)

// CheckpointConfig says where and when Fit saves, and whether it resumes.
//
// A checkpoint is a folder step-NNNNNNNN under Dir:
//
//	store.safetensors     parameters and optimizer state, written by rank 0 (kvstore.Store.Save)
//	worker-R.safetensors  what is rank R's own: running statistics of each device, what its compressed pushes have left
//	                      out; with UpdateOnWorker or local steps, its parameters too
//	complete.json         written last, by rank 0: a folder without it is not a checkpoint
//
// Workers on several hosts either share Dir or keep their own part of it each.
//
// A job of another number of workers may go on from it: what remains of the epoch is divided anew. A rank without a file of its
// own takes rank 0's running statistics (batch norm's, which differ little and are averaged at the end of the epoch) and
// begins with nothing left out of compressed pushes; what ranks that are gone had left out is lost.
type CheckpointConfig struct {
	// Dir is the folder; empty: no checkpoints.
	Dir string
	// EverySteps saves after so many steps; 0: only at the end of epochs.
	EverySteps int
	// EveryEpochs saves at the end of so many epochs; 0: every epoch.
	EveryEpochs int
	// Keep is how many checkpoints stay; 0: 2.
	Keep int
	// Resume starts from the newest checkpoint in Dir, if there is one: the very same run goes on.
	Resume bool
}

// Validate names the first field that cannot be.
func (c *CheckpointConfig) Validate() error {
	switch {
	case c.EverySteps < 0:
		return fmt.Errorf("worker: CheckpointConfig.EverySteps is %d, want 0 or more", c.EverySteps)
	case c.EveryEpochs < 0:
		return fmt.Errorf("worker: CheckpointConfig.EveryEpochs is %d, want 0 or more", c.EveryEpochs)
	case c.Keep < 0:
		return fmt.Errorf("worker: CheckpointConfig.Keep is %d, want 0 or more", c.Keep)
	case c.Resume && c.Dir == "":
		return errors.New("worker: CheckpointConfig.Resume is true and Dir is empty, want the folder to resume from")
	}
	return nil
}

// position is where a run is: the next step.
type position struct {
	Epoch int           `json:"epoch"`
	Step  int           `json:"step"`           // within the division: what remains of the epoch after the cuts
	Steps uint64        `json:"steps"`          // in all
	Cuts  []sampler.Cut `json:"cuts,omitempty"` // of the epoch

	workers, stepsOfDivision int // for the manifest
}

// manifest is complete.json.
type manifest struct {
	Version int `json:"version"` // 1 without cuts, 2 with cuts
	position
	Workers       int `json:"workers"`
	StepsPerEpoch int `json:"steps_per_epoch"` // of the division
}

// version is that of the manifest: older programs know no cuts.
func (p *position) version() int {
	if len(p.Cuts) > 0 {
		return 2
	}
	return 1
}

const (
	manifestFile = "complete.json"
	storeFile    = "store.safetensors"
)

func stepFolder(steps uint64) string { return fmt.Sprintf("step-%08d", steps) }
func workerFile(rank int) string     { return fmt.Sprintf("worker-%d.safetensors", rank) }

// stepFolders returns the steps that have a folder in dir, complete or not, rising.
func stepFolders(dir string) ([]uint64, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("worker: look for checkpoints: %w", err)
	}
	var found []uint64
	for _, entry := range entries {
		number, _ := strings.CutPrefix(entry.Name(), "step-")
		steps, err := strconv.ParseUint(number, 10, 64)
		if err == nil && entry.IsDir() && entry.Name() == stepFolder(steps) {
			found = append(found, steps)
		}
	}
	slices.Sort(found)
	return found, nil
}

// findCheckpoints returns the complete checkpoints in dir, oldest first.
func findCheckpoints(dir string) ([]manifest, error) {
	folders, err := stepFolders(dir)
	if err != nil {
		return nil, err
	}
	var found []manifest
	for _, steps := range folders {
		path := filepath.Join(dir, stepFolder(steps), manifestFile)
		text, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("worker: read checkpoint: %w", err)
		}
		var m manifest
		if err := json.Unmarshal(text, &m); err != nil {
			return nil, fmt.Errorf("worker: checkpoint %s is damaged (%w); remove its folder to resume from an older one", path, err)
		}
		if m.Version != m.position.version() || m.Steps != steps || m.Epoch < 0 || m.Step < 0 {
			return nil, fmt.Errorf("worker: checkpoint %s: got version %d, epoch %d, step %d, %d steps in all; want version 1 (2 with cuts), none below 0, and the folder's %d", path, m.Version, m.Epoch, m.Step, m.Steps, steps)
		}
		found = append(found, m)
	}
	return found, nil
}

// saver writes the checkpoints of one run.
type saver struct {
	cfg     CheckpointConfig
	trainer *Trainer
	ranks   []int         // that this worker has had
	spent   time.Duration // since the epoch began
}

func newSaver(cfg CheckpointConfig, t *Trainer) *saver {
	if cfg.Keep == 0 {
		cfg.Keep = 2
	}
	cfg.EveryEpochs = max(cfg.EveryEpochs, 1)
	return &saver{cfg: cfg, trainer: t}
}

// due reports whether a save after so many steps in all is due.
func (s *saver) due(steps uint64) bool {
	return s.cfg.Dir != "" && s.cfg.EverySteps > 0 && steps > 0 && steps%uint64(s.cfg.EverySteps) == 0
}

func (s *saver) afterEpoch(ctx context.Context, at position) error {
	if (at.Epoch+1)%s.cfg.EveryEpochs != 0 && !s.due(at.Steps) {
		return nil
	}
	return s.save(ctx, at)
}

// save writes one checkpoint. All workers call it after the same step.
func (s *saver) save(ctx context.Context, at position) error {
	if s.cfg.Dir == "" {
		return nil
	}
	if err := s.write(ctx, at, s.trainer.barrier); err != nil {
		return fmt.Errorf("worker: checkpoint at step %d: %w", at.Steps, err)
	}
	return nil
}

// saveAlone writes the checkpoint of a worker that stops by itself: rank 0's is that of the job, the others end without.
func (s *saver) saveAlone(ctx context.Context, at position) error {
	if s.cfg.Dir == "" || s.trainer.cfg.Store.Rank() != 0 {
		return nil
	}
	if err := s.write(ctx, at, func(context.Context) error { return nil }); err != nil {
		return fmt.Errorf("worker: checkpoint at step %d: %w", at.Steps, err)
	}
	return nil
}

// write writes this worker's part of a checkpoint; barrier returns when all workers have come to it. Where rank 0 is lost on the way
// there is no manifest, and so no checkpoint; the rank of the others stays what it is.
func (s *saver) write(ctx context.Context, at position, barrier func(context.Context) error) error {
	if err := s.trainer.Flush(ctx); err != nil {
		return err
	}
	begin := time.Now()
	defer func() { s.spent += time.Since(begin) }()
	store := s.trainer.cfg.Store
	folder := filepath.Join(s.cfg.Dir, stepFolder(at.Steps))
	if err := os.MkdirAll(folder, 0o777); err != nil {
		return err
	}
	if !slices.Contains(s.ranks, store.Rank()) {
		s.ranks = append(s.ranks, store.Rank())
	}
	if err := s.trainer.saveOwn(ctx, filepath.Join(folder, workerFile(store.Rank()))); err != nil {
		return err
	}
	if err := barrier(ctx); err != nil { // all own files are there
		return err
	}
	if store.Rank() == 0 {
		if err := store.Save(ctx, filepath.Join(folder, storeFile)); err != nil {
			return err
		}
		m := manifest{Version: at.version(), position: at, Workers: at.workers, StepsPerEpoch: at.stepsOfDivision}
		if err := writeManifest(filepath.Join(folder, manifestFile), m); err != nil {
			return err
		}
		if err := s.prune(at.Steps); err != nil {
			return fmt.Errorf("remove old checkpoint: %w", err)
		}
		s.trainer.cfg.Logger.Info("checkpoint written", "folder", folder, "epoch", at.Epoch, "step", at.Step)
	}
	if err := barrier(ctx); err != nil { // nobody trains on, or ends, before it is complete
		return err
	}
	if store.Rank() != 0 {
		return s.pruneOwn(at.Steps)
	}
	return nil
}

// prune removes all but the newest checkpoints, and what crashes have left, up to a step.
func (s *saver) prune(upTo uint64) error {
	found, err := findCheckpoints(s.cfg.Dir)
	if err != nil {
		return err
	}
	folders, err := stepFolders(s.cfg.Dir)
	if err != nil {
		return err
	}
	kept := found[max(0, len(found)-s.cfg.Keep):]
	for _, steps := range folders {
		if steps > upTo || slices.ContainsFunc(kept, func(m manifest) bool { return m.Steps == steps }) {
			continue
		}
		folder := filepath.Join(s.cfg.Dir, stepFolder(steps))
		// The manifest goes first: a folder half removed is no checkpoint.
		if err := os.Remove(filepath.Join(folder, manifestFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if err := os.RemoveAll(folder); err != nil {
			return err
		}
	}
	return nil
}

// pruneOwn does the same for the files of a worker that has Dir for itself. Where it is shared rank 0 has left nothing to do.
func (s *saver) pruneOwn(upTo uint64) error {
	folders, err := stepFolders(s.cfg.Dir)
	if err != nil {
		return err
	}
	folders = slices.DeleteFunc(folders, func(steps uint64) bool { return steps > upTo }) // rank 0 may be ahead
	for _, steps := range folders[:max(0, len(folders)-s.cfg.Keep)] {
		folder := filepath.Join(s.cfg.Dir, stepFolder(steps))
		for _, rank := range s.ranks {
			err := os.Remove(filepath.Join(folder, workerFile(rank)))
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("remove old checkpoint: %w", err)
			}
		}
		_ = os.Remove(folder) // fails if another worker of this host still has its file in it
	}
	return nil
}
