package record

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestRecordIsForItsUserAloneAndGoesWithItsJob(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "jobs")
	want := Record{Job: "0123", Scheduler: "127.0.0.1:99", PID: 7, Dir: "/d", Command: []string{"train", "-x"}, Started: time.Unix(5, 0).UTC(), Credentials: []string{"S=1"}}
	f, err := Write(dir, want)
	if err != nil {
		t.Fatal(err)
	}
	for path, mode := range map[string]os.FileMode{dir: 0o700, filepath.Join(dir, "0123.json"): 0o600} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != mode {
			t.Errorf("%s has mode %v, %v, want %v", path, info.Mode().Perm(), err, mode)
		}
	}
	got, err := Find(dir, "", "")
	if err != nil || got.Job != want.Job || got.Scheduler != want.Scheduler || !got.Started.Equal(want.Started) || len(got.Credentials) != 1 {
		t.Errorf("Find: %+v, %v, want %+v", got, err, want)
	}
	if err := f.Remove(); err != nil {
		t.Fatal(err)
	}
	if _, err := Find(dir, "", ""); !errors.Is(err, ErrNone) {
		t.Errorf("Find after the job's end: %v, want %v", err, ErrNone)
	}
}

func TestRecordOfAKilledLauncherIsNoJob(t *testing.T) {
	dir := t.TempDir()
	f, err := Write(dir, Record{Job: "dead"})
	if err != nil {
		t.Fatal(err)
	}
	f.f.Close() // as the kernel does for who is killed
	if all, err := All(dir); err != nil || len(all) != 0 {
		t.Errorf("All: %v, %v, want none", all, err)
	}
	if left, _ := os.ReadDir(dir); len(left) != 0 {
		t.Errorf("the folder has %v, want nothing", left)
	}
}

func TestOneOfSeveralJobsIsFoundByTheBeginningOfItsID(t *testing.T) {
	dir := t.TempDir()
	for i, id := range []string{"aa11", "bb22", "bc33"} {
		f, err := Write(dir, Record{Job: id, Started: time.Unix(int64(i), 0), Command: []string{"train" + id}})
		if err != nil {
			t.Fatal(err)
		}
		defer f.Remove()
	}
	for _, tc := range []struct{ id, want, err string }{
		{"a", "aa11", ""},
		{"bc33", "bc33", ""},
		{"", "", "3 jobs run on this machine, and not exactly one was started in this folder; say which:"},
		{"b", "", "the IDs of 2 jobs begin with \"b\"; say which:\n  --job bb22"},
		{"x", "", `no job's ID begins with "x"; there are:`},
	} {
		got, err := Find(dir, tc.id, "")
		if got.Job != tc.want || (err == nil) != (tc.err == "") || err != nil && !strings.Contains(err.Error(), tc.err) {
			t.Errorf("Find %q: %q, %v, want %q, %q", tc.id, got.Job, err, tc.want, tc.err)
		}
		if err != nil && !strings.Contains(err.Error(), "trainbc33") {
			t.Errorf("Find %q: %v, want the jobs in it", tc.id, err)
		}
	}
}

func TestDirIsOfThisLogin(t *testing.T) {
	run := t.TempDir()
	for _, tc := range []struct{ run, home, want string }{
		{run, "/home/me", filepath.Join(run, "paragon", "jobs")},
		{"", "/home/me", "/home/me/.paragon/jobs"},
		{filepath.Join(run, "none"), "/home/me", "/home/me/.paragon/jobs"},
		{"", "", ""},
	} {
		got, err := Dir(func(name string) string { return map[string]string{"XDG_RUNTIME_DIR": tc.run, "HOME": tc.home}[name] })
		if got != tc.want || (err == nil) != (tc.want != "") {
			t.Errorf("XDG_RUNTIME_DIR=%s HOME=%s: %q, %v, want %q", tc.run, tc.home, got, err, tc.want)
		}
	}
}

func TestOfSeveralJobsTheOneOfThisFolderIsFound(t *testing.T) {
	dir, one, two, three := t.TempDir(), t.TempDir(), t.TempDir(), t.TempDir()
	for i, r := range []Record{{Job: "aa11", Dir: one}, {Job: "bb22", Dir: two}, {Job: "bc33", Dir: two}} {
		r.Started = time.Unix(int64(i), 0)
		f, err := Write(dir, r)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Remove()
	}
	link := filepath.Join(three, "link")
	if err := os.Symlink(one, link); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct{ id, here, want string }{
		{"", one, "aa11"},
		{"", one + "/", "aa11"},
		{"", link, "aa11"},
		{"bc", one, "bc33"}, // who says which means it
		{"", two, ""},
		{"", three, ""},
	} {
		got, err := Find(dir, tc.id, tc.here)
		if got.Job != tc.want || (err == nil) != (tc.want != "") {
			t.Errorf("Find %q in %s: %q, %v, want %q", tc.id, tc.here, got.Job, err, tc.want)
		}
		if err != nil && (!strings.Contains(err.Error(), "--job aa11") || !strings.Contains(err.Error(), "--job bc33")) {
			t.Errorf("Find %q in %s: %v, want the jobs in it", tc.id, tc.here, err)
		}
	}
}
