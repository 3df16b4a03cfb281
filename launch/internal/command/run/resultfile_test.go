package run

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/paragon-train/paragon/internal/member/control"
)

// A link is followed: whoever reads the file itself finds this job's result there, not an older
// one.
func TestAResultGoesWhereALinkLeads(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "of", "in"), 0o755); err != nil {
		t.Fatal(err)
	}
	old := filepath.Join(dir, "of", "old.json")
	if err := os.WriteFile(old, []byte("of an earlier job"), 0o644); err != nil {
		t.Fatal(err)
	}
	for link, to := range map[string]string{"old": "of/old.json", "new": "of/new.json", "far": "old", "round": "round", "folder": "of/in", "of/in/up": "../up.json"} {
		if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct{ link, file string }{{"old", "of/old.json"}, {"new", "of/new.json"}, {"far", "of/old.json"}, {"folder/up", "of/up.json"}} {
		link, path := filepath.Join(dir, c.link), filepath.Join(dir, c.file)
		f, err := openResult(link)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(path); err == nil {
			t.Errorf("%s: there is a result before the job has ended", c.link)
		}
		if err := f.write(&control.Result{ExitCode: 3, Phase: control.Running}); err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(path)
		if err != nil || !strings.Contains(string(b), `"exit_code":3`) {
			t.Errorf("%s: %s has %q, error %v, want the result", c.link, c.file, b, err)
		}
		if info, err := os.Lstat(link); err != nil || info.Mode()&os.ModeSymlink == 0 {
			t.Errorf("%s: the link is gone", c.link)
		}
	}
	if _, err := openResult(filepath.Join(dir, "round")); err == nil || !strings.Contains(err.Error(), "round") {
		t.Errorf("a link to itself: got error %v, want one that names it", err)
	}
}
