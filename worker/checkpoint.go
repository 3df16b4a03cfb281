package worker

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/paragon-train/paragon/checkpoint"
	"github.com/paragon-train/paragon/sampler"
)

// CheckpointConfig says where and when Fit saves, and whether it resumes.
//
// A checkpoint is a folder step-NNNNNNNN under Dir:
//
//	store.safetensors     parameters and optimizer state, written by rank 0 (kvstore.Snapshot)
//	worker-R.safetensors  what is rank R's own: running statistics of each device, what its compressed pushes have left
//	                      out, the scale of a loss in float16; with UpdateOnWorker or local steps, its parameters too
//	complete.json         written last, by rank 0, when all workers have told that their parts are there: a folder without it
//	                      is not a checkpoint
//
// A checkpoint is of one step of all workers, and is written while training goes on: each worker copies what is its own, rank 0 reads the
// servers' state during the next step, and both write what they have beside the training. One is written at a time. If the
// next one is due before, or Fit ends, that waits for it. What could not be written is logged at once, and is Fit's error
// when the next checkpoint is due or Fit ends. In a store without rounds (dist_async) all workers wait until it is written.
//
// Workers on several hosts either share Dir or keep their own part of it each.
//
// A job of another number of workers may go on from it: what remains of the epoch is divided anew. A rank without a file of its
// own takes rank 0's running statistics (batch norm's, which differ little and are averaged at the end of the epoch) and
// begins with nothing left out of compressed pushes; what ranks that are gone had left out is lost.
type CheckpointConfig struct {
	// Dir is the place: a folder's path, or a URL that checkpoint.OpenPlace knows, such as s3://bucket/prefix in a program that
	// imports checkpoint/bucket; empty: no checkpoints.
	Dir string
	// EverySteps saves after so many steps; 0: only at the end of epochs.
	EverySteps int
	// Every saves when so much time has passed on rank 0 since it last began to, after a step that all agree on, and not while the
	// last one is still being written: a slow place holds nobody up. 0: never. Not with dist_async, whose workers have no
	// step in common.
	Every time.Duration
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
	case c.Every < 0:
		return fmt.Errorf("worker: CheckpointConfig.Every is %v, want 0 or more", c.Every)
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

// A folder is one checkpoint's in a place, complete or not.
type folder struct {
	steps uint64
	files []string // names in the place
}

func (f *folder) complete() bool { return slices.Contains(f.files, f.name(manifestFile)) }

func (f *folder) name(file string) string { return path.Join(stepFolder(f.steps), file) }

// listFolders returns the folders that are in a place, steps rising.
func listFolders(ctx context.Context, place checkpoint.Place) (found []folder, err error) {
	names, err := place.List(ctx, "step-")
	if err != nil {
		return nil, fmt.Errorf("worker: look for checkpoints: %w", err)
	}
	for _, name := range names {
		dir, _, _ := strings.Cut(name, "/")
		number, _ := strings.CutPrefix(dir, "step-")
		steps, err := strconv.ParseUint(number, 10, 64)
		if err != nil || dir == name || dir != stepFolder(steps) {
			continue
		}
		i := slices.IndexFunc(found, func(f folder) bool { return f.steps == steps })
		if i < 0 {
			i, found = len(found), append(found, folder{steps: steps})
		}
		found[i].files = append(found[i].files, name)
	}
	slices.SortFunc(found, func(a, b folder) int { return cmp.Compare(a.steps, b.steps) })
	return found, nil
}

// readManifest reads that of a complete checkpoint.
func readManifest(ctx context.Context, place checkpoint.Place, f *folder) (m manifest, err error) {
	name := f.name(manifestFile)
	file, err := place.Open(ctx, name)
	if err != nil {
		return m, fmt.Errorf("worker: read checkpoint: %w", err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	size, err := file.Size()
	if err == nil && size > manifestLimit {
		err = fmt.Errorf("got %d bytes, want at most %d", size, manifestLimit)
	}
	if err != nil {
		return m, fmt.Errorf("worker: read checkpoint %s: %w", name, err)
	}
	text := make([]byte, size)
	if n, err := file.ReadAt(text, 0); n < len(text) {
		return m, fmt.Errorf("worker: read checkpoint %s: %w", name, err)
	}
	if err := json.Unmarshal(text, &m); err != nil {
		return m, fmt.Errorf("worker: checkpoint %s is damaged (%w); remove its folder to resume from an older one", name, err)
	}
	if m.Version != m.position.version() || m.Steps != f.steps || m.Epoch < 0 || m.Step < 0 {
		return m, fmt.Errorf("worker: checkpoint %s: got version %d, epoch %d, step %d, %d steps in all; want version 1 (2 with cuts), none below 0, and the folder's %d", name, m.Version, m.Epoch, m.Step, m.Steps, f.steps)
	}
	return m, nil
}

// manifestLimit is far more than a manifest takes.
const manifestLimit = 16 << 20

// writeManifest writes complete.json, whole or not at all.
func writeManifest(ctx context.Context, place checkpoint.Place, m manifest) error {
	text, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	return place.Write(ctx, path.Join(stepFolder(m.Steps), manifestFile), func(w io.Writer) error {
		_, err := w.Write(append(text, '\n'))
		return err
	})
}
