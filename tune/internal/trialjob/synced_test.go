package trialjob

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/paragon-train/paragon/tune/internal/studydir"
)

// The copy of the current folder leaves out studies, by whatever path they are named.
func TestTheFoldersOfStudiesAreNotCopiedToHosts(t *testing.T) {
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"here/runs/a", "here/runs/b", "here/runs/data", "there/c"} {
		if err := os.MkdirAll(filepath.Join(root, name), 0o777); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"here/runs/b/log.jsonl", "there/log.jsonl"} {
		if err := os.WriteFile(filepath.Join(root, name), nil, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	for link, to := range map[string]string{"alias": "here", "here/outside": "../there"} {
		if err := os.Symlink(to, filepath.Join(root, link)); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(filepath.Join(root, "alias"))
	for _, tc := range []struct {
		study string
		want  []string
	}{
		{"here/runs/a", []string{"runs/a", "runs/b"}},
		{"alias/runs/a", []string{"runs/a", "runs/b"}},
		{"there/c", nil},
		{"here/outside/c", nil}, // rsync copies links as links
		{"here", []string{studydir.TrialsFolder, studydir.LogName, "control.json"}},
	} {
		s, err := synced(filepath.Join(root, tc.study))
		if err != nil || !slices.Equal(s.Exclude, tc.want) {
			t.Errorf("%s: %q are left out, %v, want %q", tc.study, s.Exclude, err, tc.want)
		}
	}
}
