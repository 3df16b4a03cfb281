package hostworker

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/paragon-train/paragon/internal/hosts/hosts"
)

func parse(t *testing.T, text string) []hosts.Host {
	t.Helper()
	if text == "" {
		return nil
	}
	all, err := hosts.Parse(strings.NewReader(text), "test")
	if err != nil {
		t.Fatal(err)
	}
	for i := range all {
		all[i].Line = 0
	}
	return all
}

func open(t *testing.T, dir, base string) *Files {
	t.Helper()
	f, err := Open(dir, parse(t, base))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func names(all []hosts.Host) string {
	text := ""
	for _, h := range all {
		text += fmt.Sprintf("%s/%d ", h, h.Slots)
	}
	return strings.TrimSpace(text)
}

func TestFilesBeginWithTheHostsOfTheJob(t *testing.T) {
	dir := t.TempDir()
	f := open(t, dir, "d1\nme@d2:2222 slots=3 gpus=2 cpus=8\nd1\nd3 gpus=0\n")
	if got, want := read(t, filepath.Join(dir, "host_worker")), "d1\nme@d2:2222 slots=3 gpus=2 cpus=8\nd3 gpus=0\n"; got != want {
		t.Errorf("host_worker has %q, want %q", got, want)
	}
	if got := read(t, filepath.Join(dir, "host_worker_log")); got != "" {
		t.Errorf("host_worker_log has %q, want nothing", got)
	}
	if c, err := f.Poll(); err != nil || !c.Empty() {
		t.Errorf("Poll without an edit: %+v, %v, want nothing", c, err)
	}
}

// A host that stays in the list stays in the job, however an editor writes the list.
func TestEditsOfFormChangeNothing(t *testing.T) {
	f := open(t, t.TempDir(), "d1\nme@d2:2222 slots=3\nfe80::1\n")
	for _, text := range []string{
		"\ufeffd1\nme@d2:2222 slots=3\nfe80::1\n", "d1\r\nme@d2:2222 slots=3\r\nfe80::1", "\ufeffd1\rme@d2:2222 slots=3\rfe80::1\r",
		"fe80:0:0:0:0:0:0:1 \t\n\tme@D2:2222   slots=3\n\nd1.\n# end", "d1 slots=1\nd1\n\ufeffme@d2:2222 slots=3\n[fe80::1]\n",
	} {
		if err := os.WriteFile(f.Path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if c, err := f.Poll(); err != nil || !c.Empty() {
			t.Errorf("Poll after %q: %+v, %v, want no change", text, c, err)
		}
	}
	// What is then removed is named as the job knows it.
	if err := os.WriteFile(f.Path, []byte("\ufeffD1\r\nD2"), 0o644); err != nil {
		t.Fatal(err)
	}
	if c, err := f.Poll(); err != nil || names(c.Removed) != "me@d2:2222/3 fe80::1/0" || names(c.Added) != "D2/0" {
		t.Errorf("Poll: %+v, %v, want D2 added, and me@d2:2222 and fe80::1 removed", c, err)
	}
	if got := names(f.Hosts()); got != "d1/0 D2/0" {
		t.Errorf("the hosts are %s, want d1 as before, and D2", got)
	}
	// A name with a letter that nobody sees is an error, and no host.
	if err := os.WriteFile(f.Path, []byte("d1\u200b\nD2\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if c, err := f.Poll(); err == nil || !strings.Contains(err.Error(), "is not a host name") || !c.Empty() {
		t.Errorf("Poll: %+v, %v, want an error and no change", c, err)
	}
}

func TestRemoveTakesOneLineWhateverTheLineEnds(t *testing.T) {
	for text, want := range map[string]string{
		"d1\rd2\rd3\r": "d2\nd3\n", "\ufeffd1\r\nd2\r\nd3": "d2\r\nd3\n", "# all\rD1\rd2\rd3": "# all\nd2\nd3\n",
	} {
		f := open(t, t.TempDir(), "d1\nd2\nd3\n")
		if err := os.WriteFile(f.Path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := f.Remove(hosts.Host{Name: "d1"}); err != nil {
			t.Fatal(err)
		}
		if got := read(t, f.Path); got != want {
			t.Errorf("%q without d1 is %q, want %q", text, got, want)
		}
	}
}

func TestOpenTellsWhetherTheLogIsNew(t *testing.T) {
	dir := t.TempDir()
	for _, want := range []bool{true, false} {
		f, err := Open(dir, parse(t, "d1\n"))
		if err != nil || f.NewLog != want {
			t.Fatalf("Open: %v, the log is new: %t, want %t", err, f.NewLog, want)
		}
		f.Close()
	}
}

// Numbers go on over restarts of whoever writes the log, whatever stands behind its last whole
// line.
func TestLogLinesAreNumberedOverRestarts(t *testing.T) {
	dir := t.TempDir()
	log := func(f *Files, action, host string, at int64) {
		t.Helper()
		if err := f.Log(action, host, at); err != nil {
			t.Fatal(err)
		}
	}
	f := open(t, dir, "d1\n")
	log(f, Added, "172.31.65.62", 1542536656974259605)
	log(f, Removed, "172.31.65.62", 1542536656974259606)
	f.Close()
	file, err := os.OpenFile(f.LogPath, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	file.WriteString("2 ADD") // cut by a full disk
	file.Close()
	f = open(t, dir, "d1\n")
	log(f, Added, "d2", 1542536656974259607)
	want := "0 ADDED 172.31.65.62 1542536656974259605\n1 REMOVED 172.31.65.62 1542536656974259606\n2 ADD\n3 ADDED d2 1542536656974259607\n"
	if got := read(t, f.LogPath); got != want {
		t.Errorf("log %q, want %q", got, want)
	}
}

func TestOneJobHasTheFilesOfAFolder(t *testing.T) {
	dir := t.TempDir()
	open(t, dir, "d1\n")
	if _, err := Open(dir, parse(t, "d9\n")); err == nil || !strings.Contains(err.Error(), "belongs to a job that still runs; start this one in another folder") {
		t.Errorf("Open by a second job: %v", err)
	}
	if got := read(t, filepath.Join(dir, "host_worker")); got != "d1\n" {
		t.Errorf("host_worker has %q, want the first job's d1", got)
	}
}

func TestEditsAreReadAsSetsOfHosts(t *testing.T) {
	for _, tc := range []struct {
		name, before, after   string
		added, removed, slots string
	}{
		{"order, comments, blanks", "d1\nd2\n", "# mine\n\n  d2  # second\nd1 slots=1\nd2\n", "", "", ""},
		{"added", "d1\n", "d1\nd3 slots=2\nme@d2:22", "d3/2 me@d2:22/0", "", ""},
		{"removed", "d1\nd2\nd3\n", "d2", "", "d1/0 d3/0", ""},
		{"replaced", "d1\nd2\n", "d1\nd3\n", "d3/0", "d2/0", ""},
		{"another port is another host", "d1:22\n", "d1:23\n", "d1:23/0", "d1:22/0", ""},
		{"limits", "d1\nd2 gpus=1\nd3 cpus=2", "d1 gpus=0\nd2 gpus=1\nd3 cpus=3\n", "", "", "d1/0 d3/0"},
		{"slots", "d1\nd2 slots=2\n", "d1 slots=4\nd2\n", "", "", "d1/4 d2/0"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := open(t, t.TempDir(), tc.before)
			if err := os.WriteFile(f.Path, []byte(tc.after), 0o644); err != nil {
				t.Fatal(err)
			}
			c, err := f.Poll()
			if err != nil || names(c.Added) != tc.added || names(c.Removed) != tc.removed || names(c.Resized) != tc.slots {
				t.Errorf("Poll: added %q, removed %q, slots %q, %v, want %q, %q, %q", names(c.Added), names(c.Removed), names(c.Resized), err,
					tc.added, tc.removed, tc.slots)
			}
			if c, err := f.Poll(); err != nil || !c.Empty() {
				t.Errorf("second Poll: %+v, %v, want nothing", c, err)
			}
		})
	}
}

func TestFileThatCannotBeReadChangesNothingAndIsToldOnce(t *testing.T) {
	for _, tc := range []struct{ text, want string }{
		{"d1\nd2 slot=3\n", `line 2: d2: got "slot=3", want slots=N`},
		{"# nobody\n", "names no host"},
		{"", "names no host"},
	} {
		f := open(t, t.TempDir(), "d1\n")
		if err := os.WriteFile(f.Path, []byte(tc.text), 0o644); err != nil {
			t.Fatal(err)
		}
		for i := range 3 {
			c, err := f.Poll()
			if told := err != nil && strings.Contains(err.Error(), tc.want) && strings.HasSuffix(err.Error(), "the job keeps its hosts"); told != (i == 0) || !c.Empty() {
				t.Errorf("%q, Poll %d: %+v, %v", tc.text, i, c, err)
			}
		}
		if err := os.WriteFile(f.Path, []byte("d1\nd2\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		if c, err := f.Poll(); err != nil || names(c.Added) != "d2/0" {
			t.Errorf("%q, Poll of a good file again: %+v, %v, want d2", tc.text, c, err)
		}
	}
}

func TestChangesByOtherMeansKeepTheComments(t *testing.T) {
	f := open(t, t.TempDir(), "d1\nd2\n")
	if err := os.WriteFile(f.Path, []byte("# mine\nd1\n\nd2 # spot\nd2"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, step := range []func() error{
		func() error { return f.Add(hosts.Host{Name: "d3", Slots: 2}) },
		func() error { return f.Add(hosts.Host{Name: "d1"}) },
		func() error { return f.Remove(hosts.Host{Name: "d2"}) },
		func() error { return f.Remove(hosts.Host{Name: "d9"}) },
	} {
		if err := step(); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := read(t, f.Path), "# mine\nd1\n\nd3 slots=2\n"; got != want {
		t.Errorf("host_worker has %q, want %q", got, want)
	}
	if c, err := f.Poll(); err != nil || !c.Empty() {
		t.Errorf("Poll of our own change: %+v, %v, want nothing", c, err)
	}
	if got := f.Hosts(); !reflect.DeepEqual(got, parse(t, "d1\nd3 slots=2\n")) {
		t.Errorf("Hosts: %v", got)
	}
}

// A host's lines mean what they mean in every hosts file: their slots add up. A line without slots=
// only names the host.
func TestTheSlotsOfAHostsLinesAddUp(t *testing.T) {
	dir := t.TempDir()
	f := open(t, dir, "d1 slots=2\n")
	path := filepath.Join(dir, Name)
	for _, c := range []struct{ text, added, resized, listed string }{
		{"d1 slots=2\nd2 slots=1\nd2 slots=2\nd3\nd3\n", "d2/3 d3/0", "", "d1/2 d2/3 d3/0"},
		{"d1\nd1 slots=2\nd2 slots=3\nd3 slots=1\n", "", "", "d1/2 d2/3 d3/1"},
		{"d1 slots=2\nd1 slots=1\nd2 slots=3\nd3\n", "", "d1/3", "d1/3 d2/3 d3/0"},
	} {
		if err := os.WriteFile(path, []byte(c.text), 0o644); err != nil {
			t.Fatal(err)
		}
		got, err := f.Poll()
		if err != nil || names(got.Added) != c.added || names(got.Resized) != c.resized || len(got.Removed) > 0 || names(f.Hosts()) != c.listed {
			t.Errorf("%q: added %s, resized %s, removed %s, error %v, then %s; want %s, %s, none, then %s", c.text, names(got.Added), names(got.Resized), names(got.Removed), err, names(f.Hosts()), c.added, c.resized, c.listed)
		}
	}
}

// A host that is in the file already, since it could not join say, and is added with other limits
// has these.
func TestAHostThatIsAddedAgainHasItsNewLimits(t *testing.T) {
	dir := t.TempDir()
	f := open(t, dir, "d1\n")
	path := filepath.Join(dir, Name)
	if err := os.WriteFile(path, []byte("d1 # first\nd2 slots=2 # the fast one\nd2\nd3\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Poll(); err != nil {
		t.Fatal(err)
	}
	if err := f.Add(hosts.Host{Name: "d2", Slots: 2}); err != nil {
		t.Fatal(err)
	}
	if got, want := read(t, path), "d1 # first\nd2 slots=2 # the fast one\nd2\nd3\n"; got != want {
		t.Errorf("with the same limits: host_worker has %q, want %q", got, want)
	}
	if err := f.Add(hosts.Host{Name: "d2", GPUs: hosts.NoGPUs, CPUs: 4}); err != nil {
		t.Fatal(err)
	}
	if got, want := read(t, path), "d1 # first\nd2 gpus=0 cpus=4 # the fast one\nd3\n"; got != want {
		t.Errorf("host_worker has %q, want %q", got, want)
	}
	if c, err := f.Poll(); err != nil || !c.Empty() {
		t.Errorf("after that the file asks for %+v, error %v, want nothing", c, err)
	}
}

// Between our own change and the next Poll somebody may bring back what the Poll before has read:
// that is an edit, too.
func TestAnEditThatUndoesOurOwnChangeIsSeen(t *testing.T) {
	f := open(t, t.TempDir(), "d1\n")
	before := read(t, f.Path)
	if c, err := f.Poll(); err != nil || !c.Empty() {
		t.Fatalf("Poll: %+v, %v, want nothing", c, err)
	}
	if err := f.Add(hosts.Host{Name: "d2"}); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(f.Path, []byte(before), 0o644); err != nil {
		t.Fatal(err)
	}
	if c, err := f.Poll(); err != nil || names(c.Removed) != "d2/0" {
		t.Errorf("Poll: %+v, %v, want d2 removed", c, err)
	}
}

// A program's edit is seen by the next Poll, as an operator's is, and leaves the operator's lines
// as they are.
func TestEditIsReportedByTheNextPoll(t *testing.T) {
	for _, tc := range []struct {
		name, before           string
		added, removed, resize string
		after                  string
		want                   string // of the Poll
	}{
		{"added", "d1\n# mine\n", "d2 slots=2\nd3\n", "", "", "d1\n# mine\nd2 slots=2\nd3\n", "d2/2 d3/0||"},
		{"behind a line without an end", "d1", "d2\n", "", "", "d1\nd2\n", "d2/0||"},
		{"there already", "d1\nD2. slots=3 # mine\n", "d2\nd1\n", "", "", "d1\nD2. slots=3 # mine\n", "D2./3||"},
		{"removed with all its lines", "d1\nd2 # a\n\nD2\n", "", "d2\n", "", "d1\n\n", "||"},
		{"removed and added", "d1\nd9 # x\n", "d2\n", "d9\nd8\n", "", "d1\nd2\n", "d2/0||"},
		{"resized", "d1 # a\nd1\n", "", "", "d1 slots=4\nd7 slots=2\n", "d1 slots=4 # a\n", "||d1/4"},
		{"a line that cannot be read stays", "d1\nd2 slot=3\n", "d3\n", "d2\n", "", "d1\nd2 slot=3\nd3\n", "error"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := open(t, t.TempDir(), "d1\n")
			if err := os.WriteFile(f.Path, []byte(tc.before), 0o644); err != nil {
				t.Fatal(err)
			}
			c := Change{Added: parse(t, tc.added), Removed: parse(t, tc.removed), Resized: parse(t, tc.resize)}
			if err := f.Edit(c); err != nil {
				t.Fatal(err)
			}
			if got := read(t, f.Path); got != tc.after {
				t.Errorf("host_worker has %q, want %q", got, tc.after)
			}
			got, err := f.Poll()
			text := names(got.Added) + "|" + names(got.Removed) + "|" + names(got.Resized)
			if err != nil {
				text = "error"
			}
			if text != tc.want {
				t.Errorf("Poll: %s, %v, want %s", text, err, tc.want)
			}
		})
	}
}

// A host that the job could not use is reported again once it can be used, if it is still listed.
func TestRepeatReportsAListedHostAgain(t *testing.T) {
	f := open(t, t.TempDir(), "d1\nd2 slots=2\n")
	for host, want := range map[string]string{"d2": "d2/2||", "d3": "||"} {
		f.Repeat(parse(t, host+"\n")[0])
		c, err := f.Poll()
		if got := names(c.Added) + "|" + names(c.Removed) + "|" + names(c.Resized); err != nil || got != want {
			t.Errorf("Poll after Repeat of %s: %s, %v, want %s", host, got, err, want)
		}
		if c, err := f.Poll(); err != nil || !c.Empty() {
			t.Errorf("the Poll after that: %+v, %v, want nothing", c, err)
		}
	}
}
