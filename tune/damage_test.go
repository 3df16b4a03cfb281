package tune_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/paragon-train/paragon/tune"
)

// A trial never goes on from a checkpoint whose files are not those that it kept: it takes the one
// before, or begins anew, and the log says so.
func TestATrialDoesNotGoOnFromADamagedCheckpoint(t *testing.T) {
	flip := func(file string) func(dir string) error {
		return func(dir string) error {
			path := filepath.Join(dir, file)
			b, err := os.ReadFile(path)
			if err == nil {
				b[len(b)/2] ^= 1
				err = os.WriteFile(path, b, 0o666)
			}
			return err
		}
	}
	for _, tc := range []struct {
		name   string
		damage func(newest, older string) error
		want   int // the step that the second attempt goes on from
	}{
		{"whole", func(_, _ string) error { return nil }, 2},
		{"a bit", func(newest, _ string) error { return flip("deep/state")(newest) }, 1},
		{"a bit of the checksums", func(newest, _ string) error { return flip(".tune-checksums")(newest) }, 1},
		{"both", func(newest, older string) error { return errors.Join(flip("deep/state")(newest), flip("other")(older)) }, -1},
		{"cut short", func(newest, _ string) error { return os.Truncate(filepath.Join(newest, "other"), 1) }, 1},
		{"a file is gone", func(newest, _ string) error { return os.Remove(filepath.Join(newest, "other")) }, 1},
		{"a file more", func(newest, _ string) error { return os.WriteFile(filepath.Join(newest, "more"), nil, 0o666) }, 1},
		{"of another step", func(newest, older string) error {
			return errors.Join(os.Remove(filepath.Join(newest, "other")), os.Link(filepath.Join(older, "other"), filepath.Join(newest, "other")))
		}, 1},
		{"the folder is gone", func(newest, _ string) error { return os.RemoveAll(newest) }, 1},
		{"an older version's", func(newest, _ string) error { return os.Remove(filepath.Join(newest, ".tune-checksums")) }, 2},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir, from := t.TempDir(), -2
			var log bytes.Buffer
			cfg := tune.Config{Space: line, Samples: 1, Parallel: 1, Dir: dir, Metric: "v", Retries: tune.Retries{UserCode: 1},
				Logger: slog.New(slog.NewTextHandler(&log, nil))}
			res, err := tune.Run(t.Context(), func(_ context.Context, _ tune.Params, r *tune.Reporter) error {
				if r.Attempt() == 2 {
					_, from, _ = r.Restore()
					return r.Report(3, map[string]float64{"v": 3})
				}
				for step := 1; step <= 2; step++ {
					err := r.Checkpoint(step, func(dir string) error {
						if err := os.Mkdir(filepath.Join(dir, "deep"), 0o777); err != nil {
							return err
						}
						text := fmt.Appendf(nil, "state at %d", step)
						return errors.Join(os.WriteFile(filepath.Join(dir, "deep", "state"), text, 0o666), os.WriteFile(filepath.Join(dir, "other"), text, 0o666))
					})
					if err == nil {
						err = r.Report(step, map[string]float64{"v": 1})
					}
					if err != nil {
						return err
					}
				}
				folder := func(step int) string {
					return filepath.Join(dir, "trials", fmt.Sprintf("trial-%06d", r.Trial()), fmt.Sprintf("step-%d.1", step))
				}
				return errors.Join(errors.New("broken"), tc.damage(folder(2), folder(1)))
			}, cfg)
			if err != nil {
				t.Fatal(err)
			}
			if from != tc.want {
				t.Errorf("goes on from step %d, want %d\n%s", from, tc.want, log.String())
			}
			if tc.want < 2 && !strings.Contains(log.String(), "a checkpoint is damaged and is dropped") {
				t.Errorf("got the log %s", log.String())
			}
			replayed, err := tune.Replay(dir, cfg)
			if err != nil || replayed.DecisionHash != res.DecisionHash() {
				t.Errorf("replay: %v, hash %.8s, want %.8s", err, replayed.DecisionHash, res.DecisionHash())
			}
		})
	}
}
