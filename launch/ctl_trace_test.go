package main

import (
	"compress/gzip"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// A traceFile is a timeline as a viewer reads it.
type traceFile struct {
	OtherData struct {
		Job            string
		Arrows, Pushes int
		Nodes          []struct {
			Name, Missing string
			BoundUS       float64 `json:"clock_bound_us"`
		}
		Warnings []string
	}
	TraceEvents []struct {
		Ph, Cat, Name string
		PID, TID, ID  int
		TS, Dur       float64
		Args          map[string]any
	}
}

func readTrace(t *testing.T, path string) (f traceFile) {
	t.Helper()
	r, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	z, err := gzip.NewReader(r)
	if err == nil {
		err = json.NewDecoder(z).Decode(&f)
	}
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return f
}

// cats are the kinds of spans of each process that is named.
func (f *traceFile) cats() map[string][]string {
	names, cats := map[int]string{}, map[string][]string{}
	for _, e := range f.TraceEvents {
		if e.Ph == "M" && e.Name == "process_name" {
			names[e.PID] = fmt.Sprint(e.Args["name"])
		}
	}
	for _, e := range f.TraceEvents {
		if e.Ph == "X" && !slices.Contains(cats[names[e.PID]], e.Cat) {
			cats[names[e.PID]] = append(cats[names[e.PID]], e.Cat)
		}
	}
	return cats
}

// checkArrows wants each arrow to go forward in time, from a push over its round to its pull.
func (f *traceFile) checkArrows(t *testing.T) {
	t.Helper()
	bound := 0.0
	for _, n := range f.OtherData.Nodes {
		bound += n.BoundUS
	}
	at, phases := map[int]float64{}, map[int]string{}
	for _, e := range f.TraceEvents {
		if e.Cat != "flow" {
			continue
		}
		if e.TS < at[e.ID]-bound {
			t.Errorf("arrow %d goes from %g µs to %g µs, %s after %s: more than the clocks' bound of %g µs back", e.ID, at[e.ID], e.TS, e.Ph, phases[e.ID], bound)
		}
		at[e.ID], phases[e.ID] = e.TS, phases[e.ID]+e.Ph
	}
	whole := 0
	for id, p := range phases {
		if p == "stf" {
			whole++
		} else if p != "st" {
			t.Errorf("arrow %d has the ends %s, want s, t and mostly f", id, p)
		}
	}
	if whole == 0 {
		t.Errorf("of %d arrows none goes from a push over its round to a pull", len(phases))
	}
}

// A running job is recorded without restart, again and again, and also while a worker is killed.
func TestTraceOfARunningJob(t *testing.T) {
	takesLong(t)
	t.Parallel()
	j := startElastic(t)
	path := filepath.Join(t.TempDir(), "t.json.gz")
	j.wantCtl(t, 0, `(?s)recording 0\.3 s of 2 workers and 1 server, .*t\.json\.gz: .*\d+ spans in .*, (\d+) of \d+ pushes with their rounds; clocks are known to ±`,
		"trace", "--seconds", "0.3", "-o", path)
	f := readTrace(t, path)
	for name, cats := range f.cats() {
		for _, want := range map[bool][]string{true: {"push", "pull"}, false: {"round", "apply", "receive", "answer"}}[strings.HasPrefix(name, "worker")] {
			if !slices.Contains(cats, want) {
				t.Errorf("%s has spans of %v, want %s too", name, cats, want)
			}
		}
	}
	if n := len(f.cats()); n != 3 || len(f.OtherData.Warnings) > 0 {
		t.Errorf("%d processes have spans, want 3; warnings: %q", n, f.OtherData.Warnings)
	}
	f.checkArrows(t)

	ended := make(chan string)
	go func() {
		code, out := j.ctl(t, "trace", "--seconds", "2", "-o", path)
		ended <- fmt.Sprintf("%d %s", code, out)
	}()
	time.Sleep(3500 * time.Millisecond)
	kill(t, j.worker(t, 1))
	select {
	case out := <-ended:
		if !regexp.MustCompile(`(?s)^0 .*worker 1 on localhost: it has no spans here: it was declared lost: signal 9`).MatchString(out) {
			t.Errorf("a worker was killed: %s", out)
		}
	case <-time.After(patience):
		t.Fatal("the trace of a job whose worker was killed does not end")
	}
	f = readTrace(t, path)
	if len(f.OtherData.Warnings) == 0 || len(f.OtherData.Nodes) != 3 {
		t.Errorf("the file has %d nodes and the warnings %q, want 3 and that a worker's spans are missing", len(f.OtherData.Nodes), f.OtherData.Warnings)
	}
	f.checkArrows(t)

	// Ctrl-C leaves no file, and nothing at the scheduler: another trace begins at once.
	none := filepath.Join(t.TempDir(), "none.json.gz")
	cmd := exec.Command(launchProgram, "ctl", "trace", "--seconds", "100", "-o", none)
	cmd.Dir, cmd.Env = j.Dir, append(os.Environ(), "XDG_RUNTIME_DIR="+j.records)
	stderr := &output{on: make(chan struct{}, 1)}
	cmd.Stderr = stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for !strings.Contains(stderr.String(), "recording 100") {
		select {
		case <-stderr.on:
		case <-time.After(patience):
			t.Fatalf("launch ctl trace says only\n%s", stderr)
		}
	}
	cmd.Process.Signal(os.Interrupt)
	cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != 1 || !strings.Contains(stderr.String(), "stopped by a signal; nothing was written") {
		t.Errorf("after Ctrl-C: exit code %d, want 1, and that nothing was written in\n%s", code, stderr)
	}
	if files, _ := filepath.Glob(filepath.Join(filepath.Dir(none), "*")); len(files) > 0 {
		t.Errorf("Ctrl-C leaves %q", files)
	}
	j.wantCtl(t, 0, `t\.json\.gz: `, "trace", "--seconds", "0.1", "-o", path)
	j.finish(t)
	j.wantCtl(t, 1, "no job of yours", "trace", "-o", path)
}

func TestCtlTraceNamesWhatItRefuses(t *testing.T) {
	for args, want := range map[string]string{
		"--steps 0":               "--steps 0: want 1 to 1000",
		"--within 3m":             "--within 3m0s: want more than 0 and at most 2m0s",
		"--seconds 0":             "--seconds 0: want more than 0 and at most 120",
		"--seconds 5 --steps 3":   "want either seconds or steps",
		"--ranks 5-3":             `got "5-3", want ranks such as 0 or 3-5`,
		"--ranks 0,x":             `got "x", want ranks such as 0 or 3-5`,
		"--ranks 0-40":            "more than 32 ranks",
		"--ranks 0-65535,0-65535": "more than 32 ranks",
		"now":                     `got "now", want flags only`,
	} {
		if code, _, stderr := runCtl(append([]string{"trace"}, strings.Fields(args)...)...); code != 2 || !strings.Contains(stderr, want) {
			t.Errorf("ctl trace %s: exit code %d: %s, want 2 and %q", args, code, stderr, want)
		}
	}
}

// A file that cannot be written is refused before anything is asked of a job.
func TestCtlTraceRefusesAnOutputFirst(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		filepath.Join(dir, "none", "t.json"): "create a file in " + filepath.Join(dir, "none") + ": no such file or directory",
		filepath.Join(file, "t.json"):        "not a directory",
		dir:                                  "is not a regular file",
		os.DevNull:                           "is not a regular file",
	} {
		code, _, stderr := runCtl("trace", "-o", path)
		if code != 1 || !strings.Contains(stderr, "--output "+path) || !strings.Contains(stderr, want) {
			t.Errorf("ctl trace -o %s: exit code %d: %s, want 1 and %q", path, code, stderr, want)
		}
	}
	if files, _ := filepath.Glob(filepath.Join(dir, "*")); len(files) != 1 {
		t.Errorf("the folder has %q, want the file that was there", files)
	}
}
