package studydir

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/paragon-train/paragon/internal/files/vfs"
	"github.com/paragon-train/paragon/tune/internal/logfile"
)

// One process at a time has a folder open.
func TestAFolderIsOpenOnce(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "study")
	first, second := New(vfs.OS{}, dir), New(vfs.OS{}, dir)
	if err := first.Open(); err != nil {
		t.Fatal(err)
	}
	if err := second.Open(); !errors.Is(err, ErrLocked) {
		t.Errorf("opened twice: got %v, want %v", err, ErrLocked)
	}
	first.Release()
	if err := second.Open(); err != nil {
		t.Errorf("after it was released: %v", err)
	}
	second.Release()
}

// Trials that a log does not have show that it has lost more than its end.
func TestFoldersOfTrialsThatTheLogLacksAreFound(t *testing.T) {
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, TrialsFolder, TrialName(3)), 0o777); err != nil {
		t.Fatal(err)
	}
	f := New(vfs.OS{}, dir)
	if err := f.NoTrials("there is no log"); err == nil || !strings.Contains(err.Error(), "trial-000003") {
		t.Errorf("got %v, want an error that names trial 3", err)
	}
	end := logfile.End{Why: errors.New("it is torn")}
	if err := f.NoLaterTrials(end, 4); err != nil {
		t.Errorf("of a log with trials 0 to 3: %v", err)
	}
	if err := f.NoLaterTrials(end, 3); err == nil {
		t.Error("trial 3 is not in a log with trials 0 to 2")
	}
}
