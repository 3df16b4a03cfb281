package ssh

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestASourceIsMeasuredWithoutWhatItExcludes(t *testing.T) {
	dir := t.TempDir()
	for name, size := range map[string]int{"train": 1000, "runs/a/log.jsonl": 10, "runs/b/x": 20, "data/runs/a": 3000, ".git/x": 40, "data/.git/x": 50, "host_worker": 60} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, make([]byte, size), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	s := Source{Dir: dir, Exclude: []string{"runs/a", "host_worker"}}
	if files, bytes, err := s.Measure(); files != 3 || bytes != 4020 || err != nil {
		t.Errorf("there are %d files of %d bytes, %v, want 3 of 4020", files, bytes, err)
	}
	if got, err := s.Size(); got != "3 files, 0.0 MB" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
	if _, err := (Source{Dir: filepath.Join(dir, "none")}).Size(); err == nil {
		t.Error("a folder that is not there has a size")
	}
}

func TestAPathToExcludeIsInTheFolder(t *testing.T) {
	for _, tc := range []struct{ path, want string }{
		{"runs/mnist", "runs/mnist"}, {"./runs//mnist/", "runs/mnist"}, {"/here/runs", "runs"}, {"..", ""}, {"../runs", ""}, {"/there", ""}, {".", ""}, {"", ""}, {"/here", ""},
	} {
		got, err := CleanExclude("/here", tc.path)
		if got != tc.want || (err == nil) != (tc.want != "") {
			t.Errorf("%q: got %q, %v, want %q", tc.path, got, err, tc.want)
		}
		if err != nil && !strings.Contains(err.Error(), "is not in the folder /here") {
			t.Errorf("%q: got %v", tc.path, err)
		}
	}
}
