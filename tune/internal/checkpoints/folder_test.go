package checkpoints

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// A folder is due for removal once the event of its removal is on the disk, and once only.
func TestADoomedFolderGoesWhenItsRemovalIsOnTheDisk(t *testing.T) {
	f := Folder{root: "study"}
	f.Doom(Name{0, 3, 1}, 5)
	f.Doom(Name{1, 3, 1}, 7)
	if due := f.Due(5); len(due) > 0 {
		t.Errorf("before event 5 is on the disk %v is due", due)
	}
	if due := f.Due(7); len(due) != 1 || due[0].Path != filepath.Join("study", "trials", "trial-000000", "step-3.1") {
		t.Errorf("with events before 7 on the disk %v is due, want step 3 of trial 0", due)
	}
	if due := f.Due(7); len(due) > 0 {
		t.Errorf("%v is due twice", due)
	}
}

// A checkpoint that is staged takes the place of the one before, and is taken once.
func TestATrialHasOneStagedCheckpoint(t *testing.T) {
	var f Folder
	old, c := Saved{Name{2, 3, 1}, 10}, Saved{Name{2, 6, 1}, 20}
	f.Stage(old)
	f.Stage(c)
	if f.IsStaged(old.Name) || !f.IsStaged(c.Name) {
		t.Error("want the newer checkpoint staged alone")
	}
	if got, ok := f.Unstage(2); !ok || got != c {
		t.Errorf("got %v, %v, want %v", got, ok, c)
	}
	if _, ok := f.Unstage(2); ok {
		t.Error("a checkpoint was taken twice")
	}
}

// Folders of checkpoints that nobody knows are found, and no others.
func TestUnknownCheckpointsAreFound(t *testing.T) {
	f := Folder{root: t.TempDir()}
	var paths []string
	for _, name := range []string{"step-1.1", "step-2.1", "step-3.1.tmp", "worker_0.log", "step-x"} {
		path := filepath.Join(f.root, "trials", "trial-000004", name)
		if err := os.MkdirAll(path, 0o777); err != nil {
			t.Fatal(err)
		}
		paths = append(paths, path)
	}
	got, err := f.Unknown(map[string]bool{paths[0]: true})
	if want := paths[1:3]; err != nil || !slices.Equal(got, want) {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
}
