package record

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
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
	if err == nil {
		err = got.Open()
	}
	if err != nil || got.Job != want.Job || got.Scheduler != want.Scheduler || !got.Started.Equal(want.Started) || !slices.Equal(got.Credentials, want.Credentials) {
		t.Errorf("Find: %+v, %v, want %+v", got, err, want)
	}
	if err := f.Remove(); err != nil {
		t.Fatal(err)
	}
	if _, err := Find(dir, "", ""); !errors.Is(err, ErrNone) {
		t.Errorf("Find after the job's end: %v, want %v", err, ErrNone)
	}
}

// Where the system has files in memory no secret is on a disk, and none outlives the launcher.
// Elsewhere the record has it.
func TestSecretsAreInMemoryWhereThatCanBe(t *testing.T) {
	for _, inFile := range []bool{false, true} {
		if runtime.GOOS != "linux" && !inFile {
			continue
		}
		if inFile {
			before := inMemory
			inMemory = func([]byte) (*os.File, string) { return nil, "" }
			t.Cleanup(func() { inMemory = before })
		}
		dir := t.TempDir()
		f, err := Write(dir, Record{Job: "0123", Credentials: []string{"S=hush"}})
		if err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(filepath.Join(dir, "0123.json"))
		if err != nil || strings.Contains(string(b), "hush") != inFile {
			t.Errorf("the record is %s, %v; want the secret in it: %t", b, err, inFile)
		}
		r, err := Find(dir, "", "")
		if err == nil {
			err = r.Open()
		}
		if err != nil || !slices.Equal(r.Credentials, []string{"S=hush"}) {
			t.Errorf("Find and Open: %+v, %v", r, err)
		}
		f.close() // as the kernel does for who is killed
		if r.Credentials = nil; !inFile && r.Open() == nil {
			t.Errorf("the secret of a launcher that is gone is still there: %q", r.Credentials)
		}
		Sweep(dir)
		if left, _ := os.ReadDir(dir); len(left) != 0 {
			t.Errorf("the folder has %v, want nothing", left)
		}
	}
}

func TestOpenSaysWhereAJobIs(t *testing.T) {
	other := filepath.Join(t.TempDir(), "other")
	if err := os.WriteFile(other, []byte(`{"job":"9999","credentials":["S=x"]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		r    Record
		want string
	}{
		{Record{Host: "elsewhere", Memory: other}, "job 0123: read its credentials from its launcher (process 7 on elsewhere): this is "},
		{Record{Host: thisHost(), Memory: other}, "that process is not the launcher of the job; run this on the same machine and as the same user as launch"},
		{Record{Host: thisHost(), Memory: other + "x"}, "no such file"},
	} {
		tc.r.Job, tc.r.PID = "0123", 7
		if err := tc.r.Open(); err == nil || !strings.Contains(err.Error(), tc.want) || tc.r.Credentials != nil {
			t.Errorf("Open of %+v: %v, want %q", tc.r, err, tc.want)
		}
	}
}

// What another host of a shared home folder left is not judged by this one: its locks may not be
// seen here.
func TestSweepTakesThisHostsRecordsOnly(t *testing.T) {
	dir := t.TempDir()
	living, err := Write(dir, Record{Job: "aa11"})
	if err != nil {
		t.Fatal(err)
	}
	defer living.Remove()
	for name, text := range map[string]string{
		"old.json": `{"job":"old"}`, "bad.json": `{`, "b" + draftEnd(): "", "far.json": `{"job":"far","host":"elsewhere"}`, "c.elsewhere.new": "", "note": "",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	Sweep(dir)
	var left []string
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		left = append(left, e.Name())
	}
	if want := []string{"aa11.json", "c.elsewhere.new", "far.json", "note"}; !slices.Equal(left, want) {
		t.Errorf("after Sweep there are %q, want %q", left, want)
	}
	if all, err := All(dir); err != nil || len(all) != 1 {
		t.Errorf("All: %v, %v, want the one that lives", all, err)
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
		{"", "", "3 jobs run on this machine, and not exactly one of them was started in this folder; give the ID of one:"},
		{"b", "", "the IDs of 2 jobs begin with \"b\"; give more of one:\n  --job bb22"},
		{"x", "", `no job has an ID that begins with "x"; the jobs are:`},
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
		if got, err := FindToChange(dir, tc.id, tc.here); got.Job != tc.want || (err == nil) != (tc.want != "") {
			t.Errorf("FindToChange %q in %s: %q, %v, want %q", tc.id, tc.here, got.Job, err, tc.want)
		}
		if err != nil && (!strings.Contains(err.Error(), "--job aa11") || !strings.Contains(err.Error(), "--job bc33")) {
			t.Errorf("Find %q in %s: %v, want the jobs in it", tc.id, tc.here, err)
		}
	}
}

// Who changes a job says which, unless it is the one of this folder: the only job that runs may be
// a colleague's window away.
func TestAnotherFoldersJobIsChangedByItsIDOnly(t *testing.T) {
	dir, one, two := t.TempDir(), t.TempDir(), t.TempDir()
	f, err := Write(dir, Record{Job: "aa11", Dir: one, Command: []string{"train"}})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Remove()
	for _, tc := range []struct {
		id, here string
		ok       bool
	}{{"", one, true}, {"", two, false}, {"", "", false}, {"aa", two, true}, {"aa", "", true}} {
		if r, err := Find(dir, tc.id, tc.here); err != nil || r.Job != "aa11" {
			t.Errorf("Find %q in %s: %q, %v", tc.id, tc.here, r.Job, err)
		}
		r, err := FindToChange(dir, tc.id, tc.here)
		if (err == nil) != tc.ok || tc.ok && r.Job != "aa11" {
			t.Errorf("FindToChange %q in %s: %q, %v, want it found: %t", tc.id, tc.here, r.Job, err, tc.ok)
		}
		if want := "no job was started in this folder; to change a job of another folder give its ID:\n  --job aa11 "; !tc.ok && !strings.Contains(err.Error(), want) {
			t.Errorf("FindToChange %q in %s: %v, want %q", tc.id, tc.here, err, want)
		}
	}
}
