package preflight

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/paragon-train/paragon/internal/hosts/agent"
	"github.com/paragon-train/paragon/internal/hosts/hosts"
)

// Hosts that share the folder may each have made a part of it: all of it goes, but no file of
// somebody else.
func TestNothingStaysOfTheCheck(t *testing.T) {
	root := t.TempDir()
	dst := filepath.Join(root, "a", "b", "c")
	if err := os.MkdirAll(dst, 0o755); err != nil {
		t.Fatal(err)
	}
	made := map[string][]string{"d1": {filepath.Dir(filepath.Dir(dst))}, "d2": {dst}, "d3": {filepath.Dir(dst)}, "d4": nil}
	cfg := Config{
		SyncDir: dst, now: func() time.Time { return noon }, lookPath: found, Launcher: func([]Machine) (string, error) { return "127.0.0.1", nil },
		Dial: func(_ context.Context, h hosts.Host) (Machine, error) {
			return &fake{address: "127.0.0.1", answer: func(q agent.Question, a *agent.Answer) {
				if q.MakeDir != "" {
					a.Made = made[h.Name]
				}
				for _, path := range q.Remove {
					if err := os.Remove(path); err != nil {
						a.Left, a.RemoveErr = append(a.Left, path), err.Error()
					}
				}
			}}, nil
		},
	}
	var mu sync.Mutex
	copied := make(map[string]bool)
	cfg.Copy = func(_ context.Context, _ Machine, file, dir string) error {
		b, err := os.ReadFile(file)
		if err != nil || len(b) == 0 {
			t.Errorf("the file to copy: %q, %v", b, err)
		}
		mu.Lock()
		defer mu.Unlock()
		copied[filepath.Base(file)] = true
		return os.WriteFile(filepath.Join(dir, filepath.Base(file)), b, 0o644)
	}
	for name := range made {
		cfg.Hosts = append(cfg.Hosts, hosts.Host{Name: name})
	}
	reports := Check(t.Context(), cfg)
	for _, r := range reports {
		if len(r.Problems) != 0 {
			t.Errorf("%s: %q", r.Host, r.Problems)
		}
	}
	if len(copied) != len(made) {
		t.Errorf("%d files were copied, want one for each of %d hosts", len(copied), len(made))
	}
	if left, _ := os.ReadDir(root); len(left) != 0 {
		t.Errorf("%v is left", left)
	}
}
