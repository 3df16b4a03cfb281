package tune

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// A folder is due for removal once the event of its removal is on the disk, and once only.
func TestADoomedFolderGoesWhenItsRemovalIsOnTheDisk(t *testing.T) {
	f := checkpointFolder{root: "study"}
	f.doom(keptStep{0, 3, 1}, 5)
	f.doom(keptStep{1, 3, 1}, 7)
	if due := f.due(5); len(due) > 0 {
		t.Errorf("before event 5 is on the disk %v is due", due)
	}
	if due := f.due(7); len(due) != 1 || due[0].path != filepath.Join("study", "trials", "trial-000000", "step-3.1") {
		t.Errorf("with events before 7 on the disk %v is due, want step 3 of trial 0", due)
	}
	if due := f.due(7); len(due) > 0 {
		t.Errorf("%v is due twice", due)
	}
}

// A checkpoint that is staged takes the place of the one before, and is taken once.
func TestATrialHasOneStagedCheckpoint(t *testing.T) {
	var f checkpointFolder
	old, c := keptBytes{keptStep{2, 3, 1}, 10}, keptBytes{keptStep{2, 6, 1}, 20}
	f.stage(old)
	f.stage(c)
	if f.isStaged(old.keptStep) || !f.isStaged(c.keptStep) {
		t.Error("want the newer checkpoint staged alone")
	}
	if got, ok := f.unstage(2); !ok || got != c {
		t.Errorf("got %v, %v, want %v", got, ok, c)
	}
	if _, ok := f.unstage(2); ok {
		t.Error("a checkpoint was taken twice")
	}
}

// Folders of checkpoints that nobody knows are found, and no others.
func TestUnknownCheckpointsAreFound(t *testing.T) {
	f := checkpointFolder{root: t.TempDir()}
	var paths []string
	for _, name := range []string{"step-1.1", "step-2.1", "step-3.1.tmp", "worker_0.log", "step-x"} {
		path := filepath.Join(f.root, "trials", "trial-000004", name)
		if err := os.MkdirAll(path, 0o777); err != nil {
			t.Fatal(err)
		}
		paths = append(paths, path)
	}
	got, err := f.unknown(map[string]bool{paths[0]: true})
	if want := paths[1:3]; err != nil || !slices.Equal(got, want) {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
}
