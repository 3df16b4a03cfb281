package tune_test

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/paragon-train/paragon/tune"
)

// searchWithCheckpoint runs a search of one trial that keeps a checkpoint at step 3, and returns
// the trial's folder.
func searchWithCheckpoint(t *testing.T, dir string) string {
	t.Helper()
	_, err := tune.Run(t.Context(), func(_ context.Context, p tune.Params, r *tune.Reporter) error {
		if err := r.Checkpoint(3, func(dir string) error { return os.WriteFile(filepath.Join(dir, "x"), nil, 0o666) }); err != nil {
			return err
		}
		return r.Report(3, map[string]float64{"v": 1})
	}, tune.Config{Space: line, Samples: 1, Metric: "v", Dir: dir, Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, "trials", "trial-000000")
}

// A search that is resumed removes what a crash may have left of checkpoints, and nothing that
// somebody else has put beside them.
func TestOnlyCheckpointsThatTheLogLacksAreRemoved(t *testing.T) {
	dir := t.TempDir()
	trial := searchWithCheckpoint(t, dir)
	left := []string{"step-9.1", "step-9.2.tmp", "step-0.1", "step-12.34"}
	foreign := []string{"step-notes", "step-7", "step-7.old", "step-old.7", "step-7.1.keep", "step-7.1.tmp.tmp", "step-", "step-.", "step-7.", "step-.7", "step-+7.1", "step-007.1", "step--7.1",
		"step-7.1 (copy)", "step-3.1.keep", "best.1"}
	for _, name := range slices.Concat(left, foreign) {
		if err := os.MkdirAll(filepath.Join(trial, name, "inside"), 0o777); err != nil {
			t.Fatal(err)
		}
	}
	s, err := tune.NewStudy(tune.Config{Space: line, Metric: "v", Dir: dir, Resume: tune.ResumeAuto, Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	entries, err := os.ReadDir(trial)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range entries {
		if e.IsDir() {
			got = append(got, e.Name())
		}
	}
	want := append(foreign, "step-3.1")
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("folders that are left:\n got %q\nwant %q", got, want)
	}
}

// A study without a Logger says what it has to say by the default one.
func TestAStudyWithoutALoggerTakesTheDefaultOne(t *testing.T) {
	dir := t.TempDir()
	if err := os.RemoveAll(filepath.Join(searchWithCheckpoint(t, dir), "step-3.1")); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	old := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
	defer slog.SetDefault(old)
	s, err := tune.NewStudy(tune.Config{Space: line, Metric: "v", Dir: dir, Resume: tune.ResumeAuto})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if want := `msg="tune: a checkpoint is missing" trial=0 step=3`; !strings.Contains(log.String(), want) {
		t.Errorf("the log has no %s:\n%s", want, &log)
	}
}
