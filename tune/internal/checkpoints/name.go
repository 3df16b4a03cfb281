package checkpoints

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/paragon-train/paragon/internal/files/vfs"
	"github.com/paragon-train/paragon/tune/internal/studydir"
)

// A Name says which attempt of which trial saved a checkpoint, and at which step. Step -1 is none.
type Name struct{ Trial, Step, Attempt int }

// None is the Name of a trial that goes on from no checkpoint.
func None(trial int) Name { return Name{Trial: trial, Step: -1} }

// A Saved is a checkpoint with its size.
type Saved struct {
	Name  Name
	Bytes int64
}

// folder is the checkpoint's in that of the study: trials/trial-000007/step-12.1 is what attempt 1
// of trial 7 saved at step 12.
func (n Name) folder() string {
	return filepath.Join(studydir.TrialsFolder, studydir.TrialName(n.Trial), fmt.Sprintf("step-%d.%d", n.Step, n.Attempt))
}

// isCheckpoint says whether a folder's name is one of those that checkpoints have, whole or not.
func isCheckpoint(name string) bool {
	name, _ = strings.CutSuffix(name, vfs.TempSuffix)
	var n Name
	_, err := fmt.Sscanf(name, "step-%d.%d", &n.Step, &n.Attempt)

	// Sscanf ignores what follows: the whole name must fit.
	return err == nil && n.Step >= 0 && name == filepath.Base(n.folder())
}
